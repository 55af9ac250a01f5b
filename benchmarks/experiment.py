"""Any experiment of configs/experiment over seeds and strategies, as a table with paired differences.

    python benchmarks/experiment.py split_fashion_hlop --strategies naive hlop --seeds 3 --jobs 2
    python benchmarks/experiment.py five_offline_hlop --strategies naive hlop joint --seeds 1 model.width=10

Every cell is a run of `python -m continual experiment=NAME`, kept in its run folder, so an interrupted benchmark goes
on where it stopped. Further arguments are overrides.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor

from permuted_mnist5k import difference, print_table, run_cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--strategies", nargs="+", default=["naive", "hlop"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--output", default="runs")
    options = parser.parse_intermixed_args()
    shared = (f"experiment={options.experiment}", *options.overrides, "threads=1", f"output={options.output}")
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {
            (name, seed): pool.submit(run_cell, name, (*shared, f"seed={seed}"))
            for seed in range(options.seeds)
            for name in options.strategies
        }
        metrics = {cell: future.result() for cell, future in cells.items()}
    print_table(metrics, options.strategies, options.seeds)
    first, *others = options.strategies
    for name in others:
        learned = difference(metrics, name, first, "acc_learning", options.seeds)
        print(f"\nACC when learned, {name} − {first} on equal seeds: {learned} points")


if __name__ == "__main__":
    main()
