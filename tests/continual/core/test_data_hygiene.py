"""Test parts are out of reach while anything learns, and every byte kept is reported (invariants 14 and 23)."""

import gc
import itertools
from contextlib import contextmanager

import pytest
import torch
from tiny_runs import launch, records_of, small_data

import continual.outcome
import continual.runner
from continual.compose import choices
from continual.data import Test
from continual.progress import Silent
from continual.scenarios import Task, permuted
from continual.strategies import Naive


@pytest.fixture(autouse=True)
def _no_report(monkeypatch):
    monkeypatch.setattr(continual.outcome, "draw_report", lambda folder: None)


@pytest.fixture
def sealed(monkeypatch):
    """Let every look into a test part fail, but for those of an evaluation; count the looks that were allowed.

    A task that is made anew, as GDumb makes one around its memory, checks that its parts fit; nothing is told of it.
    """
    open_now, looks, original = [True], [], Test.__getattribute__

    @contextmanager
    def state(is_open):
        before, open_now[0] = open_now[0], is_open
        try:
            yield
        finally:
            open_now[0] = before

    def looked(part, name):
        if name in ("inputs", "targets"):
            assert open_now[0], "a test part was read while something learned"
            looks.append(name)
        return original(part, name)

    def inside(function, is_open):
        def wrapped(*arguments, **keywords):
            with state(is_open):
                return function(*arguments, **keywords)

        return wrapped

    monkeypatch.setattr(Test, "__getattribute__", looked)
    monkeypatch.setattr(continual.runner, "run_sequence", inside(continual.runner.run_sequence, False))
    monkeypatch.setattr("continual.api.run_sequence", continual.runner.run_sequence)
    monkeypatch.setattr(Task, "__post_init__", inside(Task.__post_init__, True))
    for name in ("score", "score_seen", "measure"):
        monkeypatch.setattr(continual.runner, name, inside(getattr(continual.runner, name), True))
    return looks


@pytest.mark.parametrize("strategy", choices("strategy"))
def test_invariant_14_nothing_but_an_evaluation_reads_a_test_part(strategy, sealed, tmp_path):
    """Training, memories, validation and consolidation of every configured strategy."""
    launch(tmp_path, "epochs=1", "batch_size=100", f"strategy={strategy}", "evaluate_every=1")
    assert sealed


def test_invariant_14_control_a_strategy_that_looks_is_caught(sealed, tmp_path):
    class Peeks(Naive):
        name = "peeks"

        def after_task(self, task, data):
            self.seen = task.test.inputs[:1]

    with pytest.raises(AssertionError, match="a test part was read while something learned"):
        launch(tmp_path, "epochs=1", own={"strategy": Peeks()})


class Weighs(Silent):
    """Add up every tensor that is alive where a task begins."""

    def __init__(self):
        self.bytes = []

    def start_task(self, task, trains):
        gc.collect()
        tensors = [thing for thing in gc.get_objects() if type(thing) in (torch.Tensor, torch.nn.Parameter)]
        self.bytes.append(sum({part.data_ptr(): part.nbytes for part in tensors}.values()))


GROWING_DATA = {"cumulative", "cumulative_restart", "gdumb"}
"""Their tasks learn from the data of more and more tasks, which is alive beside what they keep."""


def beyond_what_is_reported(folder, *overrides, **own):
    """Bytes alive at the end of each task from the second on, less those that the strategy says it keeps."""
    weighs, sequence = Weighs(), permuted(small_data(), 5)
    chosen = ("epochs=1", "batch_size=100", "evaluate_future=false", *overrides)
    result = launch(folder, *chosen, own={"scenario": sequence, "data": None, **own}, progress=weighs)
    kept = [line["stored_bytes"] for line in records_of(result.folder) if line["event"] == "task_end"]
    return [alive - stored for alive, stored in zip(weighs.bytes[2:], kept[1:], strict=False)]


QUICK = {"naive", "ewc", "er", "hlop"}
WEIGHED = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
    for name in sorted(set(choices("strategy")) - GROWING_DATA)
]


@pytest.mark.parametrize("strategy", WEIGHED)
def test_invariant_23_what_is_alive_grows_by_the_bytes_reported_and_no_other(strategy, tmp_path):
    """To the byte: what a strategy keeps is what it says, and the runner keeps nothing from task to task."""
    beyond = beyond_what_is_reported(tmp_path, f"strategy={strategy}")
    assert beyond == [beyond[0]] * 3


def test_invariant_23_control_bytes_that_are_not_reported_are_seen(tmp_path):
    class Hoards(Naive):
        name = "hoards"
        _held = ()

        def after_task(self, task, data):
            self._held = (*self._held, torch.zeros(2))

    beyond = beyond_what_is_reported(tmp_path, strategy=Hoards())
    assert [later - earlier for earlier, later in itertools.pairwise(beyond)] == [8, 8]
