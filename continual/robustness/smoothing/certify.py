"""CERTIFY: a radius inside which the smoothed classifier's answer cannot change, for any network and many images.

The smoothed classifier names the class that f names most often under Gaussian noise, g(x) = argmax_c P(f(x + e) = c)
with e ~ N(0, σ² I). n0 draws choose the class A; fresh draws estimate p_A = P(f(x + e) = A) from below; the radius is
σ Φ⁻¹(lower bound). Nothing is asked of f: it may spike, and it may be random, if its draws are independent of each
other and fresh at every pass; p_A is then over both kinds of randomness, and the theorem, which needs only some
function from images to [0, 1], holds for it as it is.

Source: Cohen, Rosenfeld and Kolter 2019, CERTIFY. Differences: images and draws are mixed in batches, noise is named by
image, and the rule that bounds p_A is a part, so that sampling may stop early where that is valid.
"""

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from continual.robustness.attacks.settings import require_at_least_one
from continual.robustness.smoothing.budget import Budget
from continual.robustness.smoothing.certificates import Certificates, Row
from continual.robustness.smoothing.checks import number_of_classes, require_data, require_indices
from continual.robustness.smoothing.estimate import Estimate, estimated
from continual.robustness.smoothing.file import CertificateFile, head_of, require_same_image
from continual.robustness.smoothing.fingerprint import checksum_of_image, fingerprint
from continual.robustness.smoothing.goals import Goal
from continual.robustness.smoothing.rules import FixedSample, Rule
from continual.robustness.smoothing.votes import BLOCK, Ballot
from continual.robustness.target import Model, Target, as_target


def certify(
    model: Model | Target,
    images: Tensor,
    sigma: float,
    labels: Tensor | None = None,
    *,
    rule: Rule | None = None,
    goal: Goal | None = None,
    n0: int = 100,
    seed: int = 0,
    indices: Sequence[int] | None = None,
    file: str | Path | None = None,
    batch_size: int = 400,
) -> Certificates:
    """Certify images against perturbations of bounded l2 length.

    Example:
        >>> import torch
        >>> from continual.robustness import FixedSample, certify
        >>> found = certify(torch.nn.Linear(4, 3), torch.rand(2, 4), sigma=0.5, rule=FixedSample(100))
        >>> bool((found.radii <= found.budget.ceiling).all())
        True

    Args:
        model: any callable from images in [0, 1] to logits, or a `Target` that says how it has to be asked. It sees
            noisy images, whose pixels leave [0, 1]. It is asked in evaluation mode and left exactly as it was.
        images: [N, ...] in [0, 1].
        sigma: standard deviation of the noise, in raw pixel units; as in training, as a rule.
        labels: [N], in the numbering of the head; without them there are radii but no accuracy.
        rule: draws and bound; None takes `FixedSample(10_000)`.
        goal: when a rule that may stop early does.
        n0: draws that choose the class.
        seed: of the noise.
        indices: whole numbers that name the images and their noise, such as their places in a set; None counts from 0.
        file: where certificates are kept as they are made. If it holds some, the rest is done and the result is, to
            the bit, that of one go; it is refused if it belongs to another network, budget or images.
        batch_size: noisy copies in one forward pass; decides no draw.

    Returns:
        One certificate an image, in the order of the images.

    Raises:
        TypeError: for a sigma, images or labels of the wrong type.
        ValueError: for values outside their range, logits that are not finite, undeclared randomness, or a file that
            does not fit.
    """
    budget = Budget(sigma, rule if rule is not None else FixedSample(10_000), goal, n0, seed)
    require_at_least_one(batch_size=batch_size)
    target, images = as_target(model), require_data(images, labels)
    blank = _blank_rows(images, labels, require_indices(indices, len(images)))
    network, versions = fingerprint(target), versions_now()
    noise = noise_of(images)
    kept = _opened(file, head_of(budget, network, noise, versions))
    done = _fitting(kept, blank)
    left = [place for place, row in enumerate(blank) if row.sample not in done]
    with target.left_as_found(seed):
        ballot = Ballot(target, number_of_classes(target, images), sigma, seed, batch_size)
        for group in _groups(left, budget, batch_size):
            found = estimated(ballot, images[group], [blank[place].sample for place in group], budget)
            rows = [_filled(blank[place], entry, target) for place, entry in zip(group, found, strict=True)]
            done |= {row.sample: row for row in rows}
            if kept is not None:
                kept.write(rows)
    return Certificates(budget, network, noise, tuple(done[row.sample] for row in blank), versions)


def noise_of(images: Tensor) -> dict[str, Any]:
    """Give what decides the draws beside seed, purpose, index and number: generators differ between all of these."""
    dtype = str(images.dtype).removeprefix("torch.")
    return {"device": images.device.type, "dtype": dtype, "block": BLOCK, "torch": str(torch.__version__)}


def versions_now() -> dict[str, str]:
    """Give the versions of the software."""
    return {"palimpsest": version("palimpsest"), "torch": str(torch.__version__), "python": platform.python_version()}


def _blank_rows(images: Tensor, labels: Tensor | None, indices: list[int]) -> list[Row]:
    """Give rows that name the images and hold nothing yet."""
    known = [None] * len(images) if labels is None else [int(label) for label in labels]
    return [
        Row(index, checksum_of_image(image, label), label, 0, 0, 0, 0.0, 1.0)
        for index, image, label in zip(indices, images, known, strict=True)
    ]


def _filled(blank: Row, found: Estimate, target: Target) -> Row:
    selected = int(target.head_labels(torch.tensor(found.selected)))
    return blank._replace(**found._replace(selected=selected)._asdict())


def _opened(path: str | Path | None, head: dict[str, Any]) -> CertificateFile | None:
    if path is None:
        return None
    if head["network"] is None:
        raise ValueError(
            f"No network was found behind the callable, so {path} could not be told from another network's; name it "
            f"with Target(model, networks=[…]), or certify without a file."
        )
    return CertificateFile(path, head)


def _fitting(kept: CertificateFile | None, blank: list[Row]) -> dict[int, Row]:
    """Give the certificates that the file holds of these images."""
    if kept is None:
        return {}
    for row in blank:
        if row.sample in kept.rows:
            require_same_image(kept.rows[row.sample], row.checksum, kept.path)
    return dict(kept.rows)


def _groups(left: list[int], budget: Budget, batch_size: int) -> list[list[int]]:
    """Put so many images together that a batch is full at the smallest number of draws that is counted at once."""
    size = max(1, batch_size // min(budget.n0, budget.rule.looks[0]))
    return [left[start : start + size] for start in range(0, len(left), size)]
