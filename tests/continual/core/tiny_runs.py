"""Runs of a fraction of a second on real digits, and what two runs are compared by."""

import copy
import json
import logging
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import yaml
from safetensors.torch import load_file
from torch import nn

from continual.api import run_config
from continual.compose import compose
from continual.data import digits, from_arrays
from continual.progress import Silent

STRATEGIES = ("naive", "naive_frozen", "joint", "cumulative", "hlop", "hlop_hebbian", "hlop_eigen")
NUM_TRAIN, NUM_TEST = 200, 73
MEASURED = ("seconds", "peak_bytes")  # no two runs share these
POISSON = ("model.encoder._target_=neuro.encoding.Poisson", "model.normalise={_target_:neuro.models.Normalise}")
logging.getLogger("matplotlib").setLevel(logging.WARNING)


@lru_cache
def small_data(validation=0.0):
    """The first digits of each part: 200 to learn from, 73 to score, so that no batch size divides them."""
    whole = digits()
    train, test = whole.train, whole.test
    return from_arrays(
        (train.inputs[:NUM_TRAIN], train.targets[:NUM_TRAIN]),
        (test.inputs[:NUM_TEST], test.targets[:NUM_TEST]),
        name="small digits",
        num_classes=10,
        validation=validation,
    )


NO_NEURONS = ("model=relu", "model=defective", "model=lenet", "model=alexnet", "model=vision")
PLAIN = ("epochs", "batch_size", "dtype", "evaluate_on", "evaluate_future")
COMPOSED_BELOW = ("sizes", "schedule")  # other keys are interpolated from these


@lru_cache
def composed(*overrides):
    """Let Hydra compose a tiny run; its neurons fire easily, so that no layer stays silent."""
    kind = next((o for o in overrides if o.startswith("model=")), "model=spiking_mlp")
    other_neurons = any(o.startswith(("neuron=recurrent", "rule=dsr")) for o in overrides)
    lively = () if kind.startswith(NO_NEURONS) or other_neurons else ("model.neuron.threshold=0.3",)
    narrow = ("model.hidden=[12,12]",) if kind.endswith("mlp") else ()
    return compose(["debug=tiny", *narrow, "optimizer.lr=0.5", *lively, *overrides])


def described(*overrides):
    """Describe a tiny run; Hydra is asked for what only it can do, plain values are put in place, as it would."""
    scheduled = any(override.startswith("schedule=") for override in overrides)
    direct = [override for override in overrides if not scheduled and is_direct(override)]
    description = copy.deepcopy(composed(*(override for override in overrides if override not in direct)))
    for override in direct:
        path, _, value = override.partition("=")
        *parents, key = path.split(".")
        node = description
        for parent in parents:
            node = node[parent]
        assert key in node, f"{path} is not in the configuration"
        node[key] = yaml.safe_load(value)
    return description


def is_direct(override):
    """Whether nothing but the value of one key depends on an override."""
    path, _, value = override.partition("=")
    parents = path.split(".")[:-1]
    below = bool(parents) and parents[0].isidentifier() and parents[0] not in COMPOSED_BELOW
    return (below or path in PLAIN) and "{" not in value and not path.endswith("_target_")


def launch(output, *overrides, progress=None, own=None, **settings):
    """Run one strategy on a few digits."""
    parts = {"data": small_data()} | (own or {})
    return run_config(described(*overrides) | {"output": str(output)} | settings | parts, progress)


def foreign_network(seed=0, num_classes=10, dropout=0.3):
    """A plain torch module with dropout and norm statistics, its weights drawn from a seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 12),
            nn.BatchNorm1d(12),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(12, num_classes),
        )


def records_of(folder):
    """Every line of the records without wall times and peaks of memory."""
    lines = (Path(folder) / "records.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if not key.startswith(MEASURED)} for line in lines]


def weights_of(folder):
    """The weights after every task."""
    return [load_file(path) for path in sorted((Path(folder) / "weights").glob("task_*.safetensors"))]


def checkpointed(folder):
    """Every tensor of the last checkpoint, the strategy's state among them."""
    (path,) = (Path(folder) / "checkpoint").glob("after_task_*.safetensors")
    return load_file(path)


def measured(folder):
    """The metrics without wall times and peaks of memory."""
    metrics = json.loads((Path(folder) / "metrics.json").read_text())
    return {key: value for key, value in metrics.items() if not key.startswith(MEASURED)}


def same_tensors(one, other):
    """Whether two dicts of tensors hold the same bits."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def assert_same_run(one, other):
    """Two run folders agree to the last bit in everything but wall time."""
    assert records_of(one) == records_of(other)
    assert measured(one) == measured(other)
    for name in ("accuracy_matrix.npz", "activity.npz", "confusion.npz"):
        assert (one / name).exists() == (other / name).exists()
        if (one / name).exists():
            with np.load(one / name) as left, np.load(other / name) as right:
                assert left.files == right.files
                for key in left.files:
                    np.testing.assert_array_equal(left[key], right[key], err_msg=f"{name} {key}")
    before, after = weights_of(one), weights_of(other)
    assert len(before) == len(after) > 0
    assert all(same_tensors(*pair) for pair in zip(before, after, strict=True))
    assert same_tensors(checkpointed(one), checkpointed(other))


class StopAtStep(Silent):
    """Interrupt a run after so many optimiser steps, counted from the start of a task."""

    def __init__(self, task, step):
        self.task, self.left, self.current = task, step, -1

    def start_task(self, task, trains):
        self.current = task.index

    def step(self):
        if self.current == self.task:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


class StopBeforeTask(Silent):
    """Interrupt a run where a task begins."""

    def __init__(self, task):
        self.task = task

    def start_task(self, task, trains):
        if task.index == self.task:
            raise KeyboardInterrupt
