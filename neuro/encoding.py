"""From pixels to activity.

An encoder is called with the input of one sample batch [B, ...] and T. `ConstantCurrent` presents the same value at
every tick, as a `Static` that later layers compute once; `Poisson` draws independent spikes; `Frames` takes inputs that
have a time axis of their own.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from neuro.types import Activity, Static


class ConstantCurrent(nn.Module):
    """Inject the input as a current, the same at every tick (direct encoding)."""

    def forward(self, inputs: Tensor, time_steps: int) -> Activity:
        """Give a static input [B, ...] with its T."""
        return Static(inputs, time_steps)


class Poisson(nn.Module):
    """Fire at each tick with a probability equal to the input (a Bernoulli draw per tick).

    Put it before any normalisation: probabilities must lie in [0, 1]; below 0 a neuron never fires, above 1 always. The
    generator belongs to the module and is created on the input's device at first use; `reseed` starts it again.

    Args:
        seed: where the stream of draws starts.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed
        self.generator: torch.Generator | None = None

    def reseed(self, seed: int) -> None:
        """Start the stream of draws again from `seed`."""
        self.seed, self.generator = seed, None

    def forward(self, inputs: Tensor, time_steps: int) -> Activity:
        """Give spikes [T, B, ...]."""
        if self.generator is None or self.generator.device != inputs.device:
            self.generator = torch.Generator(inputs.device).manual_seed(self.seed)
        shape = (time_steps, *inputs.shape)
        draws = torch.rand(shape, generator=self.generator, device=inputs.device, dtype=inputs.dtype)
        return (draws < inputs).to(inputs.dtype)


class Frames(nn.Module):
    """Read inputs [B, T, ...] frame by frame: recorded sequences, or event counts per frame.

    The frames give the number of ticks; a model's `time_steps` must be that number.
    """

    def forward(self, inputs: Tensor, time_steps: int) -> Activity:
        """Give [T, B, ...].

        Raises:
            ValueError: if there are other than `time_steps` frames.
        """
        if inputs.ndim < 3 or inputs.shape[1] != time_steps:
            raise ValueError(
                f"Frames needs inputs [B, {time_steps}, ...], one frame a tick, got {list(inputs.shape)}; "
                f"set the model's time_steps to the number of frames."
            )
        return inputs.transpose(0, 1)


def tick_shape(encoder: nn.Module | None, input_shape: Sequence[int]) -> tuple[int, ...]:
    """Give the shape of what an encoder shows in one tick of one input of `input_shape`.

    Raises:
        ValueError: if the encoder reads frames and there is nothing but their number.
    """
    if not isinstance(encoder, Frames):
        return tuple(input_shape)
    if len(input_shape) < 2:
        raise ValueError(f"Frames needs an input shape [T, ...], the number of frames first, got {tuple(input_shape)}.")
    return tuple(input_shape[1:])
