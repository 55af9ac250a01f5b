"""What must hold before an attack means anything; every mistake is named with its repair."""

import warnings

import torch
from torch import Tensor

from continual.robustness.threat import ThreatModel

_ROUNDING = 1e-6
"""Share of the box by which rounding, as of a normalisation that was undone, may carry a pixel over its edge."""


def require_images(images: Tensor, threat: ThreatModel) -> Tensor:
    """Refuse images that are not raw pixels of the threat's box.

    Returns:
        The images, detached; a pixel that rounding carried over the edge of the box is put back on it.

    Raises:
        TypeError: if they are no floating-point tensor, or the threat is none.
        ValueError: if there is none, or one is outside the box or not finite.
    """
    if not isinstance(threat, ThreatModel):
        raise TypeError(f"A threat model is needed, got {threat!r}; make one with linf(8/255) or l2(0.5).")
    if not isinstance(images, Tensor):
        raise TypeError(f"Images must be a tensor [B, ...], got a {type(images).__name__}; use torch.as_tensor.")
    if not images.is_floating_point():
        raise TypeError(
            f"Images must be floating point in [{threat.lower:g}, {threat.upper:g}], got {images.dtype}; "
            f"write images.float() / 255 for bytes."
        )
    if images.ndim < 2 or images.numel() == 0:
        raise ValueError(f"At least one image [B, ...] is needed, got the shape {list(images.shape)}.")
    if not bool(images.isfinite().all()):
        raise ValueError(f"Images must be finite; sample {_first(~images.isfinite())} holds NaN or infinity.")
    slack = _ROUNDING * threat.width
    outside = (images < threat.lower - slack) | (images > threat.upper + slack)
    if bool(outside.any()):
        raise ValueError(
            f"Images must lie in the box [{threat.lower:g}, {threat.upper:g}], but sample {_first(outside)} does not "
            f"(all pixels are in [{float(images.min()):.6g}, {float(images.max()):.6g}]); give raw pixels and put the "
            f"normalisation into the model, or name the box with linf(epsilon, lower, upper)."
        )
    return threat.clip(images.detach())


def require_labels(labels: Tensor, images: Tensor) -> None:
    """Refuse labels that are not one class number a sample.

    Raises:
        TypeError: if they are not whole numbers.
        ValueError: if their number differs from the images'.
    """
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
        came = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TypeError(f"Labels must be a tensor of whole class numbers [B], got {came}; use labels.long().")
    if labels.shape != images.shape[:1]:
        raise ValueError(f"Labels must be [{len(images)}], one for each image, got {list(labels.shape)}.")


def require_logits(logits: Tensor, number: int) -> None:
    """Refuse outputs that are not finite logits, and warn of probabilities.

    Raises:
        TypeError: if they are no floating-point tensor.
        ValueError: if the shape is not [B, C] with C >= 2, or a logit is NaN or infinite.
    """
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        came = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise TypeError(f"The network must give a floating-point tensor of logits [B, C], got {came}.")
    if logits.ndim != 2 or logits.shape[0] != number or logits.shape[1] < 2:
        raise ValueError(
            f"The network must give logits [{number}, C] with at least 2 classes for {number} images, got "
            f"{list(logits.shape)}; with one class there is nothing to attack."
        )
    masked = torch.isneginf(logits)
    if bool(masked.any()):
        raise ValueError(
            f"{int(masked.any(0).sum())} of {logits.shape[1]} logits are masked by −infinity. A masked head starves "
            f"losses that compare logits and looks robust where it is not; slice instead: Target(model, "
            f"classes=[…the active classes…]) gives the attack only those, with labels in the numbering of the head."
        )
    if not bool(logits.isfinite().all()):
        raise ValueError(f"Logits must be finite; those of sample {_first(~logits.isfinite())} are not.")
    warn_of_probabilities(logits)


def warn_of_probabilities(logits: Tensor) -> None:
    """Warn where every row is a distribution: softmax before the attack's own log-softmax flattens the gradient."""
    sums = logits.detach().sum(1)
    smallest, off = logits.detach().amin(), (sums - 1).abs().amax()
    if bool((smallest >= 0) & (off < 1e-3)):
        warnings.warn(
            f"The network seems to give probabilities, not logits: over {len(logits)} samples the smallest output is "
            f"{float(smallest):.3g} and every row sums to 1 within {float(off):.1g}. Attacks are much weaker on "
            f"probabilities; leave the softmax out.",
            stacklevel=2,
        )


def require_known_labels(labels: Tensor, num_classes: int) -> None:
    """Refuse labels that the head has no row for.

    Raises:
        ValueError: naming the range and the first wrong label.
    """
    wrong = (labels < 0) | (labels >= num_classes)
    if bool(wrong.any()):
        sample = _first(wrong)
        raise ValueError(
            f"Labels must lie in 0..{num_classes - 1}, the classes of this head, but sample {sample} has the label "
            f"{int(labels[sample])}."
        )


def require_same_answers(first: Tensor, second: Tensor) -> None:
    """Refuse a network that answers differently each call without being declared stochastic.

    Raises:
        ValueError: saying by how much.
    """
    drift = float((first - second).abs().amax())
    if drift > 1e-6 * max(1.0, float(first.abs().amax())):
        raise ValueError(
            f"The network answers the same images differently from call to call (logits move by up to {drift:.3g}). "
            f"If it draws fresh randomness, declare it: Target(model, stochastic=True). If it carries a state from "
            f"call to call, name what resets it: Target(model, reset=…)."
        )


def _first(marked: Tensor) -> int:
    return int(marked.flatten(1).any(1).int().argmax() if marked.ndim > 1 else marked.int().argmax())
