"""Whether the fused kernels stand aside for the reference loops.

A fused kernel is one hand-written autograd function, which torch.func's transforms (vmap, grad, jacrev) cannot see
through. Inside `reference_kernels()` neurons run the plain loops instead: the same spikes, the same gradients to
rounding, open to every transform, and slower. The switch is a context variable, so it holds for one thread of control
and comes back whatever happens.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_REFERENCE_WANTED: ContextVar[bool] = ContextVar("reference_kernels_wanted", default=False)


@contextmanager
def reference_kernels() -> Iterator[None]:
    """Let neurons run their reference loops while the context is open.

    Example:
        >>> import torch
        >>> from neuro import LIF
        >>> from neuro.kernels import reference_kernels
        >>> with reference_kernels():
        ...     rates = torch.func.vmap(lambda current: LIF().simulate(current)[0].mean())(torch.rand(5, 4, 1, 3))
        >>> rates.shape
        torch.Size([5])
    """
    token = _REFERENCE_WANTED.set(True)
    try:
        yield
    finally:
        _REFERENCE_WANTED.reset(token)


def reference_wanted() -> bool:
    """Tell whether `reference_kernels()` is open."""
    return _REFERENCE_WANTED.get()
