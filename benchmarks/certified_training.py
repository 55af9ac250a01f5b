"""Training objectives under randomised smoothing, MNIST-5k and LeNet: the table of docs/robust_training.md.

    python benchmarks/certified_training.py --seeds 3 --jobs 2
    python benchmarks/certified_training.py --seeds 1 --sigmas 0.5 --n 10000

Every network is a run of `python -m continual experiment=certified_digits`, and its certificates stand in the run's
folder, so an interrupted benchmark goes on where it stopped. ACR is the mean of radius times correctness; certified
accuracy is read at five radii between 0 and the ceiling of n draws. Seconds are those of training, one thread.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import torch
from permuted_mnist5k import interval

import continual
from continual.batches import as_tensors
from continual.data import mnist5k
from continual.robustness import FixedSample, certify

METHODS = {
    "gaussian": ("objective=gaussian",),
    "stability": ("objective=stability",),
    "smooth_adversarial": ("objective=smooth_adversarial", "objective.draws=2", "objective.steps=4"),
    "macer": ("objective=macer", "objective.copies=4", "objective.strength=16", "objective.robust_from_epoch=5"),
    "macer_16": ("objective=macer", "objective.copies=16", "objective.strength=16", "objective.robust_from_epoch=5"),
}
RADII = (0.0, 0.6, 1.2, 1.8, 2.4)
"""In units of sigma; the ceiling of 1,000 draws at alpha = 0.001 is 2.46."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sigmas", type=float, nargs="+", default=[0.25, 0.5])
    parser.add_argument("--methods", nargs="+", default=list(METHODS)[:4], choices=list(METHODS))
    parser.add_argument("--n", type=int, default=1000, help="draws of a certificate, alpha = 0.001")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, one thread each")
    parser.add_argument("--output", default="runs/certified_training")
    options = parser.parse_args()
    cells = list(product(options.sigmas, options.methods, range(options.seeds)))
    with ProcessPoolExecutor(options.jobs) as pool:
        found = {cell: pool.submit(measured, *cell, options) for cell in cells}
        results = {cell: future.result() for cell, future in found.items()}
    print(f"n = {options.n}, alpha = 0.001, {options.images} test images, {options.seeds} seeds, 95 % t-intervals\n")
    radii = " | ".join(f"≥ {radius:g} σ, %" for radius in RADII)
    print(f"| σ | objective | ACR | {radii} | abstained, % | training, s |\n|{'---|' * (len(RADII) + 5)}")
    for sigma, method in product(options.sigmas, options.methods):
        runs = [results[sigma, method, seed] for seed in range(options.seeds)]
        acr = interval([run["acr"] / 100 for run in runs])
        accuracies = " | ".join(interval([run["certified"][place] for run in runs]) for place in range(len(RADII)))
        seconds = sum(run["seconds"] for run in runs) / len(runs)
        abstained = interval([run["abstained"] for run in runs])
        print(f"| {sigma} | {method} | {acr} | {accuracies} | {abstained} | {seconds:.0f} |")


def measured(sigma: float, method: str, seed: int, options: argparse.Namespace) -> dict:
    """Train and certify one network."""
    torch.set_num_threads(1)
    overrides = [
        "experiment=certified_digits",
        *METHODS[method],
        f"objective.sigma={sigma}",
        f"seed={seed}",
        "threads=1",
    ]
    result = continual.run([*overrides, f"output={options.output}"], strategy="naive")
    images, labels = as_tensors(mnist5k(seed).test, torch.device("cpu"), torch.float32)
    file = Path(result.folder) / f"certificates_{options.n}.tsv"
    rule = FixedSample(options.n, alpha=0.001)
    network = continual.load(result.folder)
    chosen = slice(options.images)
    found = certify(network, images[chosen], sigma, labels[chosen], rule=rule, seed=seed, file=file)
    records = [json.loads(line) for line in (Path(result.folder) / "records.jsonl").read_text().splitlines()]
    return {
        "acr": found.average_certified_radius,
        "certified": [found.certified_accuracy(radius * sigma) for radius in RADII],
        "abstained": found.abstention_rate,
        "seconds": next(line["seconds_train"] for line in records if line["event"] == "task_end"),
    }


if __name__ == "__main__":
    main()
