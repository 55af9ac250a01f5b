"""Read a pickle that may hold arrays and plain containers and nothing else.

A pickle is a program: it names functions and calls them. The official CIFAR files are pickles of Python 2, so this
reader resolves the few names that an array of numpy needs (under their old and new modules) and refuses every other
one before anything is called. Text of Python 2 comes out as bytes.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np


def _bytes_of(text: str, encoding: str) -> bytes:
    """Return the bytes that Python 3 writes as text for readers of Python 2; only in its own encoding."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it holds bytes as {encoding}, which no array needs")
    return text.encode("latin1")


_ARRAYS = {
    ("_codecs", "encode"): _bytes_of,
    ("multiarray", "_reconstruct"): np.zeros(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class ArrayUnpickler(pickle.Unpickler):
    """Unpickle arrays, numbers, text, lists and dictionaries; refuse every other name."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return what an array is made with.

        Raises:
            pickle.UnpicklingError: The stream names anything else.
        """
        module = module_name.removeprefix("numpy.core.").removeprefix("numpy._core.")
        try:
            return _ARRAYS[module, global_name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which no array needs") from None


def read_arrays(content: bytes, where: str) -> dict[str, Any]:
    """Unpickle a dictionary of arrays.

    Args:
        content: The pickle.
        where: What to call it in a message.

    Returns:
        The dictionary, its keys as text.

    Raises:
        ValueError: The stream is damaged, holds something else, or names anything that no array needs.
    """
    try:
        found = ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, IndexError, KeyError, AttributeError) as problem:
        raise ValueError(f"{where} must be a pickle of arrays, and it is refused: {problem}.") from problem
    if not isinstance(found, dict):
        raise ValueError(f"{where} must hold a dictionary, but it holds a {type(found).__name__}.")
    return {key.decode() if isinstance(key, bytes) else str(key): value for key, value in found.items()}
