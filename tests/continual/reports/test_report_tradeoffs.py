"""Trade-offs and rank growth: points where the numbers say, numbers that keep apart, and nothing drawn of nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual.metrics import mean_and_interval
from continual.reports.rank_figure import rank_growth, share_of_width
from continual.reports.style import DARK, LIGHT, look_of, png_bytes
from continual.reports.tradeoff_figures import Standing, moved_apart, size_positions, tradeoffs


def standing(name, learning, bwt, stored, num_tasks=5):
    final = [one + two * (num_tasks - 1) / num_tasks for one, two in zip(learning, bwt, strict=True)]
    return Standing(name, *map(mean_and_interval, (learning, bwt, final, [stored] * len(bwt))))


MANY = [
    standing(f"strategy {k}", [0.5 + 0.02 * k, 0.6], [-0.03 * k, -0.1], 0 if k % 3 else 1000 * 4**k) for k in range(22)
]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_every_strategy_is_a_point_in_both_panels_and_a_line_of_the_key(theme):
    figure = tradeoffs(MANY, 5, theme)
    left, right, key = figure.axes
    for axes in (left, right):
        numbers = {text.get_text() for text in axes.texts}
        assert numbers >= {str(k + 1) for k in range(22)}
        assert len(axes.containers) == 22
    assert [text.get_text() for text in key.texts[1::2]] == [one.name for one in MANY]
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_points_stand_where_the_numbers_say_with_lines_as_long_as_their_intervals():
    a, b = standing("a", [0.9, 0.92], [-0.1, -0.12], 0), standing("b", [0.8, 0.8], [0.0, 0.02], 10_000)
    left, right, _ = tradeoffs([a, b], 5, LIGHT).axes
    first = left.containers[0]
    assert first[0].get_xdata()[0] == pytest.approx(91.0)
    assert first[0].get_ydata()[0] == pytest.approx(-11.0)
    (low, _), (high, _) = first[2][0].get_segments()[0]
    assert high - low == pytest.approx(200 * a.acc_learning.half_width)
    second = right.containers[1]
    assert second[0].get_xdata()[0] == pytest.approx(4.0)
    assert "none" in [label.get_text() for label in right.get_xticklabels()]


def test_lines_of_equal_final_accuracy_go_through_points_of_that_accuracy():
    a, b = standing("a", [0.9], [-0.125], 0), standing("b", [0.5], [0.05], 1)
    left, *_ = tradeoffs([a, b], 5, LIGHT).axes
    level = next(line for line in left.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 1.0)
    x, y = np.array(level.get_xdata()), np.array(level.get_ydata())
    np.testing.assert_allclose(np.diff(x + 0.8 * y), 0.0, atol=1e-9)


def test_strategies_without_a_place_stay_in_the_key_and_one_alone_is_no_trade():
    joint = Standing("joint", *map(mean_and_interval, ([np.nan], [np.nan], [0.9], [0.0])))
    a, b = standing("a", [0.9], [-0.1], 0), standing("b", [0.8], [0.0], 10)
    left, right, key = tradeoffs([a, joint, b], 5, LIGHT).axes
    assert len(left.containers) == 2
    assert len(right.containers) == 3
    assert len(key.texts) == 6
    assert tradeoffs([a], 5, LIGHT) is None


def test_sizes_are_logarithms_and_none_has_a_place_to_the_left():
    np.testing.assert_allclose(size_positions([0, 10, 1e6, np.nan]), [0.0, 1.0, 6.0, np.nan])
    np.testing.assert_allclose(size_positions([0, 100]), [1.5, 2.0])
    np.testing.assert_allclose(size_positions([0, 0]), [0.0, 0.0])


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(0, 300)), min_size=1, max_size=8), st.booleans())
def test_labels_keep_apart_from_each_other_and_from_points(points, all_equal):
    points = np.array(points)
    points = np.broadcast_to(points[0], points.shape) if all_equal else points
    labels = moved_apart(points, 10.0, rounds=2000)
    gaps = np.hypot(*(labels[:, None] - np.concatenate([labels, points])[None]).transpose(2, 0, 1))
    gaps[np.arange(len(points)), np.arange(len(points))] = np.inf
    assert gaps.min() > 9.0


def test_a_label_alone_stands_right_above_its_point():
    np.testing.assert_allclose(moved_apart(np.array([[3.0, 4.0]]), 10.0), [[3.0, 14.0]], atol=0.02)


def test_forty_nine_strategies_have_distinct_looks():
    assert len({look_of(k, LIGHT)[:2] for k in range(49)}) == 49


def test_the_protected_share_is_the_sum_of_ranks_over_the_sum_of_widths():
    ends = [
        {"task": 0, "subspaces": [{"name": "a", "rank": 10, "width": 100}, {"name": "b", "rank": 5, "width": 50}]},
        {"task": 2, "subspaces": [{"name": "a", "rank": 60, "width": 100}, {"name": "b", "rank": 15, "width": 50}]},
    ]
    np.testing.assert_allclose(share_of_width(ends, 3), [0.1, np.nan, 0.5])
    assert np.isnan(share_of_width([{"task": 0}], 1)).all()


def test_only_strategies_that_protect_a_subspace_are_drawn_in_the_colour_of_their_place():
    nothing, runs = np.full((2, 3), np.nan), np.array([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4]])
    figure = rank_growth({"naive": nothing, "hlop": runs}, LIGHT)
    curves = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 3]
    np.testing.assert_allclose([line.get_ydata() for line in curves], [[15.0, 25.0, 35.0]])
    assert curves[0].get_color() == look_of(1, LIGHT).colour
    assert rank_growth({"naive": nothing}, LIGHT) is None
