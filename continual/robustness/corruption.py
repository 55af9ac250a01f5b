"""What a corruption is: a function of a picture, a strength and draws, and five strengths."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.float64]
"""One image [H, W, C] in [0, 1]."""

Strength = Any
"""What a corruption is told for one severity: a number, or several."""


class Corruption(NamedTuple):
    """A corruption and its strengths at severities 1 to 5."""

    apply: Callable[[Picture, Strength, np.random.Generator], Picture]
    strengths: tuple[Strength, ...]
