"""The hub's loader, on its package's interface; nothing is fetched."""

import sys
from types import ModuleType

import numpy as np
import official_layouts as layouts
import pytest
from PIL import Image

from continual.data import hub
from continual.errors import UserError


class Rows(dict):
    """Columns by name, as the package's sets give them."""

    @property
    def column_names(self):
        return list(self)


@pytest.fixture
def package(monkeypatch):
    pictures = [Image.fromarray(one.transpose(1, 2, 0)) for one in layouts.photographs(20)]
    columns = {"image": pictures, "label": [place % 4 for place in range(20)]}
    module = ModuleType("datasets")
    module.asked = []

    def load_dataset(path, name, split):
        module.asked.append((path, name, split))
        return Rows(columns)

    module.load_dataset, module.columns = load_dataset, columns
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


def test_pictures_and_labels_come_back_from_the_named_splits(package):
    data = hub("owner/set", name="plain", test="validation")
    assert package.asked == [("owner/set", "plain", "train"), ("owner/set", "plain", "validation")]
    np.testing.assert_array_equal(data.train.inputs, layouts.photographs(20))
    assert data.num_classes == 4


def test_grey_pictures_have_no_axis_of_colours(package):
    package.columns["image"] = [picture.convert("L") for picture in package.columns["image"]]
    assert hub("owner/set").train.inputs.shape == (20, 32, 32)


def test_a_missing_column_and_pictures_of_many_sizes_are_refused(package):
    with pytest.raises(ValueError, match=r"columns image, label, and none is called fine_label"):
        hub("owner/set", label="fine_label")
    package.columns["image"][3] = package.columns["image"][3].resize((8, 8))
    with pytest.raises(ValueError, match=r"one size, but there are 2"):
        hub("owner/set")


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install 'palimpsest\[hub\]'"):
        hub("owner/set")


@pytest.mark.slow
def test_the_real_package_reads_a_local_folder(tmp_path):
    pytest.importorskip("datasets", reason="the extra hub is not installed")
    for split in ("train", "test"):
        for label in ("cat", "dog"):
            (tmp_path / "set" / split / label).mkdir(parents=True)
            for place, pixels in enumerate(layouts.photographs(3)):
                Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / "set" / split / label / f"{place}.png")
    data = hub(str(tmp_path / "set"))
    assert data.train.inputs.shape == (6, 3, 32, 32)
    assert sorted(data.train.targets.tolist()) == [0, 0, 0, 1, 1, 1]
