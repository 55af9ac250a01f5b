"""Terminal tables: they fit the width, say the numbers, and read no colours into names."""

import json

import pytest
from rich.console import Console

from continual.reports import comparison_table, run_table


def printed(renderable, width):
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


@pytest.mark.parametrize("width", [80, 100])
def test_a_comparison_fits_and_has_one_row_per_strategy_and_its_matrix(seeded_runs, width):
    text = printed(comparison_table([seeded_runs["naive", 0], seeded_runs["hlop", 0]]), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for strategy in ("naive", "hlop"):
        metrics = json.loads((seeded_runs[strategy, 0] / "metrics.json").read_text())
        (row,) = [line for line in text.splitlines() if line.startswith(strategy) and "126" in line]
        for metric in ("acc_final", "acc_learning"):
            assert f"{100 * metrics[metric]:.1f}" in row
        assert f"−{abs(100 * metrics['bwt']):.1f}" in row
        assert "41.3" in row
    assert text.count("after ") >= 2


@pytest.mark.parametrize("width", [80, 100])
def test_means_with_intervals_fit_too(seeded_runs, width):
    text = printed(comparison_table(list(seeded_runs.values())), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert text.count("±") >= 4


def test_the_table_of_one_run_names_the_scenario_and_prints_the_matrix(fake_run):
    text = printed(run_table(fake_run(num_tasks=3)), 80)
    assert text.startswith("permuted_digits, 3 tasks, mode domain")
    assert len([line for line in text.splitlines() if line.strip()[:1] in "123" and line.strip()]) == 3


def test_long_sequences_stay_within_the_terminal(fake_run):
    text = printed(run_table(fake_run(num_tasks=40, strategy="naive")), 80)
    assert max(map(len, text.splitlines())) <= 80


def test_brackets_in_names_are_printed_and_not_obeyed(fake_run):
    text = printed(run_table(fake_run(num_tasks=2, changes={"scenario.name": "x"}, strategy="[bold]ewc[/bold]")), 80)
    assert "[bold]ewc[/bold]" in text
