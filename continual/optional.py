"""Packages that only some commands need: imported when they are needed, and missed in one sentence."""

import importlib
from typing import Any

from continual.errors import UserError


def optional_package(module: str, extra: str) -> Any:
    """Import a package that is an extra of ours.

    Args:
        module: Dotted name.
        extra: Name of the extra that brings it.

    Returns:
        The module.

    Raises:
        UserError: If it is not installed; the sentence says how to get it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise UserError(
            f"This needs the package {module.partition('.')[0]}: pip install 'palimpsest[{extra}]' brings it."
        ) from problem
