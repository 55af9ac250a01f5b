"""The learning rule of the lateral circuit, as functions.

Subspace neurons read the presynaptic rows, y = H x, and send inhibition back, x⁻ = −Hᵀ y over old and new rows alike. A
Hebbian term y xᵀ and an anti-Hebbian term y (x⁻)ᵀ give, for the new rows only (Xiao et al. 2024, HLOP; Oja 1989),

    D = Yᵀ (X − X̂) / R,    X̂ = X Hᵀ H,    H_new ← H_new + η D        ⇔   dH/dt = H C (I − H_oᵀH_o − HᵀH)

with C = E[x xᵀ], uncentred. The stable fixed point is an orthonormal basis of the leading eigenspace of what the frozen
rows leave of C. The rate is made scale-free: η = c / λ̂, λ̂ the largest energy E[y²] that a row captures.

Differences from the released code: η follows the energy of the input instead of being tied to the spike amplitude,
and D is computed for new rows only (the old rows' D is zeroed there).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

LARGEST_STEP = 10.0
"""Elementwise bound on D / λ̂: a safety net that a healthy run never touches."""


class HebbianState(NamedTuple):
    """A block of lateral neurons that is learning.

    Attributes:
        frozen: rows of earlier tasks [k_old, n], orthonormal, never changed.
        rows: rows of this task [k, n].
        momentum: moving average of D, [k, n].
        energy: λ̂, moving average of the largest E[y²], a scalar; 0 before the first batch.
    """

    frozen: Tensor
    rows: Tensor
    momentum: Tensor
    energy: Tensor


def deflate(rows: Float[Tensor, "R n"], frozen: Float[Tensor, "k n"]) -> Float[Tensor, "R n"]:
    """Remove from rows [..., n] what the orthonormal frozen rows [k, n] span."""
    return rows - rows @ frozen.mT @ frozen


def orthonormalise(rows: Float[Tensor, "k n"], frozen: Float[Tensor, "old n"]) -> Float[Tensor, "k n"]:
    """Make rows orthonormal, and orthogonal to the frozen ones, by QR; their span beside the frozen rows is kept.

    Deflation runs twice ("twice is enough", Parlett 1980), in double precision.
    """
    exact, fixed = rows.to(torch.float64), frozen.to(torch.float64)
    for _ in range(2):
        exact = deflate(exact, fixed)
        exact, triangle = torch.linalg.qr(exact.mT)
        exact = (exact * torch.sign(torch.diagonal(triangle)).where(torch.diagonal(triangle) != 0, 1)).mT
    return exact.to(rows.dtype)


def random_block(
    num_rows: int, frozen: Float[Tensor, "old n"], generator: torch.Generator | None
) -> Float[Tensor, "{num_rows} n"]:
    """Draw new lateral rows [num_rows, n], orthonormal and orthogonal to the frozen ones [k, n]."""
    shape = (num_rows, frozen.shape[1])
    drawn = torch.randn(
        shape, generator=generator, dtype=torch.float64
    )  # on the CPU, so that every device starts alike
    return orthonormalise(drawn.to(frozen.device), frozen).to(frozen.dtype)


def start_block(num_rows: int, frozen: Float[Tensor, "old n"], generator: torch.Generator | None) -> HebbianState:
    """Start a learning block beside the frozen rows."""
    rows = random_block(num_rows, frozen, generator)
    return HebbianState(frozen, rows, torch.zeros_like(rows), torch.zeros((), dtype=rows.dtype, device=rows.device))


Response = Callable[[Tensor], Tensor]
"""What a lateral neuron makes of H x; None where it is linear."""


def hebbian_direction(
    inputs: Float[Tensor, "R n"],
    frozen: Float[Tensor, "old n"],
    rows: Float[Tensor, "k n"],
    response: Response | None = None,
) -> tuple[Float[Tensor, "k n"], Float[Tensor, " k"]]:
    """Give D for the new rows from a batch.

    Args:
        inputs: X, presynaptic rows [R, n].
        frozen: [k_old, n].
        rows: [k, n].
        response: of spiking lateral neurons.

    Returns:
        D = Yᵀ(X − X̂)/R, [k, n], and the energy E[y²] of each new row, [k].
    """
    activity, old = inputs @ rows.mT, inputs @ frozen.mT
    if response is not None:
        activity, old = response(activity), response(old)
    residual = inputs - old @ frozen - activity @ rows
    return activity.mT @ residual / inputs.shape[0], activity.square().mean(0)


def hebbian_update(
    state: HebbianState,
    inputs: Float[Tensor, "R n"],
    rate: float = 0.1,
    momentum: float = 0.9,
    energy_decay: float = 0.9,
    response: Response | None = None,
) -> HebbianState:
    """Learn from one batch: M ← m M + (1 − m) D, H ← H + (c/λ̂) M.

    Args:
        state: the block.
        inputs: presynaptic rows [R, n].
        rate: c, dimensionless; stable up to about 5 with momentum 0.9 and up to about 1 without.
        momentum: m in [0, 1).
        energy_decay: of the moving average λ̂, which jumps up at once and decays slowly.
        response: of spiking lateral neurons; None for linear ones.

    Returns:
        The next state; `frozen` is passed on untouched.
    """
    direction, energies = hebbian_direction(inputs, state.frozen, state.rows, response)
    largest = energies.max() if energies.numel() else state.energy
    energy = torch.maximum(largest, energy_decay * state.energy + (1 - energy_decay) * largest)
    step = (direction / energy.clamp(min=torch.finfo(energy.dtype).tiny)).clamp(-LARGEST_STEP, LARGEST_STEP)
    average = momentum * state.momentum + (1 - momentum) * step
    return HebbianState(state.frozen, state.rows + rate * average, average, energy)


def accumulated_step(
    moment: Float[Tensor, "n n"], frozen: Float[Tensor, "old n"], rows: Float[Tensor, "k n"]
) -> Float[Tensor, "k n"]:
    """Iterate the rule once on an accumulated second moment, then orthonormalise.

    The rows first turn within their span until their responses decorrelate; then every lateral neuron takes its own
    scale-free rate η_i = 1 / E[y_i²]. With these rates the step of dH = η H C (I − H_oᵀH_o − HᵀH), followed by QR, is
    orthogonal iteration: it converges as fast as the spectrum allows, at any scale.

    Args:
        moment: C = E[x xᵀ], [n, n].
        frozen: [k_old, n].
        rows: [k, n], orthonormal.

    Returns:
        The next rows [k, n], orthonormal; orthogonal to the frozen ones to working precision.
    """
    driven = rows @ moment
    response = driven @ rows.mT
    energies, turn = torch.linalg.eigh((response + response.mT) / 2)
    rows, driven = turn.mT @ rows, turn.mT @ driven
    direction = deflate(driven, frozen) - energies[:, None] * rows
    precision = torch.finfo(moment.dtype)
    smallest = (precision.eps * moment.diagonal().sum()).clamp(
        min=precision.tiny
    )  # a silent layer has no energy at all
    stepped = rows + direction / energies.clamp(min=smallest)[:, None]
    return torch.linalg.qr(stepped.mT)[0].mT
