"""Find a data file inside an installed package, or on disk, and refuse it unless its bytes are the ones we know.

The package that carries a file is located and never imported: reading the bytes is some thirty times faster than the
package's own loader and does not change when its interface does. A checksum is compared before anything is parsed, so a
truncated download and an edited file end in the same sentence: which file, what it should be, how to get it again.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import zlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PackagedFile:
    """Name a data file that an installed package carries.

    Args:
        package: Import name; the package is located, not imported.
        relative: Path of the file below the package's folder.
        sha256: Hexadecimal digest of its unpacked content.
        repair: The command that brings it (back).
    """

    package: str
    relative: str
    sha256: str
    repair: str

    def locate(self) -> Path | None:
        """Return where the file is, or None if the package or the file is absent."""
        spec = importlib.util.find_spec(self.package)
        folders = (spec.submodule_search_locations or ()) if spec is not None else ()
        paths = (Path(folder) / self.relative for folder in folders)
        return next((path for path in paths if path.is_file()), None)

    def read(self) -> bytes:
        """Return the unpacked content.

        Raises:
            ValueError: The package or the file is missing, truncated or altered.
        """
        path = self.locate()
        if path is None:
            raise ValueError(
                f"the package {self.package} with its file {self.relative} is needed but not installed; "
                f"run: {self.repair}"
            )
        return verified_bytes(path, self.sha256, self.repair)


def read_bytes(path: Path) -> bytes:
    """Read a file, and unpack it when it is gzipped (told by its first two bytes, not by its name).

    Args:
        path: The file.

    Returns:
        Its content.

    Raises:
        ValueError: The compressed stream is truncated or damaged.
    """
    raw = path.read_bytes()
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} must be a whole gzip file, but it is truncated or damaged ({error}).") from error


def verified_bytes(path: Path, sha256: str, repair: str) -> bytes:
    """Read a file whose content is known beforehand.

    Args:
        path: The file.
        sha256: Hexadecimal digest of its unpacked content.
        repair: The command that brings it (back).

    Returns:
        The unpacked content.

    Raises:
        ValueError: The file is truncated, damaged or altered.
    """
    try:
        content = read_bytes(path)
    except ValueError as error:
        raise ValueError(f"{str(error).rstrip('.')}; run: {repair}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path} must have the SHA-256 {sha256[:12]}... when unpacked, but it has {found[:12]}..., so it is "
            f"truncated or altered; run: {repair}"
        )
    return content
