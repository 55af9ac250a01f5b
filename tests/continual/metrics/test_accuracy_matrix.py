"""The file of the matrices: what is written is what is read, whole or not at all, and nothing wrong gets in."""

import numpy as np
import pytest

from continual.metrics import AccuracyMatrices


def build(**changes):
    R = np.array([[0.9, np.nan], [0.7, 0.8]])
    arguments = {
        "task_aware": R,
        "task_agnostic": R - 0.1,
        "counts": np.array([10, 1]),
        "baseline_task_aware": np.array([0.1, 0.2]),
        "baseline_task_agnostic": np.array([0.0, np.nan]),
    }
    return AccuracyMatrices(**{**arguments, **changes})


def test_save_and_load_give_the_same_arrays_and_leave_no_other_file(tmp_path):
    written = build()
    path = written.save(tmp_path / "accuracy_matrix.npz")
    written.save(path)
    read = AccuracyMatrices.load(path)
    for name in ("task_aware", "task_agnostic", "counts", "baseline_task_aware", "baseline_task_agnostic"):
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name))
    assert [entry.name for entry in tmp_path.iterdir()] == ["accuracy_matrix.npz"]
    with np.load(path) as archive:
        assert int(archive["format_version"]) == 1


def test_a_failure_while_writing_keeps_the_old_file_and_no_scrap(tmp_path, monkeypatch):
    path = build().save(tmp_path / "accuracy_matrix.npz")
    before = path.read_bytes()

    def half_write(stream, **arrays):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", half_write)
    with pytest.raises(OSError, match="disk full"):
        build(counts=np.array([5, 5])).save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"counts": np.array([10, 0])}, "at least one test sample"),
        ({"counts": np.array([10, 2, 3])}, "shape"),
        ({"task_agnostic": np.zeros((3, 3))}, "task_agnostic must have shape"),
        ({"task_aware": np.array([[90.0, 0.0], [0.0, 1.0]])}, r"\[0, 1\]"),
        ({"task_aware": np.array([[np.inf, 0.0], [0.0, 1.0]])}, r"\[0, 1\]"),
        ({"baseline_task_aware": np.array([0.1])}, "baseline_task_aware must have shape"),
        ({"task_aware": np.zeros((0, 0))}, "T >= 1"),
    ],
)
def test_what_cannot_be_an_accuracy_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        build(**changes)


def test_the_arrays_are_copies_that_cannot_be_written_to():
    R = np.array([[0.9, 0.1], [0.7, 0.8]])
    matrices = build(task_aware=R)
    R[0, 0] = 0.0
    assert matrices.task_aware[0, 0] == 0.9
    with pytest.raises(ValueError, match="read-only"):
        matrices.task_aware[0, 0] = 0.5


def test_files_of_another_version_or_with_missing_arrays_are_refused(tmp_path):
    path = build().save(tmp_path / "m.npz")
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "new.npz", **{**arrays, "format_version": 2})
    with pytest.raises(ValueError, match="format_version 2"):
        AccuracyMatrices.load(tmp_path / "new.npz")
    del arrays["counts"]
    np.savez(tmp_path / "short.npz", **arrays)
    with pytest.raises(ValueError, match="counts"):
        AccuracyMatrices.load(tmp_path / "short.npz")
