import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from continual.data import from_arrays, mnist5k
from continual.data.idx import FILES
from continual.data.photo_patches import PHOTO_FILES
from continual.scenarios import domain_sequence, five_offline
from continual.scenarios.common_shape import enlarge, fit_images, pad_to, repeat_channel
from continual.scenarios.domain_sequence import capped

with_photographs = pytest.mark.skipif(
    any(file.locate() is None for file in PHOTO_FILES), reason="scikit-image or scikit-learn is not installed"
)


def source(name, num_classes, shape=(4, 4), dtype=np.uint8, per_class=6, **options):
    """Make random images whose labels go round."""
    count = num_classes * per_class
    generator = np.random.default_rng(len(name) + num_classes)
    pixels = generator.integers(0, 256, (2, count, *shape)).astype(np.uint8)
    images = pixels if dtype == np.uint8 else (pixels / 255).astype(dtype)
    labels = np.arange(count) % num_classes
    return from_arrays((images[0], labels), (images[1], labels), name=name, num_classes=num_classes, **options)


HAND_TABLE = {
    "task": (9, [(0, 1, 2), (3, 4), (5, 6, 7, 8)]),
    "class": (9, [(0, 1, 2), (3, 4), (5, 6, 7, 8)]),
    "domain": (4, [(0, 1, 2, 3)] * 3),
}


@pytest.mark.parametrize("mode", HAND_TABLE)
def test_rows_match_the_hand_table_and_targets_are_offset(mode):
    sources = [source("a", 3), source("b", 2), source("c", 4)]
    sequence = domain_sequence(sources, mode, image_shape=(1, 4, 4))
    num_rows, classes = HAND_TABLE[mode]
    assert sequence.num_classes == num_rows
    assert [task.classes for task in sequence.tasks] == classes
    assert sequence.task_names == ("a", "b", "c")
    for task, original, rows in zip(sequence.tasks, sources, classes, strict=True):
        assert len(task.parts) == len(original.parts)
        for shown, part in zip(task.parts, original.parts, strict=True):
            assert type(shown) is type(part)
            assert shown.targets.tolist() == [rows[label] for label in part.targets]
            np.testing.assert_array_equal(shown.inputs[:, 0], part.inputs)
    names = [task.label_names for task in sequence.tasks]
    assert names[1] == (("0", "1", "unused", "unused") if mode == "domain" else ("0", "1"))
    assert names[2] == ("0", "1", "2", "3")


def test_validation_goes_along_and_may_be_absent():
    sequence = domain_sequence([source("a", 2, validation=0.5), source("b", 3)], image_shape=(1, 4, 4))
    assert [task.validation is None for task in sequence.tasks] == [False, True]
    assert set(sequence.tasks[0].validation.targets) == {0, 1}


def test_different_sizes_kinds_and_channels_come_to_one_shape():
    sources = [source("bytes", 2, (6, 5)), source("fractions", 2, (3, 3), np.float32), source("colour", 2, (3, 9, 9))]
    sequence = domain_sequence(sources, image_shape=(3, 9, 9))
    assert sequence.input_shape == (3, 9, 9)
    assert {part.inputs.dtype for task in sequence.tasks for part in task.parts} == {np.dtype(np.float32)}
    small = sequence.tasks[0].train.inputs
    np.testing.assert_array_equal(small[:, 1, 1:7, 2:7], (sources[0].train.inputs / np.float32(255)).astype(np.float32))
    assert not small[:, :, 0].any()
    np.testing.assert_array_equal(sequence.tasks[1].train.inputs[:, 2, 1::3, 1::3], sources[1].train.inputs)
    of_bytes = domain_sequence([sources[0], sources[2]], image_shape=(3, 9, 9))
    np.testing.assert_array_equal(of_bytes.tasks[1].train.inputs, sources[2].train.inputs)


@given(height=st.integers(1, 5), width=st.integers(1, 5), more=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_fitted_images_hold_every_pixel_as_a_square_in_the_middle_and_black_elsewhere(height, width, more):
    images = np.random.default_rng(height * 9 + width).integers(1, 256, (2, height, width)).astype(np.uint8)
    wanted = (3, height + more[0], width + more[1])
    fitted = fit_images(images, wanted)
    factor = min(wanted[1] // height, wanted[2] // width)
    top, left = (wanted[1] - factor * height) // 2, (wanted[2] - factor * width) // 2
    expected = np.zeros((2, *wanted), np.uint8)
    for row in range(factor * height):
        for column in range(factor * width):
            expected[:, :, top + row, left + column] = images[:, np.newaxis, row // factor, column // factor]
    np.testing.assert_array_equal(fitted, expected)


def test_each_step_matches_a_hand_table():
    image = np.array([[[[1, 2]]]])
    assert enlarge(image, 2).tolist() == [[[[1, 1, 2, 2], [1, 1, 2, 2]]]]
    assert pad_to(image, 2, 5).tolist() == [[[[0, 1, 2, 0, 0], [0, 0, 0, 0, 0]]]]
    assert repeat_channel(image, 2).tolist() == [[[[1, 2]], [[1, 2]]]]
    assert repeat_channel(np.zeros((1, 3, 2, 2)), 3).shape == (1, 3, 2, 2)


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4), samples=st.integers(1, 120), seed=st.integers(0, 99))
def test_a_cap_keeps_the_proportions_to_within_one_sample(sizes, samples, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    images = np.arange(len(labels), dtype=np.uint8).reshape(-1, 1, 1)
    train = from_arrays((images, labels), (images, labels)).train
    total = len(labels)
    # Where a class may be lost, see the test of the refusal.
    assume(samples >= total or min(sizes) * samples >= total)
    kept = capped(train, samples, seed, index=0)
    assert len(kept) == min(samples, total)
    assert len(np.unique(kept.inputs)) == len(kept), "a sample twice"
    assert kept.targets.tolist() == labels[kept.inputs.ravel()].tolist()
    exact = np.array(sizes) * len(kept) / total
    assert (np.abs(np.bincount(kept.targets) - exact) <= 1).all()


def test_the_cap_leaves_test_alone_and_the_seed_and_the_place_decide():
    sources = [source("a", 3, per_class=20), source("b", 3, per_class=20)]
    one, again, other = (domain_sequence(sources, "task", (1, 4, 4), 12, seed) for seed in (1, 1, 2))
    assert [len(task.train) for task in one.tasks] == [12, 12]
    assert [len(task.test) for task in one.tasks] == [60, 60]
    assert np.bincount(one.tasks[0].train.targets).tolist() == [4, 4, 4]
    assert one.checksum == again.checksum != other.checksum
    same_data = [source("a", 3, per_class=20), source("b", 3, per_class=20)]
    first = [capped(same_data[0].train, 12, 1, index).inputs.tobytes() for index in (0, 1)]
    assert first[0] != first[1], "two tasks draw alike"


def test_a_cap_above_what_is_there_keeps_all():
    data = source("a", 3)
    for samples in (None, 18, 1000):
        np.testing.assert_array_equal(capped(data.train, samples, 0, 0).inputs, data.train.inputs)


def test_sources_are_not_touched():
    data = source("a", 2)
    before = data.train.inputs.copy()
    domain_sequence([data], image_shape=(1, 4, 4)).tasks[0].train.inputs.fill(0)
    np.testing.assert_array_equal(data.train.inputs, before)


REFUSED = {
    "no dataset": ([], {}, "at least one dataset"),
    "one name twice": ([source("a", 2), source("a", 2)], {}, "names must differ"),
    "too large": ([source("big", 2, (5, 4))], {}, r"dataset 'big': .* not be larger than the wanted 4x4 pixels"),
    "too many channels": ([source("rgb", 2, (3, 4, 4))], {}, r"dataset 'rgb': only a single grey .* there are 3"),
    "vectors": ([source("flat", 2, (4,))], {}, r"dataset 'flat': images must be \[N, H, W\]"),
    "no samples": ([source("a", 2)], {"samples_per_task": 0}, "samples_per_task must be at least 1"),
    "a class lost": ([source("a", 4)], {"samples_per_task": 3}, r"dataset 'a': .* leave none of class"),
    "two numbers": ([source("a", 2)], {"image_shape": (4, 4)}, "image_shape must be"),
    "an empty side": ([source("a", 2)], {"image_shape": (1, 0, 4)}, "image_shape must be"),
    "unknown mode": ([source("a", 2)], {"mode": "instance"}, "mode must be one of task, domain, class"),
    "unknown logits": ([source("a", 2)], {"train_logits": "none"}, "train_logits must be one of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sequence_is_refused(case):
    sources, options, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        domain_sequence(sources, **{"image_shape": (1, 4, 4)} | options)


def few(**options):
    """The first digits of MNIST-5k, for speed, under its name."""
    whole = mnist5k()
    train, test = whole.train, whole.test
    return from_arrays(
        (train.inputs[:300], train.targets[:300]), (test.inputs[:50], test.targets[:50]), name="mnist5k", **options
    )


def test_two_tasks_of_five_offline_need_nothing_beyond_the_package(tmp_path):
    sequence = five_offline(few(), num_tasks=2, fashion_root=tmp_path)
    assert sequence.name == "five-offline"
    assert sequence.task_names == ("mnist5k", "digits")
    assert [task.classes for task in sequence.tasks] == [tuple(range(10)), tuple(range(10, 20))]
    assert sequence.input_shape == (1, 28, 28)
    digit = sequence.tasks[1].test.inputs[0, 0]
    assert not digit[:2].any()
    assert not digit[-2:].any()
    np.testing.assert_array_equal(digit[2:-2, 2:-2], digit[2:-2:3, 2:-2:3].repeat(3, 0).repeat(3, 1))
    assert five_offline(source("mine", 10, (28, 28)), num_tasks=1).name == "five-offline after mine"


@with_photographs
@pytest.mark.parametrize(("shape", "sides"), [((1, 28, 28), 28), ((3, 32, 32), 32)])
@pytest.mark.parametrize(("mode", "rows"), [("task", 33), ("class", 33), ("domain", 10)])
def test_four_tasks_of_five_offline_in_both_shapes_and_every_mode(shape, sides, mode, rows, tmp_path):
    sequence = five_offline(few(), num_tasks=4, mode=mode, fashion_root=tmp_path, image_shape=shape)
    assert sequence.task_names == ("mnist5k", "digits", "textures", "photo_patches")
    assert sequence.num_classes == rows
    assert sequence.input_shape == shape
    assert all(len(task.train) <= 1000 for task in sequence.tasks)
    photo = sequence.tasks[3].test.inputs
    assert photo[..., 0, :].any(), "photographs fill their frame"
    assert photo[..., sides - 1].any()
    for task in sequence.tasks:
        train, test = ({image.tobytes() for image in part.inputs} for part in (task.train, task.test))
        assert not train & test, f"{task.name} scores what it learned from"


@with_photographs
def test_every_task_has_the_first_one_s_share_of_validation(tmp_path):
    first = few(validation=0.25)
    sequence = five_offline(first, num_tasks=4, fashion_root=tmp_path, samples_per_task=None)
    for task in sequence.tasks:
        whole = len(task.train) + len(task.validation)
        assert len(task.validation) == pytest.approx(0.25 * whole, abs=1)


def test_missing_fashion_is_told_with_both_ways_out(tmp_path):
    with pytest.raises(ValueError, match=r"num_tasks=4, or to get it: apt-get .* then fashion_root=") as caught:
        five_offline(few(), fashion_root=tmp_path)
    assert str(tmp_path) in str(caught.value)


@with_photographs
def test_all_five_with_the_real_files():
    folder = os.environ.get("PALIMPSEST_DATA")
    root = Path(folder or "") / "fashion-mnist"
    if folder is None or not any((root / f"{name}.gz").is_file() for name in FILES):
        pytest.skip("PALIMPSEST_DATA names no folder with fashion-mnist in it (make bench-data fetches it)")
    sequence = five_offline(mnist5k(), fashion_root=root)
    assert sequence.task_names == ("mnist5k", "digits", "textures", "photo_patches", "fashion_mnist")
    assert [len(task.train) for task in sequence.tasks] == [1000, 1000, 702, 1000, 1000]
    assert sequence.tasks[4].classes == tuple(range(33, 43))
    assert np.bincount(sequence.tasks[4].train.targets)[33:].tolist() == [100] * 10


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"num_tasks": 6}, ValueError, "five_offline has 5 tasks"),
        ({"num_tasks": 0}, ValueError, "at least 1"),
        ({"num_tasks": "5"}, TypeError, "integer"),
        ({"num_tasks": 1, "mode": "instance"}, ValueError, "mode must be one of"),
        ({"num_tasks": 1, "image_shape": (1, 20, 20)}, ValueError, "dataset 'mnist5k': .* larger image_shape"),
    ],
)
def test_five_offline_refuses_what_makes_no_sequence(options, error, words):
    with pytest.raises(error, match=words):
        five_offline(few(), **options)
