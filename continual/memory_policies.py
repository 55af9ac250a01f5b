"""Which samples of a stream a bounded memory holds: three policies, each exact at every moment.

- `Reservoir`: every sample of the stream with equal probability (Vitter 1985, algorithm R): the n-th arrival (from 0)
  takes slot j ~ U{0..n} if j is below the capacity M, and is dropped otherwise.
- `ClassBalanced`, `TaskBalanced`: every group gets the same number of places within one, a group with fewer samples
  keeps them all, and within a group every sample is equally likely. Each sample draws a key; the memory holds the M
  samples of lowest (rank of the key within the group, key). A sample that drops out could never come back: ranks only
  grow while places per group only shrink. So the content is what sorting the whole stream would give.

A batch is placed at once, at a cost that does not depend on how long the stream has been. The reservoir decides on the
CPU; the balanced ones on the samples' device with operations of fixed size, so that no step waits for an accelerator.
Difference from Chrysakis and Moens (2020), who balance classes by drawing victims from the largest: keys instead.
"""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

Columns = dict[str, Tensor]
"""What is known of samples, by name, a row each: inputs, targets, task, …"""

KEY = "keys"


class Placement(NamedTuple):
    """Where new samples go.

    Attributes:
        slots: rows of the memory, [K] int64; one that occurs twice has the same source both times.
        sources: for each slot a new sample, [K] int64.
        taken: whether anything is placed at all, a boolean scalar; None where it is.
    """

    slots: Tensor
    sources: Tensor
    taken: Tensor | None


class Policy(Protocol):
    """The role: which samples of a stream are held."""

    @property
    def keyed(self) -> bool:
        """Whether every sample is stored with a random key."""
        ...

    def place(self, held: Columns, new: Columns, capacity: int, seen: int, generator: torch.Generator) -> Placement:
        """Place new samples.

        Args:
            held: the samples in the memory.
            new: those that arrive.
            capacity: M, in samples.
            seen: how many have arrived before.
            generator: on the CPU.
        """
        ...


class Reservoir:
    """Hold every sample of the stream with equal probability."""

    keyed = False

    def place(self, held: Columns, new: Columns, capacity: int, seen: int, generator: torch.Generator) -> Placement:
        """Place new samples by algorithm R."""
        slots, sources = reservoir_slots(seen, len(new["targets"]), capacity, generator)
        return Placement(slots, sources, None)


class ClassBalanced:
    """Hold as many samples of every class, within one."""

    keyed = True

    def place(self, held: Columns, new: Columns, capacity: int, seen: int, generator: torch.Generator) -> Placement:
        """Place new samples by the rank of their keys within their class."""
        return balanced_placement(held, new, "targets", capacity)


class TaskBalanced:
    """Hold as many samples of every task, within one."""

    keyed = True

    def place(self, held: Columns, new: Columns, capacity: int, seen: int, generator: torch.Generator) -> Placement:
        """Place new samples by the rank of their keys within their task."""
        return balanced_placement(held, new, "task", capacity)


def reservoir_slots(seen: int, num_new: int, capacity: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Give the slots that arrivals `seen`..`seen + num_new − 1` end up in, and which arrival is in each.

    Of several arrivals for one slot the last stays, as if they had come one by one.

    Returns:
        Slots [K], each once, and sources [K] in 0..num_new − 1.
    """
    arrivals = np.arange(seen, seen + num_new)
    uniform = torch.rand(num_new, generator=generator, dtype=torch.float64).numpy()
    slots = np.where(arrivals < capacity, arrivals, (uniform * (arrivals + 1)).astype(np.int64))
    latest_first = np.flatnonzero(slots < capacity)[::-1]
    unique, first = np.unique(slots[latest_first], return_index=True)
    return torch.from_numpy(unique), torch.from_numpy(latest_first[first].copy())


def random_keys(num_samples: int, generator: torch.Generator) -> Tensor:
    """Draw keys [N], int64 (as fine as doubles, and known to every device)."""
    return torch.randint(2**62, (num_samples,), generator=generator)


def ranks_within(groups: Tensor, keys: Tensor) -> Tensor:
    """Give each sample's rank by key among those of its group, [N], from 0."""
    return _ranks(groups, keys.argsort(stable=True))


def _ranks(groups: Tensor, by_key: Tensor) -> Tensor:
    order = by_key[groups[by_key].argsort(stable=True)]
    ordered = groups[order]
    positions = torch.arange(len(groups), device=groups.device)
    ranks = torch.empty_like(positions)
    ranks[order] = positions - torch.searchsorted(ordered, ordered)
    return ranks


def balanced_selection(groups: Tensor, keys: Tensor, capacity: int) -> Tensor:
    """Give which samples are held, [N] of booleans: those of lowest (rank within the group, key).

    Args:
        groups: of each sample, [N] int64.
        keys: random, [N] int64.
        capacity: M.
    """
    by_key = keys.argsort(stable=True)
    order = by_key[_ranks(groups, by_key)[by_key].argsort(stable=True)]
    held = torch.zeros(len(groups), dtype=torch.bool, device=groups.device)
    held[order[:capacity]] = True
    return held


def balanced_placement(held: Columns, new: Columns, group: str, capacity: int) -> Placement:
    """Place new samples so that the groups of a column stay balanced."""
    num_held, num_new = len(held["targets"]), len(new["targets"])
    device = new["targets"].device
    if num_held + num_new <= capacity:
        sources = torch.arange(num_new, device=device)
        return Placement(num_held + sources, sources, None)
    groups, keys = (torch.cat([held[name], new[name]]) for name in (group, KEY))
    stays = balanced_selection(groups, keys, capacity)
    free = torch.ones(capacity, dtype=torch.bool, device=device)
    free[:num_held] = ~stays[:num_held]
    placed = stays[num_held:].sum()
    places = torch.arange(min(num_new, capacity), device=device).minimum((placed - 1).clamp(min=0))
    return Placement(_nth(free, places), _nth(stays[num_held:], places), placed > 0)


def _nth(chosen: Tensor, places: Tensor) -> Tensor:
    """Give where the n-th chosen one is, for each n from 0; somewhere if there are not so many."""
    return torch.searchsorted(chosen.cumsum(0), places + 1).clamp(max=len(chosen) - 1)
