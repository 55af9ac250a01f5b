"""What certification costs beside the network alone, and what sequential rules save: LeNet on MNIST-5k.

    python benchmarks/certification.py throughput [--rounds 30]
    python benchmarks/certification.py draws [--images 24] [--sigmas 0.25 0.5] [--output FOLDER]

Throughput: the same number of noisy copies goes (a) through the bare network, prepared beforehand in batches of the
same size, (b) through `certify`, (c) through the usual loop, one image at a time with votes counted in Python. They
take turns of half a second; the table gives medians of processor seconds of the one thread (the machine is shared, so
the clock on the wall measures the neighbours) and the quartiles of the ratio within a turn. (d) is what is left of
`certify` when the network costs nothing: noise, counting, bounds, fingerprint and checks alone.

Draws: the same images, network, noise and alpha under a fixed sample of 10,000, under the mixture sequence and under
three looks, all asked for certified accuracy at 0, 0.5, 1, 1.5 and 2 sigma. A decision is one image at one radius; two
rules differ on it where one certifies the radius and the other does not.
"""

import argparse
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from continual.data import mnist5k
from continual.robustness import AboveRadii, Certificates, FixedSample, Looks, MixtureSequence, certify
from continual.robustness.smoothing.clopper_pearson import clopper_pearson_lower
from continual.robustness.smoothing.page import write_page
from continual.seeding import seeded, stream

BATCH, COPIES, ALPHA, MOST = 400, 2000, 0.001, 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["throughput", "draws"])
    parser.add_argument("--images", type=int, default=24, help="test images, evenly spaced")
    parser.add_argument("--sigmas", type=float, nargs="+", default=[0.25, 0.5])
    parser.add_argument("--rounds", type=int, default=30, help="turns of the throughput comparison")
    parser.add_argument("--epochs", type=int, default=5, help="of training with Gaussian noise")
    parser.add_argument("--output", type=Path, default=None, help="where figures and a page go")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = mnist5k()
    images, labels = tensors(data.test)
    chosen = torch.linspace(0, len(images) - 1, options.images).long()
    if options.part == "throughput":
        print(throughput(lenet().eval(), images[:1], 0.25, options.rounds))
        return
    for sigma in options.sigmas:
        network = trained(sigma, options.epochs, data.train)
        found = compared(network, images[chosen], labels[chosen], sigma, chosen.tolist())
        print(savings(found, sigma), flush=True)
        if options.output is not None:
            write_page(found, radii_of(sigma), options.output / f"sigma_{sigma:g}")


def tensors(part):
    return torch.as_tensor(part.inputs).float().div(255).view(-1, 1, 28, 28), torch.as_tensor(part.targets).long()


def lenet() -> nn.Sequential:
    """Two convolutions of 5x5 with 20 and 50 channels, and 500 hidden units."""
    convolutions = (nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def trained(sigma, epochs, part):
    with seeded(0, "init"):
        network = lenet()
    images, targets = tensors(part)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    order, noise = stream(0, "order"), stream(0, "noise")
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=order).split(64):
            noisy = images[rows] + sigma * torch.randn(images[rows].shape, generator=noise)
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(noisy), targets[rows]).backward()
            optimizer.step()
    return network.eval()


def throughput(network, image, sigma, rounds):
    rule = FixedSample(COPIES - 100, ALPHA)
    prepared = [image + sigma * torch.randn(BATCH, 1, 28, 28) for _ in range(COPIES // BATCH)]
    free = FreeNetwork()
    ways = {
        "bare forward": lambda: [network(batch) for batch in prepared],
        "certify": lambda: certify(network, image, sigma, rule=rule, batch_size=BATCH),
        "usual loop": lambda: usual(network, image[0], sigma),
        "certify, network for nothing": lambda: certify(free, image, sigma, rule=rule, batch_size=BATCH),
    }
    seconds = {name: [] for name in ways}
    with torch.no_grad():
        for turn in range(rounds + 1):
            for name, way in ways.items():
                start = time.process_time()
                way()
                if turn:  # the first warms up
                    seconds[name].append(time.process_time() - start)
    lines = [
        f"throughput, {COPIES} copies a turn in batches of {BATCH}, {rounds} turns, torch {torch.__version__}",
        "",
        "| | µs a copy | bare / own | quartiles |",
        "|---|---|---|---|",
    ]
    for name, times in seconds.items():
        shares = [bare / own for bare, own in zip(seconds["bare forward"], times, strict=True)]
        low, middle, high = statistics.quantiles(shares, n=4)
        each = 1e6 * statistics.median(times) / COPIES
        lines.append(f"| {name} | {each:.1f} | {middle:.3f} | {low:.3f}–{high:.3f} |")
    return "\n".join(lines) + "\n"


class FreeNetwork(nn.Module):
    """Answers at once."""

    def __init__(self):
        super().__init__()
        self.register_buffer("answer", torch.eye(10)[:1].repeat(BATCH, 1))

    def forward(self, images):
        """Give the same logits for every copy."""
        return self.answer[: len(images)]


def usual(network, image, sigma):
    """Certify one image as published loops do: repeat it, add noise, count votes one by one."""
    counts = np.zeros((2, 10), int)
    for purpose, number in enumerate((100, COPIES - 100)):
        while number > 0:
            size = min(BATCH, number)
            number -= size
            batch = image.repeat(size, 1, 1, 1)
            for vote in network(batch + torch.randn_like(batch) * sigma).argmax(1).numpy():
                counts[purpose, vote] += 1
    agreeing = counts[1, counts[0].argmax()]
    return float(clopper_pearson_lower(agreeing, COPIES - 100, ALPHA))


def radii_of(sigma):
    return [sigma * step for step in (0, 0.5, 1, 1.5, 2)]


def compared(network, images, labels, sigma, indices) -> dict[str, Certificates]:
    goal = AboveRadii(radii_of(sigma))
    run = partial(certify, network, images, sigma, labels, indices=indices, batch_size=BATCH)
    return {
        "fixed sample": run(rule=FixedSample(MOST, ALPHA)),
        "mixture sequence": run(rule=MixtureSequence(MOST, ALPHA), goal=goal),
        "three looks": run(rule=Looks((100, 1000, MOST), ALPHA), goal=goal),
    }


def savings(found, sigma):
    radii, fixed = radii_of(sigma), found["fixed sample"]
    lines = [
        f"draws, sigma {sigma:g}, {len(fixed)} images, alpha {ALPHA:g}, radii {', '.join(f'{r:g}' for r in radii)}",
        "",
        f"| | ceiling | draws an image | of fixed | {' | '.join(f'r = {r:g}' for r in radii)} | differ from fixed |",
        "|---|---|---|---|" + "---|" * (len(radii) + 1),
    ]
    for name, own in found.items():
        mean = own.column("draws").mean()
        shares = " | ".join(f"{100 * own.certified_accuracy(radius):.1f}" for radius in radii)
        other = sum(int((above(own, r) != above(fixed, r)).sum()) for r in radii)
        lines.append(
            f"| {name} | {own.budget.rule.ceiling:.3f} σ | {mean:.0f} | {mean / MOST:.3f} | {shares} | "
            f"{other} of {len(radii) * len(own)} |"
        )
    return "\n".join(lines) + f"\n\nACR (fixed sample) {fixed.average_certified_radius:.4f}\n"


def above(found, radius):
    return ~found.abstained & (found.radii >= radius)


if __name__ == "__main__":
    main()
