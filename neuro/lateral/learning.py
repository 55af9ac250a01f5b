"""Three labelled ways to learn a block of lateral neurons; every table keeps them apart.

- `Hebbian`: the local online rule. It sees presynaptic rows batch by batch and stores nothing but H and its momentum.
- `HebbianAccumulated`: the same rule iterated on an accumulated second moment C = E[x xᵀ], to the same fixed point.
- `Eigen`: that fixed point exactly, by an eigendecomposition of what the frozen rows leave of C; no neural circuit.

Each is a stateless description: `begin` gives a state, `observe` folds rows into it, `finish` gives the learned rows
with the energy each captures, most first.
"""

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from neuro.lateral.hebbian import (
    HebbianState,
    accumulated_step,
    deflate,
    hebbian_update,
    orthonormalise,
    random_block,
    start_block,
)
from neuro.lateral.projection import LateralSpikes


class Learned(NamedTuple):
    """What a block has learned.

    Attributes:
        rows: orthonormal and orthogonal to the frozen rows, most energetic first, [k, n].
        energies: E[(h·x)²] of each row, [k].
        frozen_energy: E‖P x‖², what the frozen rows already capture, a scalar.
        total_energy: E‖x‖², a scalar.
    """

    rows: Tensor
    energies: Tensor
    frozen_energy: Tensor
    total_energy: Tensor


@runtime_checkable
class SubspaceLearning(Protocol):
    """The role: how the rows of a block are found."""

    @property
    def name(self) -> str:
        """Label for tables."""
        ...

    @property
    def spikes(self) -> LateralSpikes | None:
        """The rate code of spiking lateral neurons, which then project too; None for linear ones."""
        ...

    def begin(self, num_rows: int, frozen: Tensor, num_batches: int, generator: torch.Generator | None) -> Any:
        """Start a block of `num_rows` beside the frozen rows [k_old, n], to be shown `num_batches` batches."""
        ...

    def observe(self, state: Any, inputs: Tensor) -> Any:
        """Fold presynaptic rows [R, n] into the state."""
        ...

    def finish(self, state: Any) -> Learned:
        """Give the learned rows."""
        ...

    def multiply_accumulates(self, num_inputs: int, num_rows: int, num_frozen: int, width: int) -> int:
        """Count the multiply-accumulates of learning a block from `num_inputs` rows."""
        ...


class _OnlineState(NamedTuple):
    block: HebbianState
    seen: int
    num_batches: int
    response: Tensor
    frozen_energy: Tensor
    total_energy: Tensor


class Hebbian:
    """The local online rule with a scale-free, cosine-decayed rate (hlop-snn's rule has a constant one).

    Args:
        rate: c of η = c/λ̂, dimensionless, at the first batch.
        momentum: of the moving average of D.
        iterations: updates per batch of rows.
        spikes: let the lateral neurons spike, while learning and while projecting; None for linear ones.

    Raises:
        ValueError: if the rate is not above 0, the momentum not in [0, 1), or iterations below 1.
    """

    name = "hebbian"

    def __init__(
        self, rate: float = 0.5, momentum: float = 0.9, iterations: int = 5, spikes: LateralSpikes | None = None
    ) -> None:
        if not rate > 0:
            raise ValueError(f"rate must be above 0, got {rate}.")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {momentum}.")
        if iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {iterations}.")
        self.rate, self.momentum, self.iterations = float(rate), float(momentum), int(iterations)
        self.spikes = spikes

    def begin(self, num_rows: int, frozen: Tensor, num_batches: int, generator: torch.Generator | None) -> _OnlineState:
        """Start from random rows, orthogonal to the frozen ones."""
        zero = torch.zeros((), dtype=frozen.dtype, device=frozen.device)
        response = zero.new_zeros(num_rows, num_rows)
        return _OnlineState(start_block(num_rows, frozen, generator), 0, num_batches, response, zero, zero)

    def observe(self, state: _OnlineState, inputs: Tensor) -> _OnlineState:
        """Update the rows `iterations` times on one batch."""
        inputs = inputs.to(state.block.rows.dtype)
        progress = min(1.0, state.seen / max(1, state.num_batches))
        rate = self.rate * 0.5 * (1 + math.cos(math.pi * progress))
        block = state.block
        for _ in range(self.iterations):
            block = hebbian_update(block, inputs, rate, self.momentum, response=self.spikes)
        weight = max(1 / (state.seen + 1), 0.05)  # a plain mean at first, then a moving one that follows the rows
        activity = inputs @ block.rows.mT
        return _OnlineState(
            block,
            state.seen + 1,
            state.num_batches,
            torch.lerp(state.response, activity.mT @ activity / inputs.shape[0], weight),
            torch.lerp(state.frozen_energy, (inputs @ block.frozen.mT).square().sum(1).mean(), weight),
            torch.lerp(state.total_energy, inputs.square().sum(1).mean(), weight),
        )

    def finish(self, state: _OnlineState) -> Learned:
        """Orthonormalise the rows and turn them to their principal directions."""
        rows = orthonormalise(state.block.rows, state.block.frozen)
        mixing = rows.to(torch.float64) @ state.block.rows.to(torch.float64).mT
        has_fired = state.block.energy > 0  # rows whose neurons all stayed silent are the random ones of the start
        response = mixing @ state.response.to(torch.float64) @ mixing.mT * has_fired
        return _principal(rows, response, state.frozen_energy, state.total_energy)

    def multiply_accumulates(self, num_inputs: int, num_rows: int, num_frozen: int, width: int) -> int:
        """Count: y, x̂ and D for new rows, y and x̂ for old ones, per iteration."""
        return self.iterations * num_inputs * width * (3 * num_rows + 2 * num_frozen)


class _MomentState(NamedTuple):
    num_rows: int
    frozen: Tensor
    moment: Tensor
    num_inputs: int
    generator: torch.Generator | None


class _FromMoment:
    """Shared by the two ways that accumulate C = Σ xᵀx / R in single precision (exact for spikes)."""

    spikes: LateralSpikes | None = None

    def begin(self, num_rows: int, frozen: Tensor, num_batches: int, generator: torch.Generator | None) -> _MomentState:
        """Start with no rows seen."""
        width = frozen.shape[1]
        return _MomentState(num_rows, frozen, frozen.new_zeros(width, width), 0, generator)

    def observe(self, state: _MomentState, inputs: Tensor) -> _MomentState:
        """Add the second moment of a batch of rows, in place."""
        inputs = inputs.to(state.moment.dtype)
        state.moment.addmm_(inputs.mT, inputs)
        return state._replace(num_inputs=state.num_inputs + inputs.shape[0])


class HebbianAccumulated(_FromMoment):
    """The rule iterated on an accumulated second moment, every lateral neuron at its own scale-free rate.

    Args:
        iterations: how often; 8 capture all but about a thousandth of the optimal energy.

    Raises:
        ValueError: if iterations is below 1.
    """

    name = "hebbian_accumulated"

    def __init__(self, iterations: int = 8) -> None:
        if iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {iterations}.")
        self.iterations = int(iterations)

    def finish(self, state: _MomentState) -> Learned:
        """Iterate from random rows, then orthonormalise in double precision."""
        moment = state.moment / max(1, state.num_inputs)
        rows = random_block(state.num_rows, state.frozen, state.generator)
        for _ in range(self.iterations):
            rows = accumulated_step(moment, state.frozen, rows)
        rows = orthonormalise(rows, state.frozen)
        exact = rows.to(torch.float64)
        response = (rows @ moment).to(torch.float64) @ exact.mT
        return _principal(rows, response, _captured(moment, state.frozen), moment.diagonal().sum())

    def multiply_accumulates(self, num_inputs: int, num_rows: int, num_frozen: int, width: int) -> int:
        """Count: C once, then per iteration H C, its deflation and H C Hᵀ H."""
        per_iteration = num_rows * width * (width + 2 * num_frozen + 2 * num_rows)
        return num_inputs * width * width + self.iterations * per_iteration


class Eigen(_FromMoment):
    """The exact leading eigenspace of the deflated second moment: what the Hebbian rules converge to."""

    name = "eigen"

    def finish(self, state: _MomentState) -> Learned:
        """Decompose (I − P) C (I − P) in double precision."""
        return leading_rows(state.moment / max(1, state.num_inputs), state.frozen, state.num_rows)

    def multiply_accumulates(self, num_inputs: int, num_rows: int, num_frozen: int, width: int) -> int:
        """Count: C, two deflations and about 9 n³ for the symmetric eigenproblem."""
        return num_inputs * width * width + 4 * num_frozen * width * width + 9 * width**3


def leading_rows(moment: Tensor, frozen: Tensor, num_rows: int) -> Learned:
    """Give the leading eigenvectors of (I − P) C (I − P), found in double precision.

    Args:
        moment: C = E[x xᵀ], [n, n].
        frozen: orthonormal rows [k_old, n] whose span P is taken out; the result has their dtype.
        num_rows: how many.
    """
    exact, fixed = moment.to(torch.float64), frozen.to(torch.float64)
    left = deflate(deflate(exact, fixed).mT, fixed)
    energies, vectors = torch.linalg.eigh((left + left.mT) / 2)
    leading = vectors[:, energies.argsort(descending=True)[:num_rows]].mT
    rows = orthonormalise(leading, fixed)
    response = rows @ exact @ rows.mT
    return _principal(rows.to(frozen.dtype), response, _captured(exact, fixed), exact.diagonal().sum())


def _captured(moment: Tensor, rows: Tensor) -> Tensor:
    """Give E‖H x‖² from C and orthonormal rows."""
    return ((rows @ moment) * rows).sum()


def _principal(rows: Tensor, response: Tensor, frozen_energy: Tensor, total_energy: Tensor) -> Learned:
    """Rotate orthonormal rows within their span so that their responses E[y yᵀ] decorrelate, most energetic first."""
    energies, turn = torch.linalg.eigh((response + response.mT) / 2)
    energies, turn = energies.flip(0).clamp(min=0), turn.flip(1)
    turned = (turn.mT @ rows.to(torch.float64)).to(rows.dtype)
    return Learned(turned, energies.to(rows.dtype), frozen_energy.to(rows.dtype), total_energy.to(rows.dtype))
