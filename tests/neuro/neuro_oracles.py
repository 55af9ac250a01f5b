"""Small exact constructions that the tests of the lateral circuit measure against."""

import math

import torch


def orthonormal(num_rows, width, seed=0, dtype=torch.float64):
    """Random orthonormal rows [num_rows, width]."""
    drawn = torch.randn(width, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.linalg.qr(drawn)[0][:num_rows].to(dtype)


def rows_with_moment(spectrum, seed=0):
    """Rows X [n, n] whose second moment XᵀX/n has exactly this spectrum; also its eigenvectors, as rows."""
    energies = torch.as_tensor(spectrum, dtype=torch.float64)
    axes = orthonormal(len(energies), len(energies), seed)
    mixing = orthonormal(len(energies), len(energies), seed + 1)
    return math.sqrt(len(energies)) * mixing @ (energies.sqrt()[:, None] * axes), axes


def gaussian_rows(num_rows, spectrum, axes, generator):
    """Draw rows with E[x xᵀ] = axesᵀ diag(spectrum) axes."""
    scales = torch.as_tensor(spectrum, dtype=torch.float64).sqrt()
    drawn = torch.randn(num_rows, len(scales), generator=generator, dtype=torch.float64)
    return drawn * scales @ axes


def leading_eigenspace(moment, num_rows):
    """The eigenvectors of the largest eigenvalues, as rows."""
    return torch.linalg.eigh(moment)[1].flip(1)[:, :num_rows].mT


def largest_angle(rows, space):
    """Largest principal angle in degrees between the span of rows and that of orthonormal rows `space`."""
    basis = torch.linalg.qr(rows.to(torch.float64).mT)[0].mT
    space = space.to(torch.float64)
    outside = basis - basis @ space.mT @ space
    return math.degrees(math.asin(min(1.0, float(torch.linalg.matrix_norm(outside, 2)))))


def orthonormality_error(rows):
    """Largest entry of |H Hᵀ − I|."""
    rows = rows.to(torch.float64)
    return float((rows @ rows.mT - torch.eye(len(rows), dtype=torch.float64)).abs().max()) if len(rows) else 0.0
