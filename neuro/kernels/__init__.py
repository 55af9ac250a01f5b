"""Multi-step kernels of one signature: `reference` is the truth, `fused` is what runs unless the truth is asked for."""

from neuro.kernels import fused, reference
from neuro.kernels.dynamics import LeakyDynamics
from neuro.reference_mode import reference_kernels

__all__ = ["LeakyDynamics", "fused", "reference", "reference_kernels"]
