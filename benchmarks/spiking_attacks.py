"""A spiking MLP and its ReLU twin under every kind of attack: a table of docs/robustness.md.

    python benchmarks/spiking_attacks.py --seeds 3 --jobs 2

Both are runs of `python -m continual experiment=certified_digits` on MNIST-5k (784-256-256-10, ten epochs, T = 6), kept
in their run folders. Each column is the accuracy in % on the first test images, clean errors included: Auto-PGD on the
margin with the surrogate of training, through rates, the best single other surrogate, the worst per image over all
surrogates and rates, Square and transfer from the other network (no gradients of the target), and the worst of all per
image, with the verdicts of the sanity battery.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor

import torch
from permuted_mnist5k import interval
from torch import Tensor

import continual
from continual.batches import as_tensors
from continual.data import mnist5k
from continual.robustness import APGD, PGD, Attack, Battery, Margin, Square, Transfer, evaluate, linf, over_surrogates

NETWORKS = {
    "spiking": ("model=spiking_mlp", "model.time_steps=6", "model.hidden=[256,256]"),
    "ReLU": ("model=relu_mlp", "model.hidden=[256,256]"),
}
COLUMNS = ("clean", "training surrogate", "through rates", "best other", "worst surrogate", "Square", "transfer", "all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=0.05, help="in l∞, of pixels in [0, 1]")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--steps", type=int, default=30, help="of each gradient attack")
    parser.add_argument("--queries", type=int, default=1000, help="of Square")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, one thread each")
    parser.add_argument("--output", default="runs/spiking_attacks")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed in range(options.seeds):
            list(pool.map(folder_of, NETWORKS, [seed] * 2, [options] * 2))
        cells = {(name, s): pool.submit(measured, name, s, options) for s in range(options.seeds) for name in NETWORKS}
        found = {cell: future.result() for cell, future in cells.items()}
    print(f"{options.images} test images, l∞ ε = {options.epsilon}, {options.seeds} seeds, 95 % t-intervals\n")
    print(f"| network | {' | '.join(COLUMNS)} | verdicts |\n|{'---|' * (len(COLUMNS) + 2)}")
    for name in NETWORKS:
        runs = [found[name, seed] for seed in range(options.seeds)]
        verdicts = ", ".join(verdict for _, verdict in runs)
        cells = [interval([run[column] for run, _ in runs]) if column in runs[0][0] else "–" for column in COLUMNS]
        print(f"| {name} | {' | '.join(cells)} | {verdicts} |")


def folder_of(name: str, seed: int, options: argparse.Namespace) -> str:
    """Train a network, or find it."""
    chosen = ["experiment=certified_digits", *NETWORKS[name], "epochs=10", "optimizer.lr=0.1", "optimizer.momentum=0"]
    where = [f"seed={seed}", "threads=1", f"output={options.output}"]
    return str(continual.run([*chosen, *where], strategy="naive").folder)


def measured(name: str, seed: int, options: argparse.Namespace) -> tuple[dict[str, float], str]:
    """Attack one network; give accuracy by column, and the verdict."""
    torch.set_num_threads(1)
    target, source = (continual.load(folder_of(which, seed, options)) for which in (name, rival(name)))
    images, labels = as_tensors(mnist5k(seed).test, torch.device("cpu"), torch.float32)
    images, labels = images[: options.images], labels[: options.images]
    attack, threat = APGD(steps=options.steps, loss=Margin()), linf(options.epsilon)

    def still_right(attack: Attack) -> Tensor:
        return ~attack(target, images, labels, threat, torch.Generator().manual_seed(seed)).success

    right = {"training surrogate": still_right(attack)}
    if name == "spiking":
        rates, *others = [still_right(other) for other in over_surrogates(attack)]
        right["through rates"] = rates
        right["best other"] = min(others, key=lambda left: int(left.sum()))
        right["worst surrogate"] = torch.stack([right["training surrogate"], rates, *others]).all(0)
    right["Square"] = still_right(Square(queries=options.queries))
    right["transfer"] = still_right(Transfer(source, PGD(20, restarts=1)))
    right["all"] = torch.stack(list(right.values())).all(0)
    battery = Battery(options.steps, options.queries, 50, source=source)
    report = evaluate(target, (images, labels), threat, [attack], battery=battery)
    accuracies = {column: float(left.double().mean()) for column, left in right.items()}
    return {"clean": report.clean_accuracy, **accuracies}, report.verdict.status if report.verdict else "not judged"


def rival(name: str) -> str:
    return next(other for other in NETWORKS if other != name)


if __name__ == "__main__":
    main()
