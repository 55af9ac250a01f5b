"""Write sets in their exact official layouts, with real pixels: digits of MNIST-5k, patches of two photographs."""

import gzip
import io
import pickle
import struct
import tarfile
from typing import ClassVar

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from continual.data import mnist5k
from continual.data.idx import FILES
from continual.data.patches import cut_patches

LETTERS = "ABCDEFGHIJ"


class PythonTwoPickler(pickle._Pickler):
    """Write bytes as Python 2 wrote its text, which is what the official archives hold."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_text_of_python_2(self, value):
        short = len(value) < 256
        self.write(b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value)))
        self.write(value)
        self.memoize(value)

    dispatch[bytes] = save_text_of_python_2


def pickled(content):
    stream = io.BytesIO()
    PythonTwoPickler(stream, protocol=2).dump(content)
    return stream.getvalue().replace(b"cnumpy._core.multiarray", b"cnumpy.core.multiarray")


def photographs(number, size=32):
    """Return patches [N, 3, size, size] of scikit-learn's two photographs, from the first again when used up."""
    pictures = np.stack([picture[:424].transpose(2, 0, 1) for picture in load_sample_images().images])
    patches = np.moveaxis(cut_patches(pictures, size), 2, 0).reshape(-1, 3, size, size)
    return patches[np.arange(number) % len(patches)]


def write_idx(root, train=100, test=50):
    root.mkdir(parents=True, exist_ok=True)
    digits = mnist5k()
    parts = (digits.train.inputs[:train], digits.train.targets[:train], digits.test.inputs[:test])
    for name, array in zip(FILES, (*parts, digits.test.targets[:test]), strict=True):
        values = array.astype(np.uint8)
        header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
        (root / f"{name}.gz").write_bytes(gzip.compress(header + values.tobytes()))


def write_archive(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def cifar10_files(per_batch=20):
    pixels = photographs(6 * per_batch).reshape(6, per_batch, 3072)
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    files = {}
    for name, data in zip(names, pixels, strict=True):
        labels = [int(label) for label in np.arange(per_batch) % 10]
        batch = {b"batch_label": name.encode(), b"labels": labels, b"data": data, b"filenames": [b"a.png"] * per_batch}
        files[f"cifar-10-batches-py/{name}"] = pickled(batch)
    files["cifar-10-batches-py/batches.meta"] = pickled({b"label_names": [b"airplane"], b"num_vis": 3072})
    return files


def write_cifar10(root, per_batch=20):
    write_archive(root / "cifar-10-python.tar.gz", cifar10_files(per_batch))


def cifar100_files(per_class=3):
    files = {}
    for name in ("train", "test"):
        fine = np.repeat(np.arange(100), per_class)
        data = photographs(len(fine)).reshape(-1, 3072)
        labels = {b"fine_labels": fine.tolist(), b"coarse_labels": (fine % 20).tolist()}
        files[f"cifar-100-python/{name}"] = pickled({b"data": data, b"filenames": [b"a.png"] * len(fine), **labels})
    return files


def write_cifar100(root, per_class=3):
    write_archive(root / "cifar-100-python.tar.gz", cifar100_files(per_class))


def write_svhn(root, per_part=40):
    from scipy.io import savemat

    root.mkdir(parents=True, exist_ok=True)
    for part in ("train", "test"):
        labels = np.arange(per_part, dtype=np.uint8)[:, None] % 10 + 1
        savemat(root / f"{part}_32x32.mat", {"X": photographs(per_part).transpose(2, 3, 1, 0), "y": labels})


def write_notmnist(root, fonts=12):
    """Write real digits in the folders of letters; only the layout is notMNIST's."""
    digits = mnist5k().train.inputs
    for place, letter in enumerate(LETTERS):
        (root / letter).mkdir(parents=True, exist_ok=True)
        for font in range(fonts):
            Image.fromarray(digits[place * fonts + font]).save(root / letter / f"font{font:02d}.png")


def write_mini_imagenet(root, classes=(14, 3, 3), per_class=12):
    (root / "images").mkdir(parents=True, exist_ok=True)
    pixels, number = photographs(sum(classes) * per_class), 0
    for name, count in zip(("train", "val", "test"), classes, strict=True):
        lines = ["filename,label"]
        for label in range(count):
            for _ in range(per_class):
                file = f"n{number:08d}.jpg"
                Image.fromarray(pixels[number].transpose(1, 2, 0)).resize((100, 90)).save(root / "images" / file)
                lines.append(f"{file},{name}{label:02d}")
                number += 1
        (root / f"{name}.csv").write_text("\n".join(lines) + "\n")
