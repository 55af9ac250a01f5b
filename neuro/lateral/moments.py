"""Second moments of what stands before each weight, Σ x xᵀ, accumulated over batches in double precision.

Null spaces and small eigenvalues live far below the leading ones, where single precision has only noise left. Which
rows x are summed is a part: every one (`EveryRow`), or the mean over the samples of a batch (`BatchMean`), which some
released codes take and which sees the mean of the inputs rather than their spread.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from neuro.lateral.taps import Presynaptic, WeightSite, presynaptic_inputs


class Moment(NamedTuple):
    """What was seen before a weight.

    Attributes:
        total: Σ x xᵀ, [n, n].
        num_rows: how many rows.
    """

    total: Tensor
    num_rows: int

    @property
    def mean(self) -> Tensor:
        """C = E[x xᵀ], [n, n]."""
        return self.total / max(1, self.num_rows)


@runtime_checkable
class RowSource(Protocol):
    """The role: which rows of a layer's input count."""

    def __call__(self, site: WeightSite, inputs: Tensor, batch_size: int, generator: torch.Generator | None) -> Tensor:
        """Give rows [R, n] of a layer's input [T·B, ...] for a batch of B samples."""
        ...


class EveryRow:
    """Every row, or so many of a batch.

    Args:
        max_rows: bound per layer and batch, chosen by the generator; None for all.

    Raises:
        ValueError: if the bound is below 1.
    """

    def __init__(self, max_rows: int | None = None) -> None:
        if max_rows is not None and max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, got {max_rows}.")
        self.max_rows = max_rows

    def __call__(self, site: WeightSite, inputs: Tensor, batch_size: int, generator: torch.Generator | None) -> Tensor:
        """Give the rows."""
        return site.rows(inputs, self.max_rows, generator)


class BatchMean:
    """The mean over a batch's samples: one row, or one per tick and position where a layer runs over those."""

    def __call__(
        self, site: WeightSite, inputs: Tensor, batch_size: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Give the rows; cutting them is linear, so the mean is taken first."""
        over_time = inputs.unflatten(0, (-1, batch_size)) if len(inputs) % batch_size == 0 else inputs[None]
        return site.rows(over_time.mean(1))


@torch.no_grad()
def second_moments(
    model: nn.Module,
    sites: Sequence[WeightSite],
    batches: Iterable[Tensor],
    rows: RowSource,
    presynaptic: Presynaptic | None = None,
    generator: torch.Generator | None = None,
) -> dict[str, Moment]:
    """Accumulate the moment before every weight in a pass of its own, in evaluation mode without gradients.

    Args:
        model: the network; its modes come back as they were.
        sites: its weights.
        batches: inputs as the network takes them, [B, ...] each.
        rows: which rows count.
        presynaptic: what the learning rule takes for presynaptic; by default each layer's input as it is.
        generator: of the choice of rows, on the CPU.

    Raises:
        ValueError: if an activity is not finite, naming the layer.
    """
    totals = {site.name: site.weight.new_zeros(site.width, site.width, dtype=torch.float64) for site in sites}
    counts = dict.fromkeys(totals, 0)
    for batch in batches:
        for site, inputs in presynaptic_inputs(model, sites, batch, presynaptic):
            found = rows(site, inputs, len(batch), generator).to(torch.float64)
            totals[site.name].addmm_(found.mT, found)
            counts[site.name] += len(found)
    for name, total in totals.items():
        if not bool(torch.isfinite(total).all()):
            raise ValueError(
                f"Layer {name!r}: presynaptic rows must be finite; the network has diverged, lower the learning rate."
            )
    return {name: Moment(total.detach(), counts[name]) for name, total in totals.items()}
