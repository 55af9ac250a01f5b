"""Figures: valid PNGs of the stated size with something on them, and labels that keep apart."""

import io
import subprocess
import sys

import numpy as np
import pytest
from fake_runs import add_measurements
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

from continual.reports import read_run
from continual.reports.accuracy_figures import accuracy_heatmap, accuracy_over_time
from continual.reports.comparison_figures import heatmaps_side_by_side, mean_accuracy_overlay
from continual.reports.layer_figures import by_layer, layer_activity
from continual.reports.page import illustrations
from continual.reports.raster_figure import raster_height, spike_raster
from continual.reports.run_folder import Activity
from continual.reports.style import DARK, DOTS_PER_INCH, LIGHT, plain_text, png_bytes, short_names, spread
from continual.reports.training_figure import training_curves


def pixels(figure):
    png = png_bytes(figure)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return imread(io.BytesIO(png))[..., :3]


def expected_shape(width, height):
    return (round(height * DOTS_PER_INCH), round(width * DOTS_PER_INCH), 3)


SIZES = {
    "accuracy_matrix": (6.4, 5.4),
    "accuracy_over_time": (6.4, 5.4),
    "accuracy_within_tasks": (11.2, 5.0),
    "confusion": (11.2, 5.4),
    "layer_activity": (11.2, 4.6),
    "spike_raster": (11.2, 5.3),
    "training_curves": (11.2, 4.2),
}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_every_figure_of_a_run_has_its_size_its_paper_and_something_drawn(fake_run, theme):
    drawn = {entry.name: entry.draw(theme) for entry in illustrations(read_run(add_measurements(fake_run())))}
    assert set(drawn) == set(SIZES)
    for name, figure in drawn.items():
        image = pixels(figure)
        assert image.shape == expected_shape(*SIZES[name])
        assert len(np.unique((255 * image).astype(int) @ [65536, 256, 1])) > 20
        paper = [int(theme.paper[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        np.testing.assert_allclose(image[0, 0], paper, atol=1e-6)


def test_the_same_figure_gives_the_same_bytes():
    R = np.array([[0.9, 0.1], [0.5, 0.9]])
    first, second = (png_bytes(accuracy_heatmap(R, ["a", "b"], LIGHT)) for _ in range(2))
    assert first == second


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_the_heat_map_prints_what_was_measured_and_hatches_what_was_not():
    R = np.array([[0.912, np.nan], [0.5, 0.87]])
    figure = accuracy_heatmap(R, ["a", "b"], LIGHT, baseline=np.array([0.1, np.nan]))
    assert sorted(texts(figure)) == ["10.0", "50.0", "87.0", "91.2"]
    hatched = [patch for patch in figure.axes[0].patches if patch.get_hatch()]
    outlined = [patch for patch in figure.axes[0].patches if not patch.get_fill()]
    assert (len(hatched), len(outlined)) == (2, 2)


def test_the_mean_curve_is_bold_and_averages_the_tasks_seen():
    R = np.array([[0.8, 0.1], [0.6, 0.9]])
    lines = accuracy_over_time(R, ["a", "b"], LIGHT).axes[0].lines
    widest = max(lines, key=lambda line: line.get_linewidth())
    np.testing.assert_allclose(widest.get_ydata(), [80.0, 75.0])
    assert len(lines) == 3


def test_rates_and_ranks_are_drawn_only_where_recorded(fake_run):
    protected, bare = read_run(fake_run("a", strategy="hlop")), read_run(fake_run("b", strategy="naive"))
    silent = read_run(fake_run("c", strategy="naive", spiking=False))
    assert len(layer_activity(protected.task_ends, LIGHT).axes) == 2
    assert len(layer_activity(bare.task_ends, LIGHT).axes) == 1
    assert layer_activity(silent.task_ends, LIGHT) is None
    assert any(text.startswith("360") for text in texts(layer_activity(protected.task_ends, LIGHT)))
    assert set(by_layer(protected.task_ends, "layers", "rate")) == {"hidden.0", "hidden.1"}


def test_the_raster_draws_every_spike_of_a_narrow_layer_and_counts_a_wide_one():
    random = np.random.default_rng(0)
    narrow = (random.random((10, 6)) < 0.3).astype(np.uint8)
    wide = (random.random((10, 300)) < 0.3).astype(np.uint8)
    figure = spike_raster(Activity({"narrow": narrow, "wide": wide}, np.eye(8), 3), LIGHT, most_neurons=20)
    image_axes, first, second = figure.axes
    assert image_axes.get_title(loc="left") == "Input, class 3"
    marks = first.collections[0].get_offsets()
    assert {(int(x) - 1, int(y - 0.5)) for x, y in marks} == set(
        zip(*map(np.ndarray.tolist, np.nonzero(narrow)), strict=True)
    )
    assert "all 6 neurons" in first.get_title(loc="left")
    assert "20 of 300 neurons" in second.get_title(loc="left")
    assert f"{100 * wide.mean():.1f} %" in second.get_title(loc="left")
    assert pixels(figure).shape == expected_shape(11.2, raster_height(2))


def test_training_curves_break_at_task_boundaries_and_skip_missing_numbers():
    epochs = [{"task": k // 2, "epoch": k % 2, "loss": 1.0 / (k + 1), "accuracy": None} for k in range(6)]
    loss, accuracy = training_curves(epochs, LIGHT).axes
    assert [len(line.get_xdata()) for line in loss.lines] == [2, 2, 2]
    assert np.isnan(np.concatenate([line.get_ydata() for line in accuracy.lines])).all()
    assert training_curves([], LIGHT) is None


def test_the_overlay_draws_a_band_only_from_two_seeds_and_a_reference_for_the_last_row_alone():
    R = np.array([[0.9, 0.1], [0.7, 0.9]])
    last = np.array([[np.nan, np.nan], [0.9, 0.9]])
    figure = mean_accuracy_overlay({"two": [R, R - 0.05], "one": [R], "joint": [last]}, LIGHT)
    assert len(figure.axes[0].collections) == 1
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["joint", "one", "two"]
    dotted = [line for line in figure.axes[0].lines if list(line.get_xdata()) == [0, 1]]
    assert [line.get_ydata()[0] for line in dotted] == [90.0]


@pytest.mark.parametrize(("number", "drawn"), [(1, 1), (2, 2), (4, 4), (5, 5)])
def test_one_matrix_is_drawn_per_strategy(number, drawn):
    R = np.full((3, 3), 0.5)
    figure = heatmaps_side_by_side({f"s{k}": [R] for k in range(number)}, ["a", "b", "c"], LIGHT)
    assert len(figure.axes) == drawn


@pytest.mark.parametrize("num_tasks", [1, 2, 13, 25])
def test_any_number_of_tasks_can_be_drawn(num_tasks):
    R = np.full((num_tasks, num_tasks), 0.5)
    names = ["a name that goes on and on and on"] * num_tasks
    for figure in (accuracy_heatmap(R, names, LIGHT), accuracy_over_time(R, names, DARK)):
        assert pixels(figure).shape == expected_shape(6.4, 5.4)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12), st.floats(0.01, 0.08))
def test_labels_keep_their_distance_their_order_and_the_axes(positions, gap):
    placed = spread(positions, gap, 0.0, 1.0)
    order = np.argsort(positions, kind="stable")
    assert (np.diff(np.array(placed)[order]) >= gap - 1e-9).all()
    assert min(placed) >= -1e-9
    assert max(placed) <= 1.0 + 1e-9


def test_labels_far_apart_stay_where_they_are():
    assert spread([0.9, 0.1, 0.5], 0.05, 0.0, 1.0) == pytest.approx([0.9, 0.1, 0.5])


def test_text_from_files_is_drawn_as_it_is():
    assert plain_text("a $b$\nc") == r"a \$b\$ c"
    assert plain_text("x" * 50, 10) == "x" * 9 + "…"
    R = np.array([[0.5, 0.5], [0.5, 0.5]])
    assert pixels(accuracy_heatmap(R, [r"$\frac{", "$x^"], LIGHT, title=r"$\bad$")).shape[2] == 3


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["network.layers.fc1", "network.layers.head"], ["fc1", "head"]),
        (["a.b", "a.b.c"], ["b", "b.c"]),
        (["alone"], ["alone"]),
        (["x.alone"], ["alone"]),
        (["stage1.block.convolution", "stage2.block.convolution"], ["stage1…convolution", "stage2…convolution"]),
        ([], []),
    ],
)
def test_layer_names_keep_the_end_that_tells_them_apart(names, short):
    assert short_names(names) == short


def test_importing_metrics_and_reports_loads_neither_torch_nor_pyplot():
    code = (
        "import sys, continual.metrics, continual.reports\n"
        "print([name for name in ('torch', 'matplotlib.pyplot', 'snntorch', 'scipy.stats') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
