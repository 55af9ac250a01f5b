"""Append-only JSON lines: the source of truth for every number of a run.

Each line is flushed to the disk as it is written. A resumed run first cuts the file to the length its checkpoint
knows, so that no line is ever doubled.
"""

import json
import math
import os
from pathlib import Path
from typing import Any


class Records:
    """The writer of one run's `records.jsonl`.

    Args:
        path: of the file; created if absent.
        length: bytes to keep of what is there, from the checkpoint; 0 starts afresh.
    """

    def __init__(self, path: Path, length: int = 0) -> None:
        self.path = path
        with path.open("ab") as file:
            file.truncate(length)

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return self.path.stat().st_size

    def write(self, event: str, **fields: Any) -> None:
        """Append one line; a NaN becomes null."""
        line = json.dumps({"event": event, **_without_nan(fields)}, allow_nan=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return value
