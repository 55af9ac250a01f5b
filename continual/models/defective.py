"""The CNN of `neuro.models` with defective places in its bottom stages, for the runner."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import nn

from continual.robustness.defective import independent_mask, make_defective, shared_mask
from continual.scenarios.task import check_choice
from neuro.models import SpikingClassifier, cnn

Masks = Literal["independent", "shared"]


def defective_cnn(
    input_shape: Sequence[int],
    num_classes: int,
    channels: Sequence[int] = (64, 128, 256),
    neuron: nn.Module | None = None,
    time_steps: int = 6,
    normalise: nn.Module | None = None,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
    keep: float = 0.5,
    masks: Masks = "independent",
    constant: float = 0.0,
    stages: int = 2,
    mask_seed: int = 0,
) -> SpikingClassifier:
    """Build `neuro.models.cnn` and make its bottom stages defective; see `continual.robustness.defective`.

    Args:
        input_shape: of one raw input, [H, W] or [C, H, W].
        num_classes: rows of the head.
        channels: width of each stage.
        neuron: template; LIF by default, `torch.nn.ReLU()` for a network that does not spike.
        time_steps: T.
        normalise: on raw inputs; none by default.
        encoder: constant current by default.
        decoder: mean over time by default.
        keep: share of places that work.
        masks: "independent" for each channel, or one "shared" by all channels of a site.
        constant: what a defective place gives.
        stages: resolutions from the bottom that become defective.
        mask_seed: draws the masks, whatever the seed of the run: they are architecture.

    Returns:
        A model from raw inputs [B, *input_shape] to logits [B, num_classes].

    Raises:
        ValueError: if keep, masks or stages are out of range, or the image is too small.
    """
    check_choice("masks", masks, get_args(Masks))
    model = cnn(input_shape, num_classes, channels, neuron, time_steps, normalise, encoder, decoder)
    draw = independent_mask if masks == "independent" else shared_mask
    generator = torch.Generator().manual_seed(mask_seed)
    make_defective(model, torch.zeros(1, *input_shape), keep, generator, draw, constant, stages)
    return model
