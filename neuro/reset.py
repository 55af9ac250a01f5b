"""What a spike does to the membrane.

A reset is a part: from the membrane h at the moment of the spike, the spike s and the threshold θ it gives the membrane
v after it, and the two slopes that a hand-written backward needs. `detached` cuts the path through s, as HLOP, OTTT and
SpikingJelly do by default; it keeps the surrogate's error from being fed back through every reset.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Reset(Protocol):
    """The role: v(h, s, θ) with its slopes."""

    @property
    def detached(self) -> bool:
        """Whether no gradient flows through the spike."""
        ...

    def __call__(self, membrane: Tensor, spikes: Tensor, threshold: float) -> Tensor:
        """Give the membrane after the reset, [B, ...]."""
        ...

    def slope_membrane(self, spikes: Tensor) -> Tensor | float:
        """Give ∂v/∂h at fixed s."""
        ...

    def slope_spikes(self, membrane: Tensor, threshold: float) -> Tensor | float:
        """Give ∂v/∂s at fixed h."""
        ...


@dataclass(frozen=True)
class SoftReset:
    """Subtract the threshold: v = h − θ s.

    Args:
        detached: no gradient through s.
    """

    detached: bool = True

    def __call__(self, membrane: Tensor, spikes: Tensor, threshold: float) -> Tensor:
        """Give h − θ s."""
        return membrane - threshold * (spikes.detach() if self.detached else spikes)

    def slope_membrane(self, spikes: Tensor) -> float:
        """Give 1."""
        return 1.0

    def slope_spikes(self, membrane: Tensor, threshold: float) -> float:
        """Give −θ."""
        return -threshold


@dataclass(frozen=True)
class HardReset:
    """Set to zero: v = h (1 − s).

    Args:
        detached: no gradient through s.
    """

    detached: bool = True

    def __call__(self, membrane: Tensor, spikes: Tensor, threshold: float) -> Tensor:
        """Give h (1 − s)."""
        return membrane * (1 - (spikes.detach() if self.detached else spikes))

    def slope_membrane(self, spikes: Tensor) -> Tensor:
        """Give 1 − s."""
        return 1 - spikes

    def slope_spikes(self, membrane: Tensor, threshold: float) -> Tensor:
        """Give −h."""
        return -membrane
