"""Write a file whole or not at all, so that no reader meets half a report."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> Path:
    """Write bytes to a temporary file beside the target and let it take the target's place in one step.

    Args:
        path: Target; its folder is made when missing.
        content: The bytes of the whole file.

    Returns:
        The target.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).chmod(0o644)  # mkstemp makes files private; a report is for everybody who sees the folder
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
