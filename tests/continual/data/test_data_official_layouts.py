"""Readers of official files: whole sets come back byte for byte, damaged and foreign ones are refused in a sentence."""

import pickle

import numpy as np
import official_layouts as layouts
import pytest
from PIL import Image

from continual.data import cifar10, cifar100, mini_imagenet, notmnist, svhn
from continual.data.allowed_pickle import read_arrays

PREFIX = {"cifar-10": "cifar-10-batches-py", "cifar-100": "cifar-100-python"}


def write_folder(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


@pytest.mark.parametrize("packed", [True, False])
def test_cifar10_comes_back_from_the_archive_and_from_its_folder(tmp_path, packed):
    if packed:
        layouts.write_cifar10(tmp_path)
    else:
        write_folder(tmp_path, layouts.cifar10_files())
    data = cifar10(tmp_path)
    pixels = layouts.photographs(120)
    np.testing.assert_array_equal(data.train.inputs, pixels[:100])
    np.testing.assert_array_equal(data.test.inputs, pixels[100:])
    np.testing.assert_array_equal(data.train.targets, np.arange(100) % 20 % 10)
    assert data.num_classes == 10


def test_cifar100_brings_fine_labels_and_its_superclasses(tmp_path):
    layouts.write_cifar100(tmp_path)
    data = cifar100(tmp_path)
    np.testing.assert_array_equal(data.train.targets, np.repeat(np.arange(100), 3))
    assert len(data.groups) == 20
    assert data.groups[7] == (7, 27, 47, 67, 87)


def test_what_python_3_pickles_is_read_as_well():
    found = read_arrays(pickle.dumps({"data": np.arange(6).reshape(2, 3), "labels": [1, 2]}, protocol=2), "a file")
    np.testing.assert_array_equal(found["data"], [[0, 1, 2], [3, 4, 5]])
    assert found["labels"] == [1, 2]


class Foreign:
    def __reduce__(self):
        return print, ("called",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_calls_anything_else_is_refused_before_it_does(protocol, capsys):
    with pytest.raises(ValueError, match=r"a file must be a pickle of arrays.*print, which no array needs"):
        read_arrays(pickle.dumps({"data": Foreign()}, protocol=protocol), "a file")
    assert capsys.readouterr().out == ""


def test_an_array_of_objects_cannot_smuggle_a_call():
    with pytest.raises(ValueError, match="which no array needs"):
        read_arrays(pickle.dumps({"data": np.array([Foreign()], dtype=object)}, protocol=2), "a file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop("cifar-10-batches-py/data_batch_3"), "the file data_batch_3 is needed"),
        (lambda files: files.update({"cifar-10-batches-py/test_batch": b"\x80\x02}q"}), "test_batch must be a pickle"),
        (lambda files: files.update({"cifar-10-batches-py/test_batch": layouts.pickled([1])}), "hold a dictionary"),
        (
            lambda files: files.update(
                {"cifar-10-batches-py/test_batch": layouts.pickled({b"data": np.zeros((2, 3), np.uint8)})}
            ),
            r"N rows of 3072 bytes, but it holds uint8 of shape \(2, 3\)",
        ),
        (
            lambda files: files.update(
                {
                    "cifar-10-batches-py/test_batch": layouts.pickled(
                        {b"data": np.zeros((2, 3072), np.uint8), b"labels": [3, 10]}
                    )
                }
            ),
            "labels of 0..9, but they run to 10",
        ),
        (
            lambda files: files.update(
                {"cifar-10-batches-py/test_batch": layouts.pickled({b"data": np.zeros((2, 3072), np.uint8)})}
            ),
            "must hold 2 labels, one a picture, but it holds none",
        ),
    ],
)
def test_cifar_files_of_another_kind_are_refused(tmp_path, change, message):
    files = layouts.cifar10_files()
    change(files)
    write_folder(tmp_path, files)
    with pytest.raises(ValueError, match=message):
        cifar10(tmp_path)


def test_a_class_in_two_superclasses_is_refused(tmp_path):
    files = layouts.cifar100_files()
    content = {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [4, 4], b"coarse_labels": [0, 1]}
    files["cifar-100-python/train"] = layouts.pickled(content)
    write_folder(tmp_path, files)
    with pytest.raises(ValueError, match="class 4 lies in two"):
        cifar100(tmp_path)


@pytest.mark.parametrize(("load", "name"), [(cifar10, "cifar-10"), (cifar100, "cifar-100")])
def test_a_missing_or_truncated_archive_is_named(tmp_path, load, name):
    with pytest.raises(ValueError, match=rf"{name}-python.tar.gz is needed but not there; to get it: put"):
        load(tmp_path)
    layouts.write_cifar10(tmp_path)
    content = (tmp_path / "cifar-10-python.tar.gz").read_bytes()
    (tmp_path / f"{name}-python.tar.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=rf"{name}-python.tar.gz must be a whole archive"):
        load(tmp_path)


def test_svhn_puts_colours_first_and_its_ten_is_zero(tmp_path):
    layouts.write_svhn(tmp_path)
    data = svhn(tmp_path)
    np.testing.assert_array_equal(data.train.inputs, layouts.photographs(40))
    np.testing.assert_array_equal(data.train.targets, (np.arange(40) % 10 + 1) % 10)


def test_svhn_files_that_are_missing_damaged_or_of_another_kind_are_refused(tmp_path):
    from scipy.io import savemat

    with pytest.raises(ValueError, match=r"train_32x32.mat is needed but not there"):
        svhn(tmp_path)
    layouts.write_svhn(tmp_path)
    content = (tmp_path / "test_32x32.mat").read_bytes()
    (tmp_path / "test_32x32.mat").write_bytes(content[:300])
    with pytest.raises(ValueError, match=r"test_32x32.mat must be a MATLAB file"):
        svhn(tmp_path)
    savemat(tmp_path / "test_32x32.mat", {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [11]])})
    with pytest.raises(ValueError, match=r"label of 1..10"):
        svhn(tmp_path)
    savemat(tmp_path / "test_32x32.mat", {"X": np.zeros((8, 8, 3, 2), np.uint8), "y": np.array([[1], [2]])})
    with pytest.raises(ValueError, match=r"must hold X of \[32, 32, 3, N\]"):
        svhn(tmp_path)


def test_notmnist_keeps_every_letter_of_a_font_on_one_side(tmp_path):
    layouts.write_notmnist(tmp_path)
    data = notmnist(tmp_path)
    assert (len(data.train), len(data.test)) == (100, 20)
    assert np.bincount(data.test.targets).tolist() == [2] * 10
    whole = {image.tobytes() for image in np.concatenate([data.train.inputs, data.test.inputs])}
    written = {np.asarray(Image.open(path)).tobytes() for path in tmp_path.glob("*/*.png")}
    assert whole == written


def test_notmnist_names_what_is_missing_and_every_file_that_is_no_picture(tmp_path):
    with pytest.raises(ValueError, match=r"A/\*.png is needed but not there"):
        notmnist(tmp_path)
    layouts.write_notmnist(tmp_path)
    for name in ("A/font01.png", "F/font02.png"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=r"2 files are no pictures, so delete them: .*A/font01.png, .*F/font02.png"):
        notmnist(tmp_path)


def test_mini_imagenet_uses_all_classes_of_the_three_lists_and_holds_out_a_sixth_of_each(tmp_path):
    layouts.write_mini_imagenet(tmp_path, classes=(3, 2, 1))
    data = mini_imagenet(tmp_path, size=20)
    assert data.train.inputs.shape == (60, 3, 20, 20)
    assert np.bincount(data.train.targets).tolist() == [10] * 6
    assert np.bincount(data.test.targets).tolist() == [2] * 6
    assert data.train.inputs.std() > 10


def test_mini_imagenet_names_a_list_or_a_photograph_that_is_missing(tmp_path):
    layouts.write_mini_imagenet(tmp_path, classes=(1, 1, 1))
    (tmp_path / "images" / "n00000003.jpg").unlink()
    with pytest.raises(ValueError, match=r"n00000003.jpg is listed but not there"):
        mini_imagenet(tmp_path)
    (tmp_path / "val.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match=r"val.csv must begin with filename,label"):
        mini_imagenet(tmp_path)
    (tmp_path / "train.csv").unlink()
    with pytest.raises(ValueError, match=r"train.csv is needed but not there"):
        mini_imagenet(tmp_path)
