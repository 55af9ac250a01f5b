"""Named random streams: one root seed, one independent stream per purpose.

A stream's seed is the SHA-256 of the root seed and the stream's name (init, order, noise, consolidation, …, with the
task and epoch where they matter). A stream therefore needs no saved position at a task boundary, and drawing more
from one never moves another.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def derive_seed(root: int, *names: str | int) -> int:
    """Give the seed of a named stream, in [0, 2⁶³)."""
    digest = hashlib.sha256("/".join(map(str, (root, *names))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def stream(root: int, *names: str | int) -> torch.Generator:
    """Give a fresh CPU generator for a named stream."""
    return torch.Generator().manual_seed(derive_seed(root, *names))


@contextmanager
def seeded(root: int, *names: str | int) -> Iterator[None]:
    """Point torch's global generators at a named stream, and give them their old state back afterwards.

    For code that takes no generator: the initialisation of torch's layers, a foreign module's dropout.
    """
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(root, *names))
        yield


def reseed_modules(model: nn.Module, root: int, *names: str | int) -> None:
    """Start the private streams of a model's stochastic parts, such as a Poisson encoder, from a named stream."""
    for path, module in model.named_modules():
        if callable(reseed := getattr(module, "reseed", None)):
            reseed(derive_seed(root, *names, path))


@contextmanager
def apart(model: nn.Module, root: int, *names: str | int) -> Iterator[None]:
    """Run something random without moving the streams of training: the global ones and those inside the model."""
    own = [(module, module.seed, module.generator) for module in model.modules() if hasattr(module, "reseed")]
    with seeded(root, *names):
        reseed_modules(model, root, *names)
        try:
            yield
        finally:
            for module, seed, generator in own:
                module.seed, module.generator = seed, generator  # pyright: ignore[reportAttributeAccessIssue]
