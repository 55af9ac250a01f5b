"""A defective CNN against its twin, by transfer and by attacks that see it: a table of docs/robustness.md.

    make bench-data
    python benchmarks/defective_networks.py --seeds 3 --jobs 2

Every network is a run of `python -m continual experiment=fashion_defective` (5000 images of Fashion-MNIST, ten epochs),
so an interrupted benchmark goes on where it stopped. Transfer: momentum FGSM, ten steps, on three standard sources of
the same seed: another CNN, a VGG and a ResNet-18. Each figure is over the first test images, clean errors included; the
worst of the sources is taken per image. Adaptive: what the network's own gradients (its masks are part of it) and
Square find, the worst per image.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor

import torch
from permuted_mnist5k import interval
from torch import Tensor, nn

import continual
from continual.batches import as_tensors
from continual.data import fashion_mnist
from continual.robustness import APGD, MIFGSM, Attack, Margin, Square, Transfer, WorstCase, linf

SMALL = "model.channels=[16,32,64]"
TARGETS = {
    "standard": (SMALL,),
    "defective, keep 0.7": ("model=defective_cnn", SMALL, "model.keep=0.7"),
    "defective, keep 0.5": ("model=defective_cnn", SMALL, "model.keep=0.5"),
    "defective, keep 0.5, shared": ("model=defective_cnn", SMALL, "model.keep=0.5", "model.masks=shared"),
}
SOURCES = {
    "CNN": ("model.channels=[24,48,96]",),
    "VGG": ("model=relu_vgg", "model.plan=[16,pool,32,pool,64,64]"),
    "ResNet-18": ("model=relu_resnet18", "model.width=8"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=0.06, help="in l∞, of pixels in [0, 1]")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--root", default="data/fashion-mnist")
    parser.add_argument("--jobs", type=int, default=1, help="networks at a time, one thread each")
    parser.add_argument("--output", default="runs/defective_networks")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        chosen = [(overrides, seed) for overrides in (TARGETS | SOURCES).values() for seed in range(options.seeds)]
        list(pool.map(folder_of, *zip(*chosen, strict=True), [options] * len(chosen)))
        cells = {
            (name, seed): pool.submit(measured, name, seed, options) for name in TARGETS for seed in seeds(options)
        }
        found = {cell: future.result() for cell, future in cells.items()}
    print(
        f"accuracy in %, {options.images} test images, l∞ ε = {options.epsilon}, {options.seeds} seeds, t-intervals\n"
    )
    columns = list(found["standard", 0])
    print(f"| network | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name in TARGETS:
        cells = [interval([found[name, seed][column] for seed in seeds(options)]) for column in columns]
        print(f"| {name} | {' | '.join(cells)} |")


def seeds(options: argparse.Namespace) -> range:
    return range(options.seeds)


def folder_of(overrides: tuple[str, ...], seed: int, options: argparse.Namespace) -> str:
    """Train a network, or find it."""
    where = (f"data.root={options.root}", f"seed={seed}", "threads=1", f"output={options.output}")
    return str(continual.run(["experiment=fashion_defective", *overrides, *where], strategy="naive").folder)


def measured(name: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Attack one target."""
    torch.set_num_threads(1)
    target = continual.load(folder_of(TARGETS[name], seed, options))
    images, labels = as_tensors(fashion_mnist(options.root).test, torch.device("cpu"), torch.float32)
    images, labels = images[: options.images], labels[: options.images]

    def accuracy(attack: Attack) -> float:
        return attack(target, images, labels, linf(options.epsilon), torch.Generator().manual_seed(seed)).accuracy

    transfers = {source: Transfer(source_network(source, seed, options), MIFGSM()) for source in SOURCES}
    own: list[Attack] = [APGD(steps=50), APGD(steps=50, loss=Margin())]
    columns = {"clean": clean_accuracy(target, images, labels)}
    columns |= {f"from {source}": accuracy(attack) for source, attack in transfers.items()}
    columns["worst transfer"] = accuracy(WorstCase(list(transfers.values())))
    columns["Square alone"] = accuracy(Square(queries=500))
    return columns | {"adaptive": accuracy(WorstCase([*own, Square(queries=500)]))}


def source_network(source: str, seed: int, options: argparse.Namespace) -> nn.Module:
    return continual.load(folder_of(SOURCES[source], seed, options))


@torch.no_grad()
def clean_accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return float((model.eval()(images).argmax(1) == labels).double().mean())


if __name__ == "__main__":
    main()
