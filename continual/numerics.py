"""Settings of the arithmetic that belong to a run and not to the process: threads, and what happens to denormals."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def numerics(threads: int | None) -> Iterator[None]:
    """Compute with so many CPU threads and with denormals flushed to zero; both are put back afterwards.

    Fading gradients are full of denormals, on which a CPU is some ten times slower.

    Args:
        threads: None leaves torch's choice.
    """
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
