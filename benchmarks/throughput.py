"""What the runner costs beside a bare PyTorch loop, and what avalanche-lib costs there: naive and EWC.

    python benchmarks/throughput.py [--rounds 3] [--without-avalanche]

The same ReLU network, permuted MNIST-5k data, batch size, optimiser and number of threads, in the same run: the bare
loop (zero_grad, forward, cross-entropy, backward, step over tensors in memory), `python -m continual` and avalanche-lib
take turns, and the table gives the median of the rounds. Training alone is compared: EWC's from the second task on,
where its penalty acts, and its Fisher passes stand in a column of their own. The bare loop under EWC is the naive one.

avalanche-lib needs torchvision, so it lives in an environment of its own that this command makes (--environment).
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

import continual
from continual.compose import compose
from continual.config import build
from continual.data import mnist5k
from continual.scenarios import permuted

PACKAGES = ("torch==2.14.1", "torchvision==0.29.1", "avalanche-lib==0.6.0")
FISHER_SAMPLES = 1000
LEARNING_RATE = 0.01
NUM_TASKS = 3


class Setting(NamedTuple):
    """A network and how it is trained."""

    hidden: tuple[int, int]
    batch_size: int
    epochs: int


class Cost(NamedTuple):
    """Seconds of training on the tasks after the first, and of the Fisher passes, per task."""

    training: float
    fisher: float = 0.0


SETTINGS = (Setting((800, 800), 64, 3), Setting((100, 100), 10, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--without-avalanche", action="store_true")
    parser.add_argument("--environment", type=Path, default=Path("runs/avalanche-environment"))
    options = parser.parse_args()
    foreign = None if options.without_avalanche else environment(options.environment)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        tasks = Path(folder) / "tasks.npz"
        save_tasks(tasks)
        for setting in SETTINGS:
            contestants = contestants_of(setting, options.threads, tasks, foreign)
            rounds = [{name: run() for name, run in contestants.items()} for _ in range(options.rounds)]
            print_table(setting, options, rounds)


def contestants_of(setting: Setting, threads: int, tasks: Path, foreign: Path | None) -> dict:
    found = {
        "bare PyTorch loop": lambda: bare(setting, tasks),
        "palimpsest naive": lambda: ours(setting, threads, "naive"),
        "palimpsest ewc": lambda: ours(setting, threads, "ewc", f"strategy.fisher.max_samples={FISHER_SAMPLES}"),
        "palimpsest ewc_batch_mean": lambda: ours(setting, threads, "ewc_batch_mean"),
    }
    if foreign is not None:
        for strategy, measured in product(("naive", "ewc"), ("default", "none")):
            run = partial(avalanche, setting, threads, tasks, foreign, strategy, measured)
            found[f"avalanche-lib {strategy}, {measured} metrics"] = run
    return found


def save_tasks(path: Path) -> None:
    sequence = permuted(mnist5k(), num_tasks=NUM_TASKS)
    inputs = np.stack([task.train.inputs for task in sequence.tasks]).reshape(NUM_TASKS, -1, 784)
    np.savez(path, inputs=inputs, targets=np.stack([task.train.targets for task in sequence.tasks]))


def bare(setting: Setting, tasks: Path) -> Cost:
    """Train task after task with nothing but torch."""
    stored = np.load(tasks)
    shape = {"input_shape": (28, 28), "num_classes": 10}
    description = compose(["model=relu_mlp", f"model.hidden={list(setting.hidden)}"])
    model, seconds = build(description["model"], "model", **shape), []
    for images, labels in zip(stored["inputs"], stored["targets"], strict=True):
        inputs, targets = torch.from_numpy(images).float() / 255, torch.from_numpy(labels).long()
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        started = time.perf_counter()
        for _ in range(setting.epochs):
            for chosen in torch.randperm(len(targets)).split(setting.batch_size):
                optimizer.zero_grad()
                F.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
                optimizer.step()
        seconds.append(time.perf_counter() - started)
    return Cost(statistics.mean(seconds[1:]))


def ours(setting: Setting, threads: int, strategy: str, *overrides: str) -> Cost:
    """Train with the runner, in a run folder that is thrown away."""
    with tempfile.TemporaryDirectory() as output:
        chosen = ("model=relu_mlp", f"model.hidden={list(setting.hidden)}", f"scenario.num_tasks={NUM_TASKS}")
        amount = (f"batch_size={setting.batch_size}", f"epochs={setting.epochs}", f"optimizer.lr={LEARNING_RATE}")
        place = (f"threads={threads}", f"output={output}", "evaluate_future=false")
        folder = continual.run([*chosen, *amount, *place, *overrides], strategy=strategy).folder
        lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    ends = [line for line in lines if line["event"] == "task_end"]
    return Cost(
        statistics.mean(line["seconds_train"] for line in ends[1:]),
        statistics.mean(line["seconds_consolidate"] for line in ends),
    )


def avalanche(setting: Setting, threads: int, tasks: Path, python: Path, strategy: str, measured: str) -> Cost:
    """Train with avalanche-lib in its own environment."""
    script = Path(__file__).with_name("avalanche_loop.py")
    words = [strategy, measured, tasks, *setting.hidden, setting.batch_size, setting.epochs, LEARNING_RATE, threads]
    answer = subprocess.run([python, script, *map(str, words)], check=True, capture_output=True, text=True)
    return Cost(**json.loads(answer.stdout.splitlines()[-1]))


def environment(folder: Path) -> Path:
    """Make avalanche-lib's environment, or take the one that is there, and give its interpreter."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making {folder} with {', '.join(PACKAGES)}", file=sys.stderr)
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def print_table(setting: Setting, options: argparse.Namespace, rounds: list[dict]) -> None:
    size = "-".join(map(str, (784, *setting.hidden, 10)))
    print(f"\n{size}, batch {setting.batch_size}, {options.threads} thread(s), median of {options.rounds} rounds\n")
    print("| loop | training, s a task | × bare loop | Fisher, s a task |\n|---|---|---|---|")
    for name in rounds[0]:
        cost = Cost(*map(statistics.median, zip(*(one[name] for one in rounds), strict=True)))
        ratios = [one[name].training / one["bare PyTorch loop"].training for one in rounds]
        print(f"| {name} | {cost.training:.2f} | {statistics.median(ratios):.2f} | {cost.fisher:.2f} |")


if __name__ == "__main__":
    main()
