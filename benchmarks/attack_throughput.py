"""PGD's throughput beside foolbox's and the Adversarial Robustness Toolbox's, on the same network, images and steps.

    pip install 'palimpsest[crosscheck]'
    python benchmarks/attack_throughput.py --rounds 3

LeNet trained on MNIST-5k, 500 test images in one batch, l∞ ε = 0.1, 20 steps of ε/4 from one random start, one thread.
The three take turns; the table gives the median of the rounds, and what each leaves right. Ours also checks its input,
keeps the best of all points and decides on the finished images afresh; that is in its time.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import continual
from continual.batches import as_tensors
from continual.data import mnist5k
from continual.robustness import PGD, linf

EPSILON, STEPS, RELATIVE = 0.1, 20, 0.25
Attack = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""From a network, images and labels to adversarial images."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--output", default="runs/attack_throughput")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chosen = ["experiment=certified_digits", "epochs=3", "threads=1", f"output={options.output}"]
    model = continual.load(continual.run(chosen, strategy="naive").folder)
    images, labels = as_tensors(mnist5k().test, torch.device("cpu"), torch.float32)
    images, labels = images[: options.images], labels[: options.images]
    seconds: dict[str, list[float]] = {name: [] for name in ATTACKS}
    left = {}
    for _ in range(options.rounds):
        for name, attack in ATTACKS.items():
            started = time.perf_counter()
            moved = attack(model, images, labels)
            seconds[name].append(time.perf_counter() - started)
            with torch.no_grad():
                left[name] = float((model(moved).argmax(1) == labels).double().mean())
    ours = statistics.median(seconds["palimpsest"])
    print(f"{options.images} images, {STEPS} steps, one thread, median of {options.rounds} rounds\n")
    print("| PGD of | images a second | × palimpsest's time | left right, % |\n|---|---|---|---|")
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"| {name} | {options.images / median:.0f} | {median / ours:.2f} | {100 * left[name]:.1f} |")


def palimpsest(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    attack = PGD(steps=STEPS, relative_step=RELATIVE, restarts=1)
    return attack(model, images, labels, linf(EPSILON), torch.Generator().manual_seed(0)).images


def foolbox(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    import foolbox as package

    wrapped = package.PyTorchModel(model, bounds=(0, 1), device="cpu")
    attack = package.attacks.LinfPGD(rel_stepsize=RELATIVE, steps=STEPS, random_start=True)
    return attack(wrapped, images, labels, epsilons=EPSILON)[1]


def toolbox(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    loss = nn.CrossEntropyLoss()
    wrapped = PyTorchClassifier(model, loss, tuple(images.shape[1:]), 10, clip_values=(0, 1), device_type="cpu")
    attack = ProjectedGradientDescentPyTorch(
        wrapped,
        norm="inf",
        eps=EPSILON,
        eps_step=RELATIVE * EPSILON,
        max_iter=STEPS,
        num_random_init=1,
        batch_size=len(images),
        verbose=False,
    )
    return torch.from_numpy(attack.generate(images.numpy(), labels.numpy()))


ATTACKS: dict[str, Attack] = {"palimpsest": palimpsest, "foolbox": foolbox, "adversarial-robustness-toolbox": toolbox}


if __name__ == "__main__":
    main()
