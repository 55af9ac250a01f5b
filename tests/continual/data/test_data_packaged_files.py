"""Every loader of a package's files refuses a missing, altered or truncated one, and imports none of the packages."""

import importlib.util
import shutil
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from continual.data import japanese_vowels, photo_patches, textures
from continual.data.japanese_vowels import JAPANESE_VOWELS_FILES
from continual.data.photo_patches import PHOTO_FILES
from continual.data.textures import TEXTURE_FILES

SETS = {
    "japanese_vowels": (japanese_vowels, JAPANESE_VOWELS_FILES, r"palimpsest\[temporal\]"),
    "textures": (textures, TEXTURE_FILES, r"palimpsest\[images\]"),
    "photo_patches": (photo_patches, PHOTO_FILES, r"palimpsest\[images\]"),
}


def require(files):
    for file in files:
        if file.locate() is None:
            pytest.skip(f"{file.package} is not installed")


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Copy a set's files into a folder that every package then seems to lie in."""

    def copy(files):
        require(files)
        for file in files:
            (tmp_path / file.relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), tmp_path / file.relative)

        def locate(name, package=None):
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(tmp_path)]
            return spec

        monkeypatch.setattr(importlib.util, "find_spec", locate)
        return [tmp_path / file.relative for file in files]

    return copy


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("position", [0, -1])
def test_damage_is_told_in_one_sentence_with_the_repair(copied, name, position):
    loader, files, _ = SETS[name]
    path = copied(files)[position]
    loader()  # the copies are whole, so what follows is refused for the damage
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"truncated or altered; run: pip install") as caught:
        loader()
    assert str(path) in str(caught.value)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"truncated or altered; run: pip install"):
        loader()
    path.unlink()
    with pytest.raises(ValueError, match=r"needed but not installed; run: pip install") as caught:
        loader()
    assert files[position].relative in str(caught.value)


@pytest.mark.parametrize("name", SETS)
def test_an_absent_package_is_named_with_its_extra(monkeypatch, name):
    loader, files, extra = SETS[name]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    with pytest.raises(ValueError, match=f"the package {files[0].package} .* run: pip install '{extra}'"):
        loader()


@pytest.mark.parametrize("name", SETS)
def test_loading_imports_none_of_the_packages(name):
    require(SETS[name][1])
    code = (
        f"import sys; from continual.data import {name}; early = 'PIL' in sys.modules; {name}();"
        "print(early, [name for name in ('sktime', 'skimage', 'sklearn', 'pandas', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "False []"
