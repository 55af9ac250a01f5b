"""Projection away from a subspace, on whichever side is cheaper.

For a weight W [out, n], presynaptic rows X [R, n] and errors δ [R, out], the gradient is G = δᵀX. Protecting the
rowspace of an orthonormal H means (Saha et al. 2021; Xiao et al. 2024)

    weight side   G − G Hᵀ H          4 · out · n · k multiplications
    trace side    δᵀ (X − X Hᵀ H)     4 · R · n · k

which are equal. A projector keeps the smaller of H and its orthonormal complement, so that it never costs more
than half the width; a full subspace has an empty complement and lets through exact zeros.

Soft maps take out a share of each direction, G − G Hᵀ diag(s) H (Saha and Roy 2023), and dense ones are any matrix,
G M. They are linear too, so they may stand on either side, but applying them twice is not applying them once.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Projector(NamedTuple):
    """The map x → x − P x for rows x.

    Attributes:
        directions: orthonormal rows [k, n]: what is protected, or what is free.
        free: whether `directions` span what may still be learned.
    """

    directions: Tensor
    free: bool = False

    @property
    def rows_only(self) -> bool:
        """Whether it may act on presynaptic rows only; a linear map acts on gradients alike."""
        return False

    def __call__(self, rows: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
        """Remove the protected part of rows [..., n].

        The product runs in the finer precision of the two; the result has the rows' dtype.
        """
        precision = torch.promote_types(rows.dtype, self.directions.dtype)
        exact, directions = rows.to(precision), self.directions.to(precision)
        inside = exact @ directions.mT @ directions
        return (inside if self.free else exact - inside).to(rows.dtype)

    def multiply_accumulates(self, num_rows: int) -> int:
        """Count the multiply-accumulates of projecting `num_rows` rows."""
        return 2 * num_rows * self.directions.numel()


class SoftProjector(NamedTuple):
    """The map x → x − Hᵀ (s · H x): of every direction a share is taken out.

    Attributes:
        directions: H, orthonormal rows [k, n].
        shares: s, [k], 1 for a direction that is protected whole, 0 for one that is free.
    """

    directions: Tensor
    shares: Tensor

    @property
    def rows_only(self) -> bool:
        """Give False: it is linear."""
        return False

    def __call__(self, rows: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
        """Remove the protected shares of rows [..., n]."""
        precision = torch.promote_types(rows.dtype, self.directions.dtype)
        exact, directions, shares = rows.to(precision), self.directions.to(precision), self.shares.to(precision)
        return (exact - (exact @ directions.mT * shares) @ directions).to(rows.dtype)

    def multiply_accumulates(self, num_rows: int) -> int:
        """Count the multiply-accumulates of projecting `num_rows` rows."""
        return num_rows * (2 * self.directions.numel() + self.shares.numel())


class DenseProjector(NamedTuple):
    """The map x → M x for rows x, with any symmetric matrix.

    Attributes:
        matrix: M, [n, n]; whoever holds it may change it in place.
    """

    matrix: Tensor

    @property
    def rows_only(self) -> bool:
        """Give False: it is linear."""
        return False

    def __call__(self, rows: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
        """Map rows [..., n]."""
        precision = torch.promote_types(rows.dtype, self.matrix.dtype)
        return (rows.to(precision) @ self.matrix.to(precision)).to(rows.dtype)

    def multiply_accumulates(self, num_rows: int) -> int:
        """Count the multiply-accumulates of mapping `num_rows` rows."""
        return num_rows * self.matrix.numel()


class LateralSpikes(NamedTuple):
    """The signed rate code of spiking lateral neurons: y → round(clip(y, −S, S)/S · N)/N · S.

    It stands for a pair of positive and negative integrate-and-fire populations that run N fast ticks inside one tick
    of the network: 2N + 1 levels, a step of S/N, saturation at ±S. N → ∞ gives the linear neuron.

    Attributes:
        scale: S above 0, in units of the response.
        ticks: N, at least 1.
    """

    scale: float = 20.0
    ticks: int = 40

    def __call__(self, response: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Give the rate-coded response."""
        levels = self.ticks / self.scale
        return (response.clamp(-self.scale, self.scale) * levels).round() / levels


class SpikingProjector(NamedTuple):
    """The map x → x − Hᵀ q(H x) with a spiking response q.

    It acts on presynaptic rows only: gradients are far smaller than a step of q, which would round them to no
    response and let everything through.

    Attributes:
        directions: H, orthonormal rows [k, n].
        spikes: q.
    """

    directions: Tensor
    spikes: LateralSpikes

    @property
    def rows_only(self) -> bool:
        """Give True."""
        return True

    def __call__(self, rows: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
        """Remove the part of rows [..., n] that the lateral neurons answer with."""
        precision = torch.promote_types(rows.dtype, self.directions.dtype)
        exact, directions = rows.to(precision), self.directions.to(precision)
        return (exact - self.spikes(exact @ directions.mT) @ directions).to(rows.dtype)

    def multiply_accumulates(self, num_rows: int) -> int:
        """Count the multiply-accumulates of projecting `num_rows` rows."""
        return 2 * num_rows * self.directions.numel()


AnyProjector = Projector | SoftProjector | DenseProjector | SpikingProjector


def complement(basis: Float[Tensor, "k n"]) -> Float[Tensor, "free n"]:
    """Give orthonormal rows [n − k, n] that span what the orthonormal rows `basis` [k, n] leave."""
    k, width = basis.shape
    full, _ = torch.linalg.qr(basis.to(torch.float64).mT, mode="complete")
    return full[:, k:].mT.to(basis.dtype).contiguous().reshape(width - k, width)


def smaller_projector(basis: Float[Tensor, "k n"]) -> Projector:
    """Build the projector away from orthonormal rows [k, n] from H or its complement, whichever is smaller."""
    if 2 * basis.shape[0] > basis.shape[1]:
        return Projector(complement(basis), free=True)
    return Projector(basis)


def projected_weight_gradient(
    grad_outputs: Float[Tensor, "R out"], rows: Float[Tensor, "R n"], projector: AnyProjector | None
) -> Float[Tensor, "out n"]:
    """Give the protected gradient of a linear map's weight.

    Args:
        grad_outputs: δ, [R, out].
        rows: X, [R, n].
        projector: what to keep away from; None for nothing.

    Returns:
        G − G P, [out, n], computed on the trace side when R < out or lateral neurons spike, else on the weight side.
    """
    if projector is None:
        return grad_outputs.mT @ rows
    if projector.rows_only or rows.shape[0] < grad_outputs.shape[1]:
        return grad_outputs.mT @ projector(rows)
    return projector(grad_outputs.mT @ rows)
