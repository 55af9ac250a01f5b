import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual.data import from_arrays, mnist5k
from continual.scenarios import permuted
from continual.scenarios.permuted import permute_pixels, pixel_permutation


def small(shape=(4, 5), num_classes=3, validation=0.0, dtype=np.uint8):
    generator = np.random.default_rng(0)
    labels = np.arange(30) % num_classes
    images = generator.integers(0, 256, (30, *shape)).astype(np.uint8)
    if dtype != np.uint8:
        images = (images / 255).astype(dtype)
    return from_arrays((images, labels), (images[::-1], labels[::-1]), validation=validation)


def test_every_task_shows_another_permutation_of_the_same_probe():
    sequence = permuted(mnist5k(validation=0.1), num_tasks=4)
    probes = [task.train.inputs[0] for task in sequence.tasks]
    assert len({probe.tobytes() for probe in probes}) == 4
    assert len({np.sort(probe.ravel()).tobytes() for probe in probes}) == 1
    assert all(task.train.inputs.dtype == np.uint8 for task in sequence.tasks)


@pytest.mark.parametrize("shape", [(6,), (4, 5), (3, 4, 5)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_all_parts_and_channels_share_one_invertible_permutation(shape, dtype):
    dataset = small(shape, validation=0.2, dtype=dtype)
    for task in permuted(dataset, num_tasks=3, seed=5).tasks:
        order = pixel_permutation(5, task.index, int(np.prod(shape[-2:])))
        inverse = np.argsort(order)
        for shown, original in zip(task.parts, dataset.parts, strict=True):
            assert type(shown) is type(original)
            assert shown.inputs.dtype == dtype
            np.testing.assert_array_equal(permute_pixels(shown.inputs, inverse), original.inputs)
            np.testing.assert_array_equal(shown.targets, original.targets)


def test_permutes_as_a_loop_over_pixels_would():
    images = small((3, 2, 2)).train.inputs
    order = np.array([2, 0, 3, 1])
    shown = permute_pixels(images, order)
    for sample in range(len(images)):
        for channel in range(3):
            for position in range(4):
                source = images[sample, channel, order[position] // 2, order[position] % 2]
                assert shown[sample, channel, position // 2, position % 2] == source


@given(seed=st.integers(0, 2**40), index=st.integers(0, 50), num_pixels=st.integers(1, 200))
def test_a_permutation_is_one_and_repeats(seed, index, num_pixels):
    order = pixel_permutation(seed, index, num_pixels)
    assert sorted(order) == list(range(num_pixels))
    np.testing.assert_array_equal(order, pixel_permutation(seed, index, num_pixels))


@given(
    num_tasks=st.integers(1, 5),
    mode=st.sampled_from(["task", "domain", "class"]),
    seed=st.integers(0, 100),
    permute_first=st.booleans(),
)
def test_rows_follow_the_mode(num_tasks, mode, seed, permute_first):
    dataset = small()
    sequence = permuted(dataset, num_tasks, mode, seed, permute_first)
    assert sequence.num_classes == (3 if mode == "domain" else 3 * num_tasks)
    assert (sequence.mode, sequence.train_logits, len(sequence)) == (mode, "seen", num_tasks)
    for index, task in enumerate(sequence.tasks):
        offset = 0 if mode == "domain" else 3 * index
        assert task.classes == (offset, offset + 1, offset + 2)
        assert task.label_names == ("0", "1", "2")
        np.testing.assert_array_equal(task.train.targets, dataset.train.targets + offset)
        np.testing.assert_array_equal(task.test.targets, dataset.test.targets + offset)
        shared = task.classes if mode == "domain" and index > 0 else ()
        assert sequence.head_rows_shared_before(index) == shared


def test_a_task_does_not_depend_on_how_many_follow():
    short, long = permuted(small(), num_tasks=2, seed=9), permuted(small(), num_tasks=6, seed=9)
    for task, same in zip(short.tasks, long.tasks, strict=False):
        np.testing.assert_array_equal(task.train.inputs, same.train.inputs)


def test_permute_first_moves_task_zero_only():
    dataset = small()
    permuted_too, plain = permuted(dataset, 3, seed=1), permuted(dataset, 3, seed=1, permute_first=False)
    np.testing.assert_array_equal(plain.tasks[0].train.inputs, dataset.train.inputs)
    assert (permuted_too.tasks[0].train.inputs != dataset.train.inputs).any()
    for index in (1, 2):
        np.testing.assert_array_equal(plain.tasks[index].train.inputs, permuted_too.tasks[index].train.inputs)


def test_two_seeds_differ_and_a_cold_build_repeats():
    assert permuted(small(), seed=0).checksum == permuted(small(), seed=0).checksum
    first, second = permuted(small(), seed=0), permuted(small(), seed=1)
    for task, other in zip(first.tasks, second.tasks, strict=True):
        assert (task.train.inputs != other.train.inputs).any()


def test_the_source_is_not_touched():
    dataset = small()
    before = dataset.train.inputs.copy()
    sequence = permuted(dataset, 2, permute_first=False)
    sequence.tasks[0].train.inputs[:] = 0
    np.testing.assert_array_equal(dataset.train.inputs, before)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_tasks": 0}, ValueError, "at least 1"),
        ({"num_tasks": 2.5}, TypeError, "integer"),
        ({"mode": "instance"}, ValueError, "mode must be one of"),
        ({"train_logits": "none"}, ValueError, "train_logits must be one of"),
        ({"seed": -1}, ValueError, "seed must be 0 or more"),
    ],
)
def test_refuses_what_makes_no_sequence(options, error, message):
    with pytest.raises(error, match=message):
        permuted(small(), **options)
