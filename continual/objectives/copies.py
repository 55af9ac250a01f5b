"""Several copies of a batch in one: all samples, then all samples again.

The loss of the whole is the mean over the copies, so weights are shared out equally. Noise is added in raw pixel units
and not clipped: a smoothed classifier is one of noisy images, legal pixels or not.
"""

import torch
from torch import Tensor

from continual.batches import Batch


def repeated(batch: Batch, copies: int) -> Batch:
    """Give a batch [copies · B, ...] of whole copies, one after another.

    Args:
        batch: B samples.
        copies: at least 1; with 1 the batch itself comes back.
    """
    if copies == 1:
        return batch
    active = batch.active
    return Batch(
        torch.cat([batch.inputs] * copies),
        batch.targets.repeat(copies),
        active if active is None or active.ndim == 1 else active.repeat(copies, 1),
        batch.task.repeat(copies),
        None if batch.weights is None else batch.weights.repeat(copies) / copies,
    )


def sample_weights(prepared: Batch, copies: int) -> Tensor:
    """Give the weight of each of the B samples behind a batch of copies, [B]; they sum to 1 where all count alike."""
    if prepared.weights is not None:
        return prepared.weights.view(copies, -1).sum(0)
    samples = len(prepared.targets) // copies
    precision = torch.promote_types(prepared.inputs.dtype, torch.float32)
    return torch.full((samples,), 1 / samples, device=prepared.inputs.device, dtype=precision)


def gaussian_like(images: Tensor, generator: torch.Generator) -> Tensor:
    """Draw N(0, 1) of the shape, dtype and device of images, from a stream on the CPU."""
    if images.device.type == "cpu":
        return torch.randn(images.shape, generator=generator, dtype=images.dtype)
    seed = int(torch.randint(2**63 - 1, (1,), generator=generator))
    there = torch.Generator(images.device).manual_seed(seed)
    return torch.randn(images.shape, generator=there, dtype=images.dtype, device=images.device)


def noisy(batch: Batch, sigma: float, copies: int, generator: torch.Generator) -> Batch:
    """Give copies of a batch, each pixel of each with noise N(0, sigma²) of its own."""
    found = repeated(batch, copies)
    return found._replace(inputs=found.inputs + sigma * gaussian_like(found.inputs, generator))


def require_sigma(sigma: float) -> float:
    """Give sigma as a float.

    Raises:
        ValueError: unless it is above 0.
    """
    if isinstance(sigma, bool) or not isinstance(sigma, int | float) or not 0 < sigma < float("inf"):
        raise ValueError(f"sigma, the noise in raw pixel units, must be above 0, got {sigma!r}; 0.25 is usual.")
    return float(sigma)


def require_copies(copies: int, name: str = "copies") -> int:
    """Give a number of copies.

    Raises:
        ValueError: unless it is a whole number of at least 1.
    """
    if isinstance(copies, bool) or not isinstance(copies, int) or copies < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {copies!r}.")
    return copies


def require_strength(strength: float, name: str = "strength") -> float:
    """Give a weight of a term.

    Raises:
        ValueError: unless it is 0 or more and finite.
    """
    if isinstance(strength, bool) or not isinstance(strength, int | float) or not 0 <= strength < float("inf"):
        raise ValueError(f"{name} must be 0 or more and finite, got {strength!r}.")
    return float(strength)
