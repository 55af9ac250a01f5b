"""Presets of published protocols: each runs on files in the official layout, and only an unaltered one can verify."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parents[1] / "data"))
import official_layouts as layouts

from continual.api import run
from continual.compose import compose, strategies_of
from continual.errors import UserError
from continual.published import differences, judged
from continual.schedules import Plateau
from continual.validation_loss import validation_loss

QUICK = ("epochs=1", "batch_size=20")
PRESETS = {
    "pmnist10_gpm": (lambda root: layouts.write_idx(root, 100), ("data.root={}", "scenario.num_tasks=2")),
    "cifar100_10split_gpm": (
        lambda root: layouts.write_cifar100(root, per_class=3),
        ("data.root={}", "model.channels=[4,4,4]", "model.hidden=[16,16]", "data.validation=0.34"),
    ),
    "miniimagenet_20split_gpm": (
        lambda root: layouts.write_mini_imagenet(root, classes=(14, 3, 3)),
        ("data.root={}", "model.width=2", "data.validation=0.2"),
    ),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_runs_as_soon_as_the_files_are_there(tmp_path, preset):
    write, overrides = PRESETS[preset]
    write(tmp_path / "files")
    (strategy,) = strategies_of([f"experiment={preset}"])
    chosen = [override.format(tmp_path / "files") for override in overrides]
    result = run([f"experiment={preset}", *QUICK, *chosen, f"output={tmp_path}"], strategy=strategy)
    assert np.isfinite(result.metrics["acc_final"])
    assert result.metrics["verified"] is False
    assert "epochs" in result.metrics["unverified_because"]
    assert result.metrics["published_acc_final"] > 50


@pytest.mark.slow
def test_the_five_datasets_run_as_soon_as_the_files_are_there(tmp_path):
    root = tmp_path / "data"
    layouts.write_cifar10(root / "cifar10")
    layouts.write_idx(root / "mnist")
    layouts.write_idx(root / "fashion-mnist")
    layouts.write_svhn(root / "svhn")
    layouts.write_notmnist(root / "notmnist")
    overrides = ["experiment=five_datasets_gpm", *QUICK, "model.width=4", f"scenario.root={root}"]
    result = run([*overrides, "scenario.validation=0.5", f"output={tmp_path}"], strategy="gpm_five_datasets")
    assert result.matrices.task_aware.shape == (5, 5)


def test_a_preset_whose_files_are_missing_says_which():
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte.* is needed but not there"):
        run(["experiment=pmnist10_gpm", "data.root=/nowhere"], strategy="gpm_pmnist10")


def test_other_strategies_run_a_presets_protocol_and_verify_nothing():
    config = compose(["experiment=pmnist10_gpm", "strategy=naive"])
    assert "strategy._target_" in differences(config, compose(["experiment=pmnist10_gpm"]))


@pytest.mark.parametrize(
    ("acc", "bwt", "reason"),
    [(0.9395, -0.03, None), (0.9291, -0.03, None), (0.929, -0.03, "acc_final is 92.90"),
     (0.94, -0.05, "bwt is -5.00"), (0.94, None, "bwt is undefined")],
)  # fmt: skip
def test_only_a_result_inside_the_band_verifies(acc, bwt, reason):
    preset = compose(["experiment=pmnist10_gpm"])
    own = compose(["experiment=pmnist10_gpm", "seed=7", "data.root=/elsewhere", "device=cuda", "threads=3"])
    found = judged(own, preset, {"acc_final": acc, "bwt": bwt})
    assert found["verified"] is (reason is None)
    assert found.get("unverified_because", "").startswith(reason or "")


@pytest.mark.parametrize(
    "override", ["epochs=6", "optimizer.lr=0.02", "model.hidden=[101,100]", "strategy.max_samples=9"]
)
def test_an_altered_protocol_verifies_nothing_whatever_its_result(override):
    preset, own = compose(["experiment=pmnist10_gpm"]), compose(["experiment=pmnist10_gpm", override])
    found = judged(own, preset, {"acc_final": 0.9391, "bwt": -0.03})
    assert found["verified"] is False
    assert override.partition("=")[0] in found["unverified_because"]


def test_a_run_of_no_preset_says_nothing_of_it(tmp_path):
    result = run(["debug=tiny", "model=relu_mlp", f"output={tmp_path}"], strategy="naive")
    assert "verified" not in result.metrics


def test_the_rate_falls_at_the_given_epoch_without_a_lower_loss_and_stops_at_its_floor():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = Plateau(optimizer, factor=0.5, patience=2, floor=0.2)
    losses = iter([1.0, 0.9, 0.95, 0.91, 0.92, 0.93, 0.94, 0.95, 0.5])
    schedule.watch(lambda: next(losses))
    optimizer.step()
    rates = []
    for _ in range(9):
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2]


def test_a_plateau_needs_validation_data_and_looks_at_nothing_else(tmp_path):
    shared = ["debug=tiny", "model=relu_mlp", "schedule=plateau", f"output={tmp_path}"]
    with pytest.raises(UserError, match=r"Plateau looks at the validation loss, and task .* has no validation part"):
        run(shared, strategy="naive")
    seen = []
    result = run([*shared, "data.validation=0.2", "schedule.patience=1", "epochs=3"], strategy="naive")
    lines = (result.folder / "records.jsonl").read_text().splitlines()
    seen = [line for line in lines if '"event": "epoch"' in line]
    assert len(seen) == 6


def test_the_validation_loss_is_cross_entropy_among_the_rows_that_compete():
    from tiny_runs import small_data

    from continual.scenarios import split

    sequence = split(small_data(0.25), num_tasks=5, mode="task")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)).train()
    task = sequence.tasks[1]
    part = task.validation
    logits = model(torch.from_numpy(part.inputs).float().div(1 if part.inputs.dtype != np.uint8 else 255))[:, [2, 3]]
    wanted = torch.nn.functional.cross_entropy(logits, torch.from_numpy(part.targets - 2))
    assert validation_loss(model, sequence, task, 0) == pytest.approx(float(wanted.detach()), rel=1e-5)
    assert model.training


@pytest.mark.parametrize("setting", [{"factor": 1.0}, {"patience": 0}, {"floor": -1.0}])
def test_schedules_out_of_range_are_refused(setting):
    with pytest.raises(ValueError, match="factor must lie"):
        Plateau(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0), **setting)
