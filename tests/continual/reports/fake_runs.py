"""Made-up run folders. Nothing in them was measured: the numbers are drawn to look like a run, to test the reports."""

import json
from pathlib import Path

import numpy as np
import yaml

from continual.metrics import AccuracyMatrices, summarise

LAYERS = ("hidden.0", "hidden.1", "readout")
WIDTHS = (784, 800, 500)


def _matrix(num_tasks, strategy, seed):
    random = np.random.default_rng(1000 * seed + len(strategy))
    fade = {"naive": 0.13, "ewc": 0.06, "hlop": 0.008}.get(strategy, 0.05)
    R = np.full((num_tasks, num_tasks), np.nan)
    if strategy == "joint":
        R[-1] = 0.94 + 0.01 * random.random(num_tasks)
        return R
    for j in range(num_tasks):
        for i in range(num_tasks):
            age = i - j
            level = 0.10 if age < 0 else max(0.12, 0.945 - 0.004 * j - fade * age)
            R[i, j] = np.clip(level + 0.012 * random.standard_normal(), 0, 1)
    return R


def _records(num_tasks, strategy, seed, names, R, mode, spiking, protected):
    yield {
        "event": "run_start", "strategy": strategy, "scenario": "permuted_digits", "experiment": "fixture",
        "seed": seed, "num_tasks": num_tasks, "task_names": names, "mode": mode, "device": "cpu", "dtype": "float32",
        "versions": {"palimpsest": "0.1.0", "numpy": np.__version__},
    }  # fmt: skip
    random = np.random.default_rng(seed)
    trained = [num_tasks - 1] if strategy == "joint" else range(num_tasks)
    for task in trained:
        for epoch in range(4):
            loss = 0.35 + 1.9 * np.exp(-1.1 * epoch) + 0.05 * random.random()
            yield {
                "event": "epoch", "task": task, "epoch": epoch, "loss": loss,
                "accuracy": 0.96 - 0.5 * np.exp(-1.2 * epoch), "learning_rate": 0.1, "seconds": 1.1,
            }  # fmt: skip
        row = [None if np.isnan(value) else value for value in R[task]]
        rates = [0.081 + 0.004 * task, 0.052 + 0.003 * task, None]
        layers = [
            {
                "name": name, "rate": rate if spiking else None,
                "synaptic_operations": 21000.0 * (k + 1), "macs": 0.0 if k else 627200,
            }
            for k, (name, rate) in enumerate(zip(LAYERS, rates, strict=True))
        ]  # fmt: skip
        subspaces = [
            {
                "name": name,
                "rank": min(width, 80 + 70 * task),
                "width": width,
                "learned": 80,
                "captured_energy": 0.97 - 0.004 * k,
            }
            for k, (name, width) in enumerate(zip(LAYERS, WIDTHS, strict=True))
        ]
        yield {
            "event": "task_end", "task": task, "task_aware": row, "task_agnostic": row, "seconds_train": 4.4 + task,
            "seconds_consolidate": 1.2, "seconds_evaluate": 0.8, "stored_bytes": 600_000 * (task + 1),
            "layers": layers, "subspaces": subspaces if protected else [],
        }  # fmt: skip
    yield {"event": "run_end", "seconds": 38.2}


def write_fake_run(
    folder: Path,
    strategy="hlop",
    seed=0,
    num_tasks=5,
    mode="domain",
    names=None,
    spiking=True,
    finished=True,
    changes=None,
) -> Path:
    """Write a folder that looks like a finished run; ``changes`` are dotted configuration keys to set."""
    folder.mkdir(parents=True)
    names = names or [f"permutation {j + 1}" for j in range(num_tasks)]
    R = _matrix(num_tasks, strategy, seed)
    matrices = AccuracyMatrices(R, R, np.full(num_tasks, 1000), np.full(num_tasks, 0.11), np.full(num_tasks, 0.1))
    matrices.save(folder / "accuracy_matrix.npz")
    protected = strategy == "hlop"
    summary = {
        "format_version": 1, "strategy": strategy, **summarise(matrices, mode),
        "synaptic_operations": 126_431.5, "macs": 627_200.0,
        "learning_operations": 4.1e9 if protected else 0, "stored_bytes": 3_000_000 if protected else 0,
        "seconds_train": 30.0 + seed, "seconds_consolidate": 6.0, "seconds_evaluate": 4.0, "seconds": 41.3 + seed,
    }  # fmt: skip
    (folder / "metrics.json").write_text(json.dumps(summary, allow_nan=False, indent=1))
    records = [json.dumps(record) for record in _records(num_tasks, strategy, seed, names, R, mode, spiking, protected)]
    (folder / "records.jsonl").write_text("\n".join(records if finished else records[:-1]) + "\n")
    config = {
        "seed": seed, "device": "cpu", "output": str(folder), "epochs": 4,
        "strategy": {"_target_": f"continual.strategies.{strategy}", "name": strategy},
        "scenario": {"name": "permuted_digits", "num_tasks": num_tasks, "mode": mode, "seed": seed},
        "data": {"name": "digits"}, "model": {"neuron": {"tau": 2.0, "threshold": 1.0}, "time_steps": 20},
    }  # fmt: skip
    for key, value in (changes or {}).items():
        place = config
        *parents, last = key.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    if spiking:
        _write_activity(folder, seed)
    return folder


def _write_activity(folder, seed):
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:28, 0:28]
    ring = np.exp(-(((np.hypot((x - 13.5) / 0.8, y - 13.5) - 8.5) / 1.8) ** 2))
    drive = random.gamma(0.6, 0.13, size=(1, 800)), random.gamma(0.6, 0.08, size=(1, 500))
    spikes = {
        f"spikes/{name}": (random.random((20, rate.shape[1])) < rate).astype(np.uint8)
        for name, rate in zip(LAYERS, drive, strict=False)
    }
    np.savez(folder / "activity.npz", image=ring, label=0, **spikes)


def add_measurements(folder, num_tasks=5, classes_per_task=2):
    """Put beside a made-up run what a run may measure besides: within tasks, confusion, references, the ledger."""
    random = np.random.default_rng(0)
    R = AccuracyMatrices.load(folder / "accuracy_matrix.npz").task_agnostic
    dips = [
        {
            "event": "within", "task": i, "epoch": k // 4, "step": 10 * (k % 4 + 1),
            key: [None if j > i else max(0.0, R[i, j] - (j < i) * 0.2 * np.exp(-k)) for j in range(num_tasks)],
            other: [None] * num_tasks,
        }
        for i in range(num_tasks)
        for k in range(8)
        for key, other in (("task_agnostic", "task_aware"),)
    ]  # fmt: skip
    with (folder / "records.jsonl").open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in dips)
    num_classes = classes_per_task * num_tasks
    classes = random.integers(0, 12, (num_tasks, num_classes, num_classes)) + 90 * np.eye(num_classes, dtype=int)
    tasks = classes.reshape(num_tasks, num_tasks, classes_per_task, num_tasks, classes_per_task).sum(axis=(2, 4))
    np.savez(folder / "confusion.npz", classes=classes, tasks=tasks)
    terms = [0.01 * (k + 1) for k in range(num_tasks)]
    references = {
        "format_version": 1, "intransigence": float(np.mean(terms)), "intransigence_per_task": terms,
        "cumulative_restart": "digits-0a0a0a0a", "plasticity": None, "transfer_independent": None, "alone": None,
        "undefined": {"plasticity": "no run of alone among the folders"},
    }  # fmt: skip
    (folder / "references.json").write_text(json.dumps(references))
    ledger = {
        "peak_bytes_train": 5 * 2**20, "peak_bytes_consolidate": None, "samples_seen": 60_000, "optimizer_steps": 940,
        "forward_passes": 90_000, "backward_passes": 60_000, "energy_joules_estimate": 2.5e-6,
        "energy_picojoules_per_mac": 3.0, "energy_picojoules_per_synaptic_operation": 0.5, "min_acc": [0.5, None],
    }  # fmt: skip
    metrics = json.loads((folder / "metrics.json").read_text())
    (folder / "metrics.json").write_text(json.dumps(metrics | ledger))
    return folder
