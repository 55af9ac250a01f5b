import numpy as np
import pytest

from continual.data import from_arrays, mnist5k
from continual.scenarios import rotated
from continual.scenarios.rotated import rotate_images


def images(shape=(6, 6), dtype=np.uint8):
    pixels = np.random.default_rng(0).integers(0, 256, (12, *shape)).astype(np.uint8)
    return pixels if dtype == np.uint8 else (pixels / 255).astype(dtype)


def dataset(shape=(6, 6), dtype=np.uint8):
    pixels = images(shape, dtype)
    return from_arrays((pixels, np.arange(12) % 2), (pixels[:4], np.arange(4) % 2), validation=0.5)


@pytest.mark.parametrize("shape", [(6, 6), (7, 7), (3, 6, 6)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_quarter_turns_are_exact(shape, dtype, quarters):
    turned = rotate_images(images(shape, dtype), 90.0 * quarters)
    assert turned.dtype == dtype
    np.testing.assert_allclose(turned, np.rot90(images(shape, dtype), quarters, axes=(-2, -1)), atol=1e-6)


@pytest.mark.parametrize("degrees", [20.0, 45.0, 135.0])
def test_other_angles_match_a_slow_bilinear_rotation(degrees):
    image = images()[0].astype(float)
    angle, centre = np.deg2rad(degrees), 2.5
    expected = np.zeros((6, 6))
    for row in range(6):
        for column in range(6):
            down, right = row - centre, column - centre
            source_row = np.cos(angle) * down + np.sin(angle) * right + centre
            source_column = -np.sin(angle) * down + np.cos(angle) * right + centre
            if not (0 <= source_row <= 5 and 0 <= source_column <= 5):
                continue
            top, left = min(int(source_row), 4), min(int(source_column), 4)
            below, beside = source_row - top, source_column - left
            expected[row, column] = (1 - below) * ((1 - beside) * image[top, left] + beside * image[top, left + 1])
            expected[row, column] += below * ((1 - beside) * image[top + 1, left] + beside * image[top + 1, left + 1])
    np.testing.assert_allclose(rotate_images(images(), degrees)[0], expected, atol=0.51)


def test_floats_stay_in_range():
    turned = rotate_images(np.ones((1, 9, 9), np.float32), 30.0)
    assert turned.min() >= 0.0
    assert turned.max() <= 1.0
    assert turned[0, 4, 4] == pytest.approx(1.0)


def test_angles_are_evenly_spaced_and_every_part_turns_alike():
    source = dataset()
    sequence = rotated(source, num_tasks=3, max_degrees=180.0)
    assert sequence.task_names == ("0 degrees", "90 degrees", "180 degrees")
    for quarters, task in enumerate(sequence.tasks):
        assert len(task.parts) == 3
        for shown, original in zip(task.parts, source.parts, strict=True):
            np.testing.assert_array_equal(shown.inputs, np.rot90(original.inputs, quarters, axes=(-2, -1)))
            np.testing.assert_array_equal(shown.targets, original.targets)


@pytest.mark.parametrize(("mode", "rows"), [("domain", 2), ("task", 6), ("class", 6)])
def test_rows_follow_the_mode(mode, rows):
    sequence = rotated(dataset(), num_tasks=3, mode=mode)
    assert sequence.num_classes == rows
    assert [task.classes for task in sequence.tasks] == ([(0, 1)] * 3 if mode == "domain" else [(0, 1), (2, 3), (4, 5)])


def test_tasks_of_real_digits_differ():
    source = mnist5k()
    few = from_arrays(
        (source.train.inputs[:200], source.train.targets[:200]), (source.test.inputs[:50], source.test.targets[:50])
    )
    probes = {task.train.inputs[0].tobytes() for task in rotated(few).tasks}
    assert len(probes) == 5


def test_one_task_is_upright():
    source = dataset()
    np.testing.assert_array_equal(rotated(source, num_tasks=1).tasks[0].train.inputs, source.train.inputs)


@pytest.mark.parametrize("max_degrees", [0.0, -90.0, 360.0, float("nan")])
def test_refuses_angles_at_which_tasks_repeat(max_degrees):
    with pytest.raises(ValueError, match="between 0 and 360"):
        rotated(dataset(), max_degrees=max_degrees)


def test_refuses_vectors():
    with pytest.raises(ValueError, match="needs images"):
        rotated(dataset(shape=(9,)))
