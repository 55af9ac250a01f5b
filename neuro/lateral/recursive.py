"""Recursive least squares: the matrix P that orthogonal weights modification sends gradients through.

    P⁻¹ = P₀⁻¹ + Xᵀ X / a     ⇔     P ← P − P Xᵀ (a I + X P Xᵀ)⁻¹ X P          (Zeng, Chen, Cui, Yu 2019; Woodbury)

Rows that are taken out keep little of P: along an eigenvector of energy E = Σ (v·x)² it falls from 1/α to a/(a α + E).
"""

import torch
from torch import Tensor


@torch.no_grad()
def absorb(matrix: Tensor, rows: Tensor, damping: float) -> None:
    """Take rows out of P in place: P ← P − P Xᵀ (a I + X P Xᵀ)⁻¹ X P, computed in double precision.

    One after the other, or several in one call, gives the same P. What rounding has left in P of rows that are out
    already must not look like energy below zero, so a stays above ε ‖X‖² max P.

    Args:
        matrix: P, [n, n].
        rows: X, [R, n].
        damping: a.
    """
    exact = rows.to(torch.float64)
    driven = exact @ matrix.to(torch.float64)
    inner = driven @ exact.mT
    rounding = torch.finfo(matrix.dtype).eps * exact.square().sum() * matrix.diagonal().max()
    inner.diagonal().add_(rounding.clamp(min=damping))
    response = torch.linalg.solve_triangular(torch.linalg.cholesky_ex((inner + inner.mT) / 2).L, driven, upper=False)
    matrix.sub_(response.mT @ response)


def absorb_operations(num_rows: int, width: int) -> int:
    """Count the multiply-accumulates of taking rows out of P."""
    return 2 * num_rows * width**2 + 2 * num_rows**2 * width + num_rows**3 // 3
