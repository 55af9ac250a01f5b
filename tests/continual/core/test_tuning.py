"""Settings are chosen on validation data of the first tasks, and no test part is ever near (invariants 14 and 15)."""

import dataclasses
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_runs import foreign_network, records_of, same_tensors, small_data

import continual
import continual.tuning
from continual.data import Test
from continual.errors import DivergedError, UserError
from continual.scenarios import blurry, permuted, split
from continual.tuning import Trial, for_selection, tune

TINY = ("debug=tiny", "model=relu_mlp", "model.hidden=[12]", "batch_size=50", "strategy=naive")


@pytest.fixture
def search(tmp_path):
    """Tune a tiny network on the first two of five pairs of digits."""

    def run(grid, *overrides, scenario=None, **settings):
        sequence = scenario or split(small_data(0.25), 5, mode="class")
        return tune([*TINY, *overrides], grid, output=str(tmp_path), scenario=sequence, data=None, **settings)

    return run


def test_the_first_tasks_are_those_of_the_sequence_with_its_whole_head_and_no_test_sample():
    whole = split(small_data(0.25), 5, mode="class")
    first = for_selection(whole, 2)
    assert [task.classes for task in first.tasks] == [(0, 1), (2, 3)]
    assert (first.num_classes, first.mode, first.train_logits) == (10, "class", "seen")
    for ours, theirs in zip(first.tasks, whole.tasks, strict=False):
        assert ours.train is theirs.train
        assert ours.validation is theirs.validation
        assert len(ours.test) == 1
        assert not ours.test.inputs.any()
    assert first.checksum != whole.checksum


def test_control_a_sequence_of_two_tasks_holds_the_classes_of_all():
    assert [task.classes for task in split(small_data(), 2).tasks] == [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)]


def test_the_best_choice_comes_first_with_a_score_a_seed(search, tmp_path):
    found = search({"optimizer.lr": [1e-6, 0.5]}, seeds=(3, 4))
    assert [trial.overrides for trial in found] == [("optimizer.lr=0.5",), ("optimizer.lr=1e-06",)]
    for trial in found:
        assert len(trial.scores) == 2
        assert trial.score == pytest.approx(sum(trial.scores) / 2)
    folders = sorted((tmp_path / "tuning").iterdir())
    assert len(folders) == 4
    starts = [records_of(folder)[0] for folder in folders]
    assert {start["seed"] for start in starts} == {3, 4}
    assert {start["num_tasks"] for start in starts} == {2}


def test_other_test_parts_change_nothing(search):
    """Invariant 15: what cannot be seen cannot matter. The score is that of a run on the validation parts."""
    data, grid = small_data(0.25), {"optimizer.lr": [0.05, 0.5]}
    other = dataclasses.replace(data, test=Test(data.test.inputs[::-1] / 2, data.test.targets), checksum="")
    found = search(grid)
    assert search(grid, scenario=split(other, 5, mode="class")) == found
    assert found[0].score not in (0.0, 1.0)


def test_the_score_is_that_of_an_ordinary_run_on_the_validation_parts(search, tmp_path):
    (trial,) = search({"optimizer.lr": [0.5]}, scenario=permuted(small_data(0.25), 2))
    plain = continual.run(
        [*TINY, "optimizer.lr=0.5"],
        tasks=permuted(small_data(0.25), 2),
        output=str(tmp_path / "plain"),
        evaluate_on="validation",
    )
    assert trial.score == plain.metrics["acc_final"]


def test_every_combination_runs_and_equals_keep_their_order(search, monkeypatch):
    monkeypatch.setattr(continual.tuning, "_score", lambda description, num_tasks, metric: 0.5)
    found = search({"optimizer.lr": [0.1, 0.2], "batch_size": [10, 20]})
    assert found == [
        Trial((f"optimizer.lr={rate}", f"batch_size={size}"), (0.5,), 0.5) for rate in (0.1, 0.2) for size in (10, 20)
    ]


def test_what_diverges_comes_last(search, monkeypatch):
    original = continual.tuning.run_config

    def failing(description):
        if description["optimizer"]["lr"] == 0.5:
            raise DivergedError("gone")
        return original(description)

    monkeypatch.setattr(continual.tuning, "run_config", failing)
    found = search({"optimizer.lr": [0.5, 0.1]})
    assert found[0].overrides == ("optimizer.lr=0.1",)
    assert found[1].scores == (-math.inf,)


def test_an_own_network_begins_every_run_with_the_weights_it_has(search):
    model = foreign_network()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, again = search({"batch_size": [50]}, model=model), search({"batch_size": [50]}, seeds=(0, 0), model=model)
    assert same_tensors(model.state_dict(), before)
    assert again[0].scores == first[0].scores * 2


def test_runs_may_be_spread_over_a_pool(search):
    grid = {"optimizer.lr": [0.5, 0.1]}
    with ThreadPoolExecutor(1) as pool:
        assert search(grid, each=pool.map) == search(grid)
    pickle.dumps(continual.tuning._score)


@pytest.mark.parametrize(
    ("grid", "overrides", "settings", "words"),
    [
        ({"optimizer.lr": [0.1]}, ("evaluate_on=test",), {}, "validation parts alone"),
        ({"optimizer.lr": [0.1]}, (), {"evaluate_on": "test"}, "validation parts alone"),
        ({"evaluate_on": ["test"]}, (), {}, "validation parts alone"),
        ({"optimizer.lr": [0.1]}, (), {"optimizer": None}, "optimizer varies from run to run"),
        ({"optimizer.lr": [0.1]}, (), {"seed": 1}, "seed varies from run to run"),
        ({"optimizer.lr": [0.1]}, (), {"num_tasks": 6}, r"num_tasks must lie in 1..5"),
        ({"optimizer.lr": [0.1]}, (), {"num_tasks": 0}, r"num_tasks must lie in 1..5"),
        ({"optimizer.lr": [0.1]}, (), {"metric": "acc_finel"}, "did you mean 'acc_final'"),
        ({"optimizer.lr": [0.1]}, (), {"metric": "bwt", "num_tasks": 1}, "bwt is undefined on 1 tasks"),
        ({"optimizer.lr": [0.1]}, (), {"scenario": split(small_data(), 5)}, "no validation part"),
        ({"optimizer.lr": [0.1]}, (), {"scenario": blurry(split(small_data(0.25), 5), 0.5)}, "cannot stand alone"),
    ],
)
def test_what_cannot_be_selected_on_is_refused(grid, overrides, settings, words, search):
    with pytest.raises(UserError, match=words):
        search(grid, *overrides, **settings)
