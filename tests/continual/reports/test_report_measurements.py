"""What a run may measure besides: within tasks, confusion, references, peaks; only what is there is shown."""

import json

import numpy as np
import pytest
from fake_runs import add_measurements

from continual.reports import read_run, write_report
from continual.reports.confusion_figure import confusion_figure, shares_of_rows
from continual.reports.cost_section import cost_section
from continual.reports.page import illustrations
from continual.reports.reference_section import reference_section
from continual.reports.run_folder import Confusion
from continual.reports.style import LIGHT
from continual.reports.within_figure import accuracy_within_tasks, timeline

R = np.array([[0.9, 0.1], [0.7, 0.8]])
WITHIN = [
    {"task": 0, "task_agnostic": [0.5, None]},
    {"task": 0, "task_agnostic": [0.8, None]},
    {"task": 1, "task_agnostic": [0.2, 0.6]},
]


@pytest.fixture(scope="module")
def measured_run(tmp_path_factory):
    """Write one made-up run with every measurement, and its report."""
    from fake_runs import write_fake_run

    folder = write_fake_run(tmp_path_factory.mktemp("measured") / "run", num_tasks=3, spiking=False)
    add_measurements(folder, num_tasks=3)
    write_report(folder)
    return folder


def words_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")


def test_evaluations_within_a_task_stand_at_equal_distances_before_its_end():
    times, accuracies = timeline(R, WITHIN, "task_agnostic")
    np.testing.assert_allclose(times, [1 / 3, 2 / 3, 1, 1.5, 2])
    np.testing.assert_array_equal(accuracies[:, 0], [0.5, 0.8, 0.9, 0.2, 0.7])
    np.testing.assert_array_equal(accuracies[:, 1], [np.nan, np.nan, 0.1, 0.6, 0.8])


def test_a_task_is_drawn_from_its_own_band_on_with_a_dot_at_each_end_of_a_task():
    figure = accuracy_within_tasks(R, WITHIN, "task_agnostic", ["a", "b"], LIGHT)
    first, first_ends, second, second_ends = figure.axes[0].lines
    np.testing.assert_allclose(first.get_ydata(), [50, 80, 90, 20, 70])
    np.testing.assert_allclose(first_ends.get_xdata(), [1, 2])
    np.testing.assert_allclose(second.get_ydata(), [60, 80])
    np.testing.assert_allclose(second_ends.get_ydata(), [80])
    assert accuracy_within_tasks(R, [], "task_agnostic", ["a", "b"], LIGHT) is None


def test_shares_are_of_the_row_and_a_class_without_samples_has_none():
    counts = np.array([[3, 1, 0], [0, 0, 0], [1, 1, 2]])
    np.testing.assert_array_equal(shares_of_rows(counts), [[0.75, 0.25, 0], [np.nan] * 3, [0.25, 0.25, 0.5]])


def test_cells_hold_the_raw_counts_and_the_panel_of_tasks_only_where_tasks_have_own_classes():
    classes = np.array([[[9, 9], [9, 9]], [[3, 1], [0, 40]]])
    (axes, _) = confusion_figure(Confusion(classes, None), ["a", "b"], LIGHT).axes
    assert [text.get_text() for text in axes.texts] == ["3", "1", "40"]
    assert axes.get_ylabel() == "true class"
    both = confusion_figure(Confusion(classes, classes), ["a", "b"], LIGHT).axes
    assert [axes.get_title(loc="left") for axes in both] == ["Classes", "Tasks", ""]


@pytest.mark.parametrize("num_classes", [1, 21, 100])
def test_any_number_of_classes_can_be_drawn(num_classes):
    counts = np.ones((1, num_classes, num_classes), dtype=np.int64)
    axes = confusion_figure(Confusion(counts, None), ["a"], LIGHT).axes[0]
    assert 1 <= len(axes.get_xticks()) <= 20


def test_figures_of_measurements_are_drawn_only_where_they_were_made(measured_run, fake_run):
    files = {path.stem for path in (measured_run / "figures").iterdir()}
    assert {"accuracy_within_tasks", "confusion"} <= files
    plain = {entry.name for entry in illustrations(read_run(fake_run())) if entry.draw(LIGHT) is not None}
    assert not {"accuracy_within_tasks", "confusion"} & plain


def test_the_energy_stands_with_the_constants_it_was_computed_with_and_is_called_an_estimate(measured_run, fake_run):
    text = words_of(measured_run)
    assert "2.50 µJ" in text
    assert "estimate from the counts, 3 pJ × MAC + 0.5 pJ × synaptic operation" in text
    plain = cost_section(read_run(fake_run(num_tasks=2)))
    assert "estimate from the counts, 4.6 pJ × MAC + 0.9 pJ × synaptic operation" in plain


def test_the_cost_of_each_phase_and_the_ledger_are_tabled(measured_run):
    text = words_of(measured_run)
    row = '<th scope="row">training</th><td class="number">30.0 s</td><td class="number">5.00 MiB</td>'
    assert row in text
    assert '<th scope="row">consolidation</th><td class="number">6.00 s</td><td class="number">–</td>' in text
    for words in ("60.0 k", "940", "samples learned from", "optimizer steps"):
        assert words in text


def test_references_are_tabled_by_task_with_the_names_of_their_runs_and_the_reason_where_there_is_none(measured_run):
    text = words_of(measured_run)
    assert "Against reference runs" in text
    assert "intransigence against digits-0a0a0a0a, trained on all tasks so far" in text
    assert '<td class="number">+2.0</td></tr>' in text
    assert "no plasticity: no run of alone among the folders." in text


def test_without_references_the_page_has_no_such_section(fake_run):
    assert reference_section(read_run(fake_run(num_tasks=2))) == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [("accuracy_matrix.npz", "no archive"), ("config.yaml", "a: [1"), ("records.jsonl", '{"event": "epoch"}\n')],
)
def test_a_damaged_file_is_a_value_error(fake_run, name, content):
    folder = fake_run(num_tasks=2)
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match="damaged"):
        read_run(folder)


def test_a_number_is_found_in_the_metrics_or_the_references_and_a_list_is_none(measured_run):
    run = read_run(measured_run)
    assert run.number("acc_final") == json.loads((measured_run / "metrics.json").read_text())["acc_final"]
    assert run.number("intransigence") == pytest.approx(0.02)
    assert run.number("min_acc") is None
    assert run.number("mode") is None
