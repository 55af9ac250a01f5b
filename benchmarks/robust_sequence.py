"""What a task sequence does to robustness: three permuted MNIST-5k tasks, objectives under strategies.

    python benchmarks/robust_sequence.py --models relu_mlp spiking_mlp --seeds 3 --jobs 2

Every cell is a run of `python -m continual experiment=robust_sequence` with two measurements after each task, on 100
images: PGD-20 in l∞ (robust and stable accuracy), and randomised smoothing (n = 1,000, alpha = 0.001, certified
accuracy at a radius of sigma). PASS sees labels of 500 samples a task and 3,500 samples without.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from permuted_mnist5k import interval, run_cell

SIGMA = 0.25
EPSILON = 0.1
OBJECTIVES = {
    "cross_entropy": (),
    "gaussian": (f"objective.sigma={SIGMA}",),
    "macer": (f"objective.sigma={SIGMA}", "objective.copies=4"),
    "pass": ("objective.steps=7", f"objective.threat.epsilon={EPSILON}", "num_labelled=500"),
}
STRATEGIES = ("naive", "er", "hlop")
MEASURED = (
    "robustness=[pgd20,smoothing]",
    f"robustness.pgd20.threat.epsilon={EPSILON}",
    "robustness.pgd20.num_samples=100",
    f"robustness.smoothing.sigma={SIGMA}",
    f"robustness.smoothing.radii=[{SIGMA}]",
    "robustness.smoothing.num_samples=100",
)
CERTIFIED = f"smoothing_r{SIGMA:g}"
COLUMNS = {
    "ACC": "acc_final",
    "BWT": "bwt",
    "robust": "robust_final_pgd20",
    "robust BWT": "robust_bwt_pgd20",
    "stable BWT": "stable_bwt_pgd20",
    "certified": f"certified_final_{CERTIFIED}",
    "certified BWT": f"certified_bwt_{CERTIFIED}",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=["relu_mlp", "spiking_mlp"])
    parser.add_argument("--objectives", nargs="+", default=list(OBJECTIVES), choices=list(OBJECTIVES))
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--output", default="runs/robust_sequence")
    options = parser.parse_args()
    rows = list(product(options.models, options.objectives, options.strategies))
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {
            (*row, seed): pool.submit(
                run_cell, row[2], (*overrides(*row[:2]), f"seed={seed}", f"output={options.output}")
            )
            for seed in range(options.seeds)
            for row in rows
        }
        metrics = {cell: future.result() for cell, future in cells.items()}
    print(
        f"ε = {EPSILON} (l∞), certified at r = σ = {SIGMA}, 100 images, {options.seeds} seeds, 95 % t-intervals, in %\n"
    )
    print(f"| model | objective | strategy | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 3)}")
    for row in rows:
        found = [metrics[*row, seed] for seed in range(options.seeds)]
        numbers = " | ".join(interval([run[column] for run in found]) for column in COLUMNS.values())
        print(f"| {' | '.join(row)} | {numbers} |")


def overrides(model: str, objective: str) -> tuple[str, ...]:
    time = () if model.startswith("relu") else ("model.time_steps=4",)
    chosen = ("experiment=robust_sequence", f"model={model}", "model.hidden=[256,256]", f"objective={objective}")
    return (*chosen, *OBJECTIVES[objective], *time, *MEASURED, "threads=1")


if __name__ == "__main__":
    main()
