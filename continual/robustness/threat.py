"""The threat model: what an attacker may do to an image, one object that every attack shares.

It allows x' with ‖x' − x‖_p <= ε inside the box of legal pixels. All of it is in raw units, before any normalisation:
an attack that works in normalised pixels with one scalar radius leaves the ball that it reports. Attacks project onto
ball and box, and what they hand back is checked here once more, in double precision; an attack that cheats is a bug and
raises.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from continual.robustness.norms import L2, LInfinity, Norm, per_sample
from continual.robustness.streams import SampleStreams


@dataclass(frozen=True)
class ThreatModel:
    """A ball inside a box.

    Example:
        >>> import torch
        >>> threat = linf(0.25)
        >>> threat.project(torch.tensor([[0.9, 0.1]]), torch.tensor([[0.5, 0.2]]))
        tensor([[0.7500, 0.1000]])

    Args:
        norm: how a perturbation is measured.
        epsilon: largest length, in raw pixel units; 8/255 is written so.
        lower: darkest legal pixel.
        upper: brightest legal pixel.

    Raises:
        ValueError: if epsilon is negative or not finite, or the box is empty.
    """

    norm: Norm
    epsilon: float
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.norm, Norm):
            raise TypeError(f"norm must be LInfinity() or L2(), got {self.norm!r}; linf(8/255) and l2(0.5) are short.")
        if isinstance(self.epsilon, bool) or not isinstance(self.epsilon, int | float):
            raise TypeError(f"epsilon must be a number in raw pixel units, got {self.epsilon!r}; write 8/255, say.")
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ValueError(f"epsilon must be at least 0 and finite, in raw pixel units, got {self.epsilon}.")
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise ValueError(f"The box needs lower < upper, got [{self.lower}, {self.upper}].")

    @property
    def width(self) -> float:
        """Upper minus lower."""
        return self.upper - self.lower

    def with_epsilon(self, epsilon: float) -> "ThreatModel":
        """Give the same threat with another radius."""
        return ThreatModel(self.norm, epsilon, self.lower, self.upper)

    def clip(self, images: Tensor) -> Tensor:
        """Put pixels into the box."""
        return images.clamp(self.lower, self.upper)

    def project(self, images: Tensor, origin: Tensor) -> Tensor:
        """Put images [B, ...] into the ball around `origin` [B, ...], then into the box.

        The box contains the origin and both sets are convex, so clipping never leaves the ball again.
        """
        return self.clip(origin + self.norm.shorten(images - origin, self.epsilon))

    def start(self, origin: Tensor, streams: SampleStreams, key: int) -> Tensor:
        """Draw a point of the ball around `origin` [B, ...] and clip it to the box."""
        return self.clip(origin + self.norm.draw(origin, self.epsilon, streams, key))

    def length(self, images: Tensor, origin: Tensor) -> Tensor:
        """Measure ‖x' − x‖ in double precision, [B]."""
        return self.norm.length(images.double() - origin.double())

    def allows(self, images: Tensor, origin: Tensor) -> Tensor:
        """Tell for every sample whether it is inside ball and box, and finite; [B] bool."""
        flat = images.flatten(1)
        inside = ((flat >= self.lower) & (flat <= self.upper)).all(1)
        return inside & (self.length(images, origin) <= self._tolerated(images.dtype)) & flat.isfinite().all(1)

    def require(self, images: Tensor, origin: Tensor, attack: str) -> None:
        """Refuse adversarial images outside the threat.

        Raises:
            RuntimeError: naming the attack, the sample and by how much.
        """
        allowed = self.allows(images, origin)
        if images.shape == origin.shape and bool(allowed.all()):
            return
        worst = int((~allowed).int().argmax())
        length, pixels = float(self.length(images, origin)[worst]), images[worst]
        raise RuntimeError(
            f"{attack} left its threat model at sample {worst}: ‖x' − x‖ = {length:.9g} where {self.norm.name} <= "
            f"{self.epsilon:.9g} is allowed, pixels in [{float(pixels.min()):.9g}, {float(pixels.max()):.9g}] where "
            f"[{self.lower:g}, {self.upper:g}] is; project with threat.project(images, origin) before giving them back."
        )

    def nearest_allowed(self, images: Tensor, origin: Tensor) -> Tensor:
        """Keep the samples that are allowed and project the others."""
        allowed = per_sample(self.allows(images, origin), images)
        return torch.where(allowed, images, self.project(images, origin))

    def describe(self) -> dict[str, float | str]:
        """Give the threat as plain data."""
        return {"norm": self.norm.name, "epsilon": self.epsilon, "lower": self.lower, "upper": self.upper}

    def _tolerated(self, dtype: torch.dtype) -> float:
        """Rounding of a sum x + δ is half a unit in the last place of the brightest pixel."""
        brightest = max(abs(self.lower), abs(self.upper))
        return self.epsilon * (1 + 1e-6) + max(1e-7, torch.finfo(dtype).eps) * brightest


def linf(epsilon: float, lower: float = 0.0, upper: float = 1.0) -> ThreatModel:
    """Give the threat |x'_i − x_i| <= epsilon for every pixel.

    Args:
        epsilon: in raw pixel units.
        lower: darkest legal pixel.
        upper: brightest legal pixel.
    """
    return ThreatModel(LInfinity(), epsilon, lower, upper)


def l2(epsilon: float, lower: float = 0.0, upper: float = 1.0) -> ThreatModel:
    """Give the threat ‖x' − x‖₂ <= epsilon.

    Args:
        epsilon: in raw pixel units.
        lower: darkest legal pixel.
        upper: brightest legal pixel.
    """
    return ThreatModel(L2(), epsilon, lower, upper)


def threat_named(norm: str, epsilon: float, lower: float = 0.0, upper: float = 1.0) -> ThreatModel:
    """Give the threat whose `describe()` this is.

    Raises:
        ValueError: if no norm has this name.
    """
    known = {"linf": LInfinity(), "l2": L2()}
    if norm not in known:
        raise ValueError(f"There is no norm {norm!r}; choose from {', '.join(sorted(known))}.")
    return ThreatModel(known[norm], epsilon, lower, upper)
