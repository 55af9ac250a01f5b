"""The commands: what they print, what they import, what they write, how they stop."""

import copy
import json
import signal
import subprocess
import sys
import time

import pytest
import yaml
from tiny_runs import assert_same_run, described, records_of

from continual.api import run_config
from continual.cli import main
from continual.compose import GROUPS, choices, compose
from continual.progress import Bars

TINY = ["debug=tiny", "model.hidden=[8,8]"]


def test_list_names_every_choice_of_every_group(capsys):
    assert main(["list"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert set(lines) == set(GROUPS)
    assert lines["strategy"].split() == choices("strategy")
    assert main(["list", "scenario"]) == 0
    assert capsys.readouterr().out.split() == ["scenario", *choices("scenario")]


def test_data_says_what_is_there_and_how_to_get_the_rest(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["data"]) == 0
    lines = capsys.readouterr().out.splitlines()
    status = {line.split()[0]: line.split()[1] for line in lines if not line.startswith(" ")}
    assert status["mnist5k"] == status["digits"] == "ready"
    assert status["mnist"] == "missing"
    assert set(status) == set(choices("data"))
    missing = next(number for number, line in enumerate(lines) if line.startswith("mnist "))
    assert lines[missing + 1].strip(), "a missing set is followed by how to get it"
    assert list(tmp_path.iterdir()) == []


def test_help_shows_commands_and_examples_on_lines_of_their_own(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    for word in ("report", "list", "data", "--config-dir", "--cfg", "strategies=[naive,hlop,joint]"):
        assert word in shown


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("palimpsest ")


def test_cfg_prints_the_resolved_configuration_of_each_strategy(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--cfg", *TINY, "strategies=[naive,hlop]", "seed=3"]) == 0
    first, second = yaml.safe_load_all(capsys.readouterr().out)
    assert first["strategy"] == {"_target_": "continual.strategies.Naive"}
    assert second["strategy"]["sizes"]["_target_"] == "neuro.lateral.EnergyShare"
    assert first["data"]["seed"] == first["scenario"]["seed"] == 3, "interpolations are resolved"
    assert list(tmp_path.iterdir()) == []


def test_nothing_heavy_is_imported_before_it_is_needed():
    script = """
import sys, contextlib, io
import continual, continual.cli
assert "torch" not in sys.modules, "import"
for command in (["list"], ["data"], ["--cfg", "strategy=hlop"], ["strategy=nope"]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        continual.cli.main(command)
    assert "torch" not in sys.modules, command
    assert "matplotlib" not in sys.modules, command
assert callable(continual.run) and "torch" in sys.modules
print("good")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "good\n", done.stderr


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import continual

    with pytest.raises(AttributeError, match="nonsense"):
        continual.nonsense  # noqa: B018  # the access is the test


# Runs


def test_dry_run_writes_nothing_and_names_the_folder_that_the_run_gets(capsys, tmp_path):
    command = [*TINY, "strategies=[naive,hlop]", f"output={tmp_path / 'runs'}"]
    assert main([*command, "dry_run=true"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["naive", "hlop"]
    assert all("2 tasks, 46 steps" in line for line in lines)
    assert not (tmp_path / "runs").exists()
    assert main(command) == 0
    announced = {line.rpartition("would write ")[2].rpartition("/")[2] for line in lines}
    assert {folder.name for folder in (tmp_path / "runs").iterdir() if "compare" not in folder.name} == announced


def test_two_strategies_get_a_folder_each_and_a_comparison(capsys, tmp_path, monkeypatch):
    import continual.reports

    compared = []

    def compare(folders, output):
        compared.extend(folders)
        return output / "comparison.html"

    monkeypatch.setattr(continual.reports, "compare", compare)
    command = [*TINY, "strategies=[naive,hlop]", f"output={tmp_path}"]
    assert main(command) == 0
    first = capsys.readouterr()
    folders = sorted(path for path in tmp_path.iterdir())
    names = [json.loads((folder / "metrics.json").read_text())["strategy"] for folder in compared]
    assert names == ["naive", "hlop_hebbian_accumulated"]
    assert sorted(compared) == folders
    for folder in folders:
        assert f"{folder / 'report.html'}" in first.out
    assert "comparison.html" in first.out

    def forbidden(*arguments):
        raise AssertionError("trained again")

    with monkeypatch.context() as patch:
        patch.setattr("continual.api.run_sequence", forbidden)
        assert main(command) == 0
        assert capsys.readouterr().out == first.out, "a finished run prints its table again"
        with pytest.raises(AssertionError, match="trained again"):
            main([*command, "overwrite=true"])


def test_the_train_word_may_be_said(capsys, tmp_path):
    assert main(["train", *TINY, "strategy=naive", f"output={tmp_path}"]) == 0
    assert "final" in capsys.readouterr().out
    (folder,) = tmp_path.iterdir()
    assert main([*TINY, "strategies=[naive]", f"output={tmp_path}"]) == 0
    assert list(tmp_path.iterdir()) == [folder], "both commands describe one run"


def test_allowed_strategy_from_a_users_own_folders(capsys, tmp_path, monkeypatch):
    (tmp_path / "my configs" / "strategy").mkdir(parents=True)
    (tmp_path / "my configs" / "strategy" / "counting.yaml").write_text(
        "_target_: counting_strategies.Counting\nlimit: 3\n"
    )
    (tmp_path / "counting_strategies").mkdir()
    (tmp_path / "counting_strategies" / "__init__.py").write_text(
        "from continual.strategies import Naive\n\n\n"
        "class Counting(Naive):\n"
        "    name = 'counting'\n\n"
        "    def __init__(self, limit: int):\n"
        "        self.limit = limit\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    command = ["--config-dir", "my configs", *TINY, "strategy=counting", "output=runs"]
    assert main(command) == 2
    assert "allow=[yourpackage]" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    try:
        assert main([*command, "allow=[counting_strategies]"]) == 0
        (folder,) = (tmp_path / "runs").iterdir()
        assert json.loads((folder / "metrics.json").read_text())["strategy"] == "counting"
        capsys.readouterr()
        assert main([*command, "allow=[counting_strategies]", "strategy.limit=abc"]) == 2
        assert "strategy.limit must be a whole number" in capsys.readouterr().err
        assert main(["--config-dir", "my configs", "list", "strategy"]) == 0
        assert "counting" in capsys.readouterr().out
    finally:
        sys.modules.pop("counting_strategies", None)


@pytest.mark.parametrize("name", ["plain", "with space", "with (brackets)", "with,comma=equals"])
def test_a_configuration_folder_may_have_any_name(name, tmp_path):
    (tmp_path / name / "strategy").mkdir(parents=True)
    (tmp_path / name / "strategy" / "mine.yaml").write_text("_target_: continual.strategies.Naive\n")
    assert compose(["strategy=mine"], str(tmp_path / name))["strategy"]["_target_"] == "continual.strategies.Naive"


# Stopping


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stops_with_its_status_and_the_same_command_goes_on(sent, status, capsys, tmp_path, monkeypatch):
    command = [*TINY, "strategy=hlop"]
    assert main([*command, f"output={tmp_path / 'whole'}"]) == 0
    steps = []

    def step(self):
        steps.append(1)
        if len(steps) == 30:
            signal.raise_signal(sent)

    with monkeypatch.context() as patch:
        patch.setattr(Bars, "step", step)
        assert main([*command, f"output={tmp_path / 'cut'}"]) == status
    err = capsys.readouterr().err
    assert "the same command goes on" in err
    assert "Traceback" not in err
    (cut,), (whole,) = (tmp_path / "cut").iterdir(), (tmp_path / "whole").iterdir()
    assert (cut / "checkpoint" / "state.json").exists()
    assert not (cut / "metrics.json").exists()
    assert main([*command, f"output={tmp_path / 'cut'}"]) == 0
    assert_same_run(whole, cut)


def test_exit_statuses_of_the_real_program_without_traceback(tmp_path):
    program = [sys.executable, "-m", "continual"]
    done = subprocess.run([*program, "strategy=hlopp"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    listed = subprocess.run([*program, "list", "strategy"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert listed.returncode == 0
    assert listed.stdout.split()[0] == "strategy"
    assert list(tmp_path.iterdir()) == [], "not even Hydra's own output folder"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_signal_to_the_real_program(sent, status, tmp_path):
    program = [sys.executable, "-m", "continual", "debug=tiny", "strategy=hlop", "epochs=20", "threads=1"]
    process = subprocess.Popen(
        [*program, f"output={tmp_path}"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    for _ in range(6000):
        if list(tmp_path.glob("*/checkpoint/state.json")) or process.poll() is not None:
            break
        time.sleep(0.02)
    process.send_signal(sent)
    _, err = process.communicate(timeout=120)
    assert process.returncode == status, err
    assert "Traceback" not in err
    (folder,) = tmp_path.iterdir()
    assert not (folder / "metrics.json").exists()
    assert main([*program[3:], f"output={tmp_path}"]) == 0
    assert main([*program[3:], f"output={tmp_path / 'whole'}"]) == 0
    (whole,) = (tmp_path / "whole").iterdir()
    assert_same_run(whole, folder)


@pytest.mark.slow
def test_the_main_command_in_miniature_leaves_reports_and_a_comparison(capsys, tmp_path, real_reports):
    assert main(["debug=tiny", f"output={tmp_path}"]) == 0
    out = capsys.readouterr().out
    runs = sorted(path for path in tmp_path.iterdir() if not path.name.startswith("compare"))
    (comparison,) = (path for path in tmp_path.iterdir() if path.name.startswith("compare"))
    assert len(runs) == 2
    for run in runs:
        assert (run / "report.html").stat().st_size > 10_000
        assert list((run / "figures").glob("*.png"))
        assert str(run / "report.html") in out
    assert (comparison / "comparison.html").exists()
    (runs[0] / "report.html").unlink()
    assert main(["report", str(runs[0])]) == 0
    assert (runs[0] / "report.html").exists()
    assert main(["report", *map(str, runs), "--output", str(tmp_path / "mine")]) == 0
    assert (tmp_path / "mine" / "comparison.html").exists()
    assert {line["event"] for line in records_of(runs[0])} == {"run_start", "epoch", "task_end", "run_end"}


def test_a_description_is_not_changed_by_a_run(tmp_path):
    description = described("strategy=hlop") | {"output": str(tmp_path)}
    before = copy.deepcopy(description)
    run_config(description)
    assert description == before
