"""Multi-step kernels of one signature: `reference` is the truth, `fused` is what runs."""

from neuro.kernels import fused, reference
from neuro.kernels.dynamics import LeakyDynamics

__all__ = ["LeakyDynamics", "fused", "reference"]
