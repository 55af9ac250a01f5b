"""Strategies side by side on permuted MNIST-5k or class-incremental split MNIST-5k: the tables of docs/comparison.md.

    make bench-data
    python benchmarks/comparison.py permuted_mnist5k_comparison model.time_steps=4 --seeds 5 --jobs 2
    python benchmarks/comparison.py permuted_mnist5k_comparison model=relu_mlp --seeds 5 --jobs 2
    python benchmarks/comparison.py split_mnist5k_class model.time_steps=4 --seeds 3 --strategies naive er hlop joint

Every contestant is tuned first, on validation data of the first two tasks with two seeds that no result uses: the
learning rate at the preset's own setting, then its own setting at that learning rate; the best mean validation accuracy
after the second task wins, the first listed among equals, and what diverges is last. Then all run, with seeds that move
the split, the permutations and the weights, tested on digits that none of them saw. ER, DER++ and A-GEM hold as many
bytes as HLOP does at the end (the smallest of its seeds). `hlop_equal` and `gpm_equal` have the same ranks, listed in
configs/sizes/equal_rank_400.yaml.

Every cell is a run of `python -m continual`, kept in its run folder, so an interrupted benchmark goes on where it
stopped.
"""

import argparse
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, NamedTuple

from permuted_mnist5k import difference, interval, run_cell

import continual
from continual.errors import DivergedError

TUNING_SEEDS = (1000, 1001)
LEARNING_RATES = (0.1, 0.05, 0.2)
COLUMNS = ("acc_final", "bwt", "acc_learning")
RIVALS = ("gpm", "owm_taskend", "er", "naive")


class Contestant(NamedTuple):
    """A strategy, what is fixed, and the one setting of its own that is tuned."""

    strategy: str
    fixed: tuple[str, ...] = ()
    setting: str = ""
    values: tuple[Any, ...] = ()
    has_memory: bool = False


EQUAL = ("sizes=equal_rank_400",)
CONTESTANTS = {
    "hlop": Contestant("hlop", (), "sizes.share", (0.95, 0.98, 0.99)),
    "naive": Contestant("naive"),
    "naive_frozen": Contestant("naive_frozen"),
    "ewc": Contestant("ewc", (), "strategy.strength", (30, 100, 300)),
    "si": Contestant("si", (), "strategy.strength", (0.3, 1, 3)),
    "mas": Contestant("mas", (), "strategy.strength", (0.03, 0.1, 0.3)),
    "lwf": Contestant("lwf", (), "strategy.strength", (1, 0.3, 3)),
    "agem": Contestant("agem", has_memory=True),
    "er": Contestant("er", has_memory=True),
    "derpp": Contestant("derpp", (), "strategy.alpha", (0.2, 0.05, 0.5), has_memory=True),
    "gpm": Contestant("gpm", (), "strategy.sizes.share", (0.95, 0.98, 0.99)),
    "owm_taskend": Contestant("owm_taskend", (), "strategy.alpha", (1, 0.1, 10)),
    "nscl": Contestant("nscl", (), "strategy.factor", (10, 100, 1000)),
    "hlop_equal": Contestant("hlop", EQUAL),
    "gpm_equal": Contestant("gpm", (*EQUAL, "strategy.sizes=${sizes}")),
    "joint": Contestant("joint"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--strategies", nargs="+", default=list(CONTESTANTS), choices=list(CONTESTANTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--output", default="runs/comparison")
    options = parser.parse_intermixed_args()
    shared = (f"experiment={options.experiment}", *options.overrides, "threads=1", f"output={options.output}")
    with ProcessPoolExecutor(options.jobs) as pool:
        found = compete(pool, shared, options.strategies, options.seeds)
    print_table(*found, options.seeds)


def compete(pool: Executor, shared: tuple[str, ...], names: list[str], num_seeds: int) -> tuple[dict, dict]:
    """Tune and run everyone, HLOP first if it is there: the memories hold as many bytes as it does."""
    without = [name for name in names if not CONTESTANTS[name].has_memory]
    metrics, tuned = run_all(pool, shared, without, num_seeds)
    ended = [metrics["hlop", seed] for seed in range(num_seeds) if "hlop" in without]
    of_hlop = [run["stored_bytes"] for run in ended if run]
    room = (f"strategy.capacity_bytes={min(of_hlop)}", "strategy.capacity=null") if of_hlop else ()
    others = run_all(pool, (*shared, *room), [name for name in names if name not in without], num_seeds)
    return metrics | others[0], tuned | others[1]


def run_all(pool: Executor, shared: tuple[str, ...], names: list[str], num_seeds: int) -> tuple[dict, dict]:
    """Give metrics by name and seed, and the tuned overrides by name."""
    tuned = {name: tune(pool, shared, CONTESTANTS[name]) for name in names}
    cells = {
        (name, seed): start(pool, name, (*shared, *tuned[name], f"seed={seed}"))
        for seed in range(num_seeds)
        for name in names
    }
    return {cell: finished(future) for cell, future in cells.items()}, tuned


def finished(future: Future) -> dict | None:
    """Give a run's metrics, or None where its loss stopped being finite."""
    try:
        return future.result()
    except DivergedError:
        return None


def tune(pool: Executor, shared: tuple[str, ...], contestant: Contestant) -> tuple[str, ...]:
    """Choose the learning rate, then the contestant's own setting, on validation data of the first two tasks."""
    fixed = (*shared, f"strategy={contestant.strategy}", *contestant.fixed, "data.validation=0.2")
    chosen: tuple[str, ...] = ()
    for key, values in (("optimizer.lr", LEARNING_RATES), (contestant.setting, contestant.values)):
        if values:
            best, *_ = continual.tune([*fixed, *chosen], {key: values}, seeds=TUNING_SEEDS, each=pool.map)
            chosen += best.overrides
    return chosen


def start(pool: Executor, name: str, overrides: tuple[str, ...]):
    contestant = CONTESTANTS[name]
    return pool.submit(run_cell, contestant.strategy, (*contestant.fixed, *overrides))


def print_table(metrics: dict, tuned: dict, num_seeds: int) -> None:
    names = [name for name in CONTESTANTS if name in tuned]
    print(
        f"means over {num_seeds} seeds with 95 % t-intervals, in %; bytes beside the model at the end; seconds of all\n"
    )
    print("| strategy | ACC | BWT | ACC when learned | stored, kB | seconds | tuned |\n|---|---|---|---|---|---|---|")
    for name in names:
        found = [metrics[name, seed] for seed in range(num_seeds)]
        if diverged := sum(run is None for run in found):
            print(f"| {name} | diverged on {diverged} of {num_seeds} seeds | | | | | {', '.join(tuned[name])} |")
            continue
        cells = [interval([run[column] for run in found]) for column in COLUMNS]
        stored, seconds = (sum(run[key] for run in found) / num_seeds for key in ("stored_bytes", "seconds"))
        chosen = ", ".join(override.removeprefix("strategy.").removeprefix("optimizer.") for override in tuned[name])
        print(f"| {name} | {' | '.join(cells)} | {stored / 1e3:.0f} | {seconds:.0f} | {chosen} |")
    pairs = [("hlop", rival) for rival in RIVALS] + [("hlop_equal", "gpm_equal")]
    print(
        "\npaired differences on equal seeds, in points, with 95 % intervals\n\n| pair | ACC | BWT | ACC when learned |"
    )
    print("|---|---|---|---|")
    for first, second in pairs:
        if all(metrics.get((name, seed)) for name in (first, second) for seed in range(num_seeds)):
            cells = [difference(metrics, first, second, column, num_seeds) for column in COLUMNS]
            print(f"| {first} − {second} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
