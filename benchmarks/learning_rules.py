"""Learning rules and error paths, naive beside HLOP, on permuted MNIST-5k: the table of docs/rules.md.

    python benchmarks/learning_rules.py --seeds 3 --jobs 2

Every cell is a run of `python -m continual experiment=permuted_mnist5k_rules`, kept in its run folder, so an
interrupted benchmark goes on where it stopped. Tested on the 1,000 digits of the split; DSR runs T = 20 ticks, the
others 6. Subspaces have the paper's sizes, or half of them with --sizes half_permuted_mnist.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from permuted_mnist5k import difference, interval, run_cell

RULES = ("bptt", "ottt", "sltt", "dsr")
ERROR_PATHS = ("exact", "feedback_alignment", "sign_symmetric")
STRATEGIES = ("naive", "hlop")
COLUMNS = ("acc_final", "bwt", "acc_learning")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=RULES)
    parser.add_argument("--error-paths", nargs="+", default=list(ERROR_PATHS), choices=ERROR_PATHS)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--sizes", default="paper_permuted_mnist", help="a choice of configs/sizes")
    parser.add_argument("--output", default="runs/learning_rules")
    options = parser.parse_args()
    pairs = list(product(options.rules, options.error_paths))
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {
            (rule, path, strategy, seed): pool.submit(run_cell, strategy, settings(rule, path, seed, options))
            for seed in range(options.seeds)
            for rule, path in pairs
            for strategy in options.strategies
        }
        metrics = {cell: future.result().copy() for cell, future in cells.items()}
    print(f"means over {options.seeds} seeds with 95 % t-intervals, in %\n")
    print("| rule | error path | strategy | ACC | BWT | ACC when learned | minutes |\n|---|---|---|---|---|---|---|")
    for rule, path in pairs:
        for strategy in options.strategies:
            found = [metrics[rule, path, strategy, seed] for seed in range(options.seeds)]
            numbers = " | ".join(interval([run[column] for run in found]) for column in COLUMNS)
            minutes = sum(run["seconds"] for run in found) / 60 / options.seeds
            print(f"| {rule} | {path} | {found[0]['strategy']} | {numbers} | {minutes:.1f} |")
    print("\nACC when learned, HLOP − naive on equal seeds, in points\n")
    print("| rule | error path | difference |\n|---|---|---|")
    for rule, path in pairs:
        own = {key[2:]: run for key, run in metrics.items() if key[:2] == (rule, path)}
        print(f"| {rule} | {path} | {difference(own, *reversed(STRATEGIES), 'acc_learning', options.seeds)} |")


def settings(rule: str, error_path: str, seed: int, options: argparse.Namespace) -> tuple[str, ...]:
    chosen = ("experiment=permuted_mnist5k_rules", f"rule={rule}", f"error_path={error_path}")
    ticks = ("model.time_steps=20",) if rule == "dsr" else ()
    return (*chosen, *ticks, f"sizes={options.sizes}", "threads=1", f"seed={seed}", f"output={options.output}")


if __name__ == "__main__":
    main()
