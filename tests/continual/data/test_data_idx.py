import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from continual.data import fashion_mnist, mnist, mnist5k, read_idx
from continual.data.idx import FILES


def idx_bytes(array, kind=8):
    return bytes((0, 0, kind, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_official_layout(folder, zipped, train=200, test=100):
    """Write real digits under the four official names."""
    real = mnist5k()
    arrays = (
        real.train.inputs[:train],
        real.train.targets[:train].astype(np.uint8),
        real.test.inputs[:test],
        real.test.targets[:test].astype(np.uint8),
    )
    for name, array in zip(FILES, arrays, strict=True):
        if zipped:
            with gzip.open(folder / f"{name}.gz", "wb") as stream:
                stream.write(idx_bytes(array))
        else:
            (folder / name).write_bytes(idx_bytes(array))
    return arrays


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(("loader", "name"), [(mnist, "mnist"), (fashion_mnist, "fashion_mnist")])
def test_reads_the_official_layout_back(tmp_path, zipped, loader, name):
    written = write_official_layout(tmp_path, zipped)
    dataset = loader(tmp_path)
    read = (dataset.train.inputs, dataset.train.targets, dataset.test.inputs, dataset.test.targets)
    for array, expected in zip(read, written, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert (dataset.name, dataset.num_classes, dataset.validation) == (name, 10, None)


def test_reads_a_file_written_by_hand(tmp_path):
    (tmp_path / "hand").write_bytes(bytes.fromhex("0000080200000002000000030001020304ff"))
    assert read_idx(tmp_path / "hand", 2).tolist() == [[0, 1, 2], [3, 4, 255]]


def test_limits_are_stratified_seeded_and_leave_the_other_part_alone(tmp_path):
    write_official_layout(tmp_path, zipped=False, train=2000)
    whole, limited = mnist(tmp_path), mnist(tmp_path, limit_train=100)
    share = np.bincount(whole.train.targets) * 100 / 2000
    assert (np.abs(np.bincount(limited.train.targets) - share) < 1).all()
    np.testing.assert_array_equal(limited.test.inputs, whole.test.inputs)
    assert limited.checksum == mnist(tmp_path, limit_train=100).checksum
    assert limited.checksum != mnist(tmp_path, limit_train=100, seed=1).checksum
    assert mnist(tmp_path, limit_train=2000).checksum == whole.checksum
    for wrong in (0, -1, 2001):
        with pytest.raises(ValueError, match=f"limit_train must lie in 1..2000, .* but it is {wrong}"):
            mnist(tmp_path, limit_train=wrong)


def test_carves_validation(tmp_path):
    write_official_layout(tmp_path, zipped=False)
    dataset = mnist(tmp_path, validation=0.25)
    assert (len(dataset.train), len(dataset.validation)) == (150, 50)


LABELS = np.arange(10, dtype=np.uint8)
DAMAGE = {
    "truncated": (idx_bytes(LABELS)[:-3], "must hold 10 numbers, .* but it holds 7"),
    "appended": (idx_bytes(LABELS) + b"x", "must hold 10 numbers, .* but it holds 11"),
    "images for labels": (idx_bytes(np.zeros((2, 3, 4), np.uint8)), "magic 0x00000801 .* starts with 0x00000803"),
    "other numbers": (idx_bytes(LABELS, kind=13), "magic 0x00000801 .* starts with 0x00000d01"),
    "no IDX": (b"<html>not found</html>", "magic 0x00000801 .* starts with 0x3c68746d"),
    "empty": (b"", "magic"),
    "no lengths": (bytes((0, 0, 8, 1, 0)), "must state 1 lengths"),
    "truncated gzip": (gzip.compress(idx_bytes(LABELS))[:-9], "truncated or damaged"),
    "damaged gzip": (gzip.compress(idx_bytes(LABELS))[:-8] + bytes(8), "truncated or damaged"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_refused_and_the_file_named(tmp_path, case):
    content, message = DAMAGE[case]
    path = tmp_path / "labels"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_idx(path, 1)
    assert str(path) in str(caught.value)


def test_a_label_out_of_range_is_refused(tmp_path):
    write_official_layout(tmp_path, zipped=False)
    labels = (np.arange(200) % 10).astype(np.uint8)
    labels[17] = 26
    (tmp_path / FILES[1]).write_bytes(idx_bytes(labels))
    with pytest.raises(ValueError, match=r"labels 0..9, but label 26 stands at index 17"):
        mnist(tmp_path)


def test_images_and_labels_of_different_length_are_refused(tmp_path):
    write_official_layout(tmp_path, zipped=False)
    (tmp_path / FILES[1]).write_bytes(idx_bytes(LABELS))
    with pytest.raises(ValueError, match="200 inputs and 10 targets"):
        mnist(tmp_path)


def test_a_missing_file_is_named_with_the_way_to_get_it(tmp_path):
    write_official_layout(tmp_path, zipped=True)
    (tmp_path / f"{FILES[3]}.gz").unlink()
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte.gz .* apt-get download dataset-fashion-mnist"):
        fashion_mnist(tmp_path)
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte.gz .* four official MNIST files"):
        mnist(tmp_path)


def test_the_whole_of_fashion_mnist():
    folder = os.environ.get("PALIMPSEST_DATA")
    if folder is None or not (Path(folder) / "fashion-mnist").is_dir():
        pytest.skip("PALIMPSEST_DATA names no folder with fashion-mnist in it (make bench-data fetches it)")
    dataset = fashion_mnist(Path(folder) / "fashion-mnist")
    assert np.bincount(dataset.train.targets).tolist() == [6000] * 10
    assert np.bincount(dataset.test.targets).tolist() == [1000] * 10
    assert dataset.train.inputs.shape == (60000, 28, 28)
