"""Collecting: every finished run once, in the same bytes each time, and every other folder named with its reason."""

import csv
import json
import re
import sys

import numpy as np
import pytest

from continual.cli import main
from continual.metrics import AccuracyMatrices
from continual.reports import collect, read_run, write_collected
from continual.reports.collect import accuracy_rows, by_tasks, run_rows
from continual.reports.collected_files import latex, markdown
from continual.reports.comparison_tables import Tabular
from continual.reports.grouping import group_runs


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A tree of runs of two task sequences, two of them finished twice over, one cut short, one damaged."""
    from fake_runs import write_fake_run

    root = tmp_path_factory.mktemp("mixed")
    for strategy in ("naive", "hlop", "joint"):
        for seed in (0, 1):
            write_fake_run(root / "domain" / f"{strategy}-{seed}", strategy=strategy, seed=seed, num_tasks=3)
    write_fake_run(root / "class" / "ewc", strategy="ewc", num_tasks=2, mode="class", changes={"strategy.strength": 3})
    write_fake_run(root / "again", strategy="naive", seed=0, num_tasks=3)
    (write_fake_run(root / "cut", seed=7, num_tasks=3, finished=False) / "metrics.json").unlink()
    (write_fake_run(root / "broken", seed=8, num_tasks=3) / "accuracy_matrix.npz").write_text("not an archive")
    (root / "empty").mkdir()
    return root


def test_every_finished_run_is_found_once_and_the_others_are_named_with_the_reason(mixed):
    found = collect([mixed])
    assert len(found.runs) == 7
    reasons = {path.name: reason for path, reason in found.skipped}
    assert set(reasons) == {"naive-0", "cut", "broken"}
    assert reasons["naive-0"].startswith("same settings and seeds as")
    assert reasons["cut"] == "not finished, 3 tasks done; the command that began it resumes it"
    assert "accuracy_matrix.npz" in reasons["broken"]


def test_the_same_folders_give_the_same_bytes_in_whatever_order_they_are_named(mixed, tmp_path):
    formats = ["csv", "markdown", "latex"]
    one = write_collected(collect([mixed]), tmp_path / "one", formats)
    shuffled = [mixed / "domain", mixed / "class" / "ewc", mixed / "again", mixed / "cut", mixed / "broken"]
    two = write_collected(collect(shuffled[::-1]), tmp_path / "two", formats)
    assert [path.name for path in one] == ["runs.csv", "accuracies.csv", "tables.md", "tables.tex"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    before = [path.read_bytes() for path in one]
    write_collected(collect([mixed]), tmp_path / "one", formats)
    assert [path.read_bytes() for path in one] == before


def test_rows_of_runs_hold_the_numbers_of_the_files_to_the_last_digit(mixed, tmp_path):
    (path, _) = write_collected(collect([mixed]), tmp_path, ["csv"])
    rows = {row["run"]: row for row in table(path)}
    assert len(rows) == 7
    for folder in (mixed / "domain" / "hlop-1", mixed / "class" / "ewc", mixed / "domain" / "joint-0"):
        metrics, row = json.loads((folder / "metrics.json").read_text()), rows[folder.name]
        assert row["strategy"] == metrics["strategy"]
        for name in ("acc_final", "acc_learning", "bwt", "stored_bytes", "seconds"):
            assert row[name] == ("" if metrics[name] is None else str(metrics[name]))
    assert rows["ewc"]["config.strategy.strength"] == "3"
    assert rows["hlop-1"]["config.strategy.strength"] == ""
    assert rows["hlop-1"]["config.scenario.seed"] == "1"


def test_rows_of_accuracies_are_the_matrices_with_the_untrained_network_as_moment_zero(mixed):
    run = read_run(mixed / "domain" / "hlop-0")
    rows = accuracy_rows([run])
    matrices = AccuracyMatrices.load(run.path / "accuracy_matrix.npz")
    again = np.full((4, 3), np.nan)
    for row in rows:
        again[row["after_task"], row["task"] - 1] = row["accuracy_task_agnostic"]
    np.testing.assert_array_equal(again[1:], matrices.task_agnostic)
    np.testing.assert_array_equal(again[0], matrices.baseline_task_agnostic)
    assert rows[0]["task_name"] == "permutation 1"
    assert rows[0]["test_samples"] == 1000


def test_what_was_not_measured_has_no_row(mixed):
    rows = accuracy_rows([read_run(mixed / "domain" / "joint-0")])
    assert {row["after_task"] for row in rows} == {0, 3}


def test_references_are_numbers_of_the_run(fake_run):
    folder = fake_run(num_tasks=2)
    reference = {"intransigence": 0.03, "plasticity": None, "intransigence_per_task": [0.02, 0.04], "alone": None}
    (folder / "references.json").write_text(json.dumps(reference))
    (row,) = run_rows([read_run(folder)])
    assert row["intransigence"] == 0.03
    assert row["plasticity"] is None
    assert "intransigence_per_task" not in row


def test_runs_of_other_tasks_get_tables_of_their_own(mixed, tmp_path):
    found = collect([mixed])
    assert [len(part) for part in by_tasks(found.runs)] == [1, 6]
    (path,) = write_collected(found, tmp_path, ["markdown"])
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == [
        "permuted_digits, 2 tasks, mode class", "permuted_digits, 3 tasks, mode domain"
    ]  # fmt: skip
    for line in (line for line in text.splitlines() if "backward transfer" in line):
        assert "learning accuracy" in line  # never apart


def test_orders_of_tasks_count_as_repetitions_beside_seeds(fake_run):
    folders = [
        fake_run(f"{seed}-{order}", seed=seed, num_tasks=2, changes={"scenario.order_seed": order})
        for seed in (0, 1)
        for order in (0, 1)
    ]
    (group,) = group_runs(collect(folders).runs)
    assert group.interval("acc_final").num_values == 4


def test_a_table_is_printed_in_markdown_and_latex_with_its_marks_escaped():
    content = Tabular(("strategy", "a|b"), (("ewc_exact", "93.1 ± 0.4"), ("50 %", "−2.0")), "100 % of $5 & <x>")
    assert markdown(content).splitlines()[0] == "| strategy | a\\|b |"
    assert markdown(content).splitlines()[2] == "| ewc_exact | 93.1 ± 0.4 |"
    printed = latex(content)
    assert r"ewc\_exact & 93.1 $\pm$ 0.4 \\" in printed
    assert r"50 \% & $-$2.0 \\" in printed
    assert r"\caption{100 \% of \$5 \& \textless{}x\textgreater{}}" in printed
    assert printed.count(r"\begin") == printed.count(r"\end") == 2


def test_the_command_says_what_it_took_what_it_left_out_and_what_it_wrote(mixed, tmp_path, capsys):
    assert main(["collect", str(mixed), "--output", str(tmp_path), "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "7 finished runs, 3 left out"
    assert sum(line.startswith("left out ") for line in lines) == 3
    assert lines[-2:] == [f"written  {tmp_path / name}" for name in ("runs.csv", "accuracies.csv")]


def test_tables_go_beside_a_run_or_into_the_folder_that_holds_runs(fake_run, tmp_path, capsys):
    folder = fake_run(num_tasks=2)
    assert main(["collect", str(folder)]) == main(["collect", str(tmp_path)]) == 0
    assert sorted(path.name for path in (tmp_path / "collected").iterdir()) == [
        "accuracies.csv", "runs.csv", "tables.md", "tables.tex"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "needs at least one folder"),
        (["nowhere"], "nowhere must be the folder of a run"),
        (["."], "holds none"),
        ([".", "--format", "xls"], "holds none"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_status_2(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["collect", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_format_and_an_absent_package_are_refused_before_anything_is_written(
    fake_run, tmp_path, monkeypatch, capsys
):
    folder = str(fake_run(num_tasks=2))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name, sentence in (("xls", "csv, latex, markdown, parquet"), ("parquet", "palimpsest[parquet]")):
        assert main(["collect", folder, "--format", "csv", "--format", name]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "collected").exists()


def test_parquet_holds_the_rows_of_the_csv(mixed, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: the extra parquet")
    found = collect([mixed])
    runs, accuracies = write_collected(found, tmp_path, ["parquet"])
    assert parquet.read_table(runs).to_pylist() == run_rows(found.runs)
    assert parquet.read_table(accuracies).to_pylist() == accuracy_rows(found.runs)


def test_an_option_of_another_command_is_refused(capsys):
    assert main(["list", "--output", "x"]) == 2
    assert "--output is for report and collect" in capsys.readouterr().err
