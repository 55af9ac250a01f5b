import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from continual.data import mnist5k, mnist5k_saccades_simulated, saccade_events
from continual.data.saccades import OFF, ON, displaced, triangle_path


def brightness(image, row, column):
    """The level at a point between pixels: the four neighbours, weighted by nearness; black outside."""
    total = 0.0
    for near_row in (math.floor(row), math.floor(row) + 1):
        for near_column in (math.floor(column), math.floor(column) + 1):
            if 0 <= near_row < image.shape[0] and 0 <= near_column < image.shape[1]:
                total += (
                    (1 - abs(row - near_row)) * (1 - abs(column - near_column)) * float(image[near_row, near_column])
                )
    return total


def slow_events(images, path, threshold):
    """Pixel by pixel: an image displaced by (down, right) shows at (r, c) what lay at (r - down, c - right)."""
    events = np.zeros((len(images), len(path) - 1, 2, *images.shape[1:]), np.uint8)
    for sample, image in enumerate(images):
        for tick in range(len(path) - 1):
            for row in range(image.shape[0]):
                for column in range(image.shape[1]):
                    before, after = (
                        brightness(image, row - down, column - right) for down, right in path[tick : tick + 2]
                    )
                    if (after - before) / 255 > threshold:
                        events[sample, tick, 0, row, column] = 255
                    if (after - before) / 255 < -threshold:
                        events[sample, tick, 1, row, column] = 255
    return events


images_4x5 = arrays(np.uint8, (2, 4, 5))
quarters = st.lists(st.tuples(st.integers(-12, 12), st.integers(-12, 12)), min_size=2, max_size=4)


@given(images=images_4x5, corners=quarters, threshold=st.sampled_from([0.07, 0.13, 0.37]))
def test_events_match_a_slow_reference_on_any_path_of_quarter_pixels(images, corners, threshold):
    path = np.array(corners, dtype=np.float64) / 4  # quarters are exact in binary, so both sides round alike
    np.testing.assert_array_equal(saccade_events(images, path, threshold), slow_events(images, path, threshold))


def test_a_bright_bar_that_steps_right_matches_a_hand_table():
    image = np.array([[[0, 200, 0, 0]]], np.uint8)
    events = saccade_events(image, np.array([[0, 0], [0, 1], [0, 1], [0, 3]]), 0.5)
    assert events.shape == (1, 3, 2, 1, 4)
    assert events[0, :, ON, 0].tolist() == [[0, 0, 255, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert events[0, :, OFF, 0].tolist() == [[0, 255, 0, 0], [0, 0, 0, 0], [0, 0, 255, 0]]
    assert not saccade_events(image, np.array([[0, 0], [0, 1]]), 200 / 255).any(), "equality is no event"


@given(images=images_4x5, corners=quarters)
def test_going_back_swaps_the_polarities_and_turns_time_round(images, corners):
    path = np.array(corners, dtype=np.float64) / 4
    there, back = saccade_events(images, path, 0.1), saccade_events(images, path[::-1], 0.1)
    np.testing.assert_array_equal(back, there[:, ::-1, ::-1])


@given(images=images_4x5, corners=quarters, low=st.floats(0.01, 0.5), high=st.floats(0.01, 0.5))
def test_a_higher_threshold_reports_a_subset_and_no_pixel_brightens_and_darkens_at_once(images, corners, low, high):
    path = np.array(corners, dtype=np.float64) / 4
    many, few = (saccade_events(images, path, threshold) for threshold in sorted((low, high)))
    assert not (few & ~many).any()
    assert not (many[:, :, ON] & many[:, :, OFF]).any()


def test_nothing_moves_nothing_is_reported():
    images = np.random.default_rng(0).integers(0, 256, (3, 6, 6)).astype(np.uint8)
    assert not saccade_events(images, np.full((5, 2), 0.3), 0.01).any()
    assert saccade_events(images, np.array([[0, 0], [0, 1]]), 0.01).any()


def test_displacement_goes_down_and_right_and_far_away_leaves_black():
    image = np.zeros((1, 4, 4), np.float32)
    image[0, 1, 1] = 8.0
    assert displaced(image, 1.0, 2.0)[0, 2, 3] == 8.0
    np.testing.assert_array_equal(displaced(image, 0.5, -0.25)[0, 1:3, :2], [[1, 3], [1, 3]])
    assert not displaced(image, -9.0, 0.0).any()
    assert not displaced(image, 0.0, 9.5).any()


def test_the_default_path_is_a_closed_triangle_about_the_centre():
    path = triangle_path(12, 4.0)
    expected = [(-2, -2), (-1, -1.5), (0, -1), (1, -0.5), (2, 0), (1, 0.5), (0, 1), (-1, 1.5), (-2, 2)]
    expected += [(-2, 1), (-2, 0), (-2, -1), (-2, -2)]
    np.testing.assert_array_equal(path, expected)
    for time_steps in (3, 6, 30):
        other = triangle_path(time_steps, 4.0)
        assert other.shape == (time_steps + 1, 2)
        np.testing.assert_array_equal(other[:: time_steps // 3], path[::4])


def test_real_digits_become_events_in_the_cut_of_mnist5k():
    still = mnist5k(seed=3, validation=0.1)
    dataset = mnist5k_saccades_simulated(seed=3, validation=0.1)
    assert [part.inputs.shape for part in dataset.parts] == [(n, 12, 2, 28, 28) for n in (3600, 400, 1000)]
    assert dataset.name == "mnist5k_saccades_simulated"
    for part, images in zip(dataset.parts, still.parts, strict=True):
        assert type(part) is type(images)
        assert part.inputs.dtype == np.uint8
        np.testing.assert_array_equal(part.targets, images.targets)
    np.testing.assert_array_equal(np.unique(dataset.test.inputs), [0, 255])
    expected = slow_events(still.test.inputs[:1], triangle_path(12, 4.0), 0.1)
    np.testing.assert_array_equal(dataset.test.inputs[:1], expected)
    assert (dataset.test.inputs.reshape(1000, 12, -1).any(axis=2)).all(), "every digit reports at every tick"


def test_settings_and_seed_are_seen_and_the_same_ones_give_the_same_bytes():
    base = mnist5k_saccades_simulated(time_steps=3)
    assert base.checksum == mnist5k_saccades_simulated(time_steps=3).checksum
    others = [{"threshold": 0.2}, {"amplitude": 2.0}, {"seed": 1}]
    checksums = {mnist5k_saccades_simulated(**{"time_steps": 3} | other).checksum for other in others}
    assert len(checksums | {base.checksum}) == 4


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"time_steps": 4}, ValueError, "3, 6, 9"),
        ({"time_steps": 0}, ValueError, "3, 6, 9"),
        ({"time_steps": 12.0}, TypeError, "integer"),
        ({"threshold": 0.0}, ValueError, "between 0 and 1"),
        ({"threshold": 1.0}, ValueError, "between 0 and 1"),
        ({"threshold": float("nan")}, ValueError, "between 0 and 1"),
        ({"amplitude": 0.0}, ValueError, "above 0"),
        ({"amplitude": float("inf")}, ValueError, "above 0"),
    ],
)
def test_settings_that_make_no_events_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        mnist5k_saccades_simulated(**options)


@pytest.mark.parametrize(("images", "path"), [((2, 3, 4, 4), (3, 2)), ((2, 4, 4), (3, 3)), ((2, 4, 4), (1, 2))])
def test_wrong_shapes_are_refused(images, path):
    with pytest.raises(ValueError, match="needs grey images"):
        saccade_events(np.zeros(images, np.uint8), np.zeros(path), 0.1)
