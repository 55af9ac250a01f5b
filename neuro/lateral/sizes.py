"""How many lateral neurons a layer gets for a task: by list, or by energy.

A size rule answers twice: `candidates`, how many rows to learn before the data is seen, and `keep`, how many of the
learned rows to freeze, most energetic first.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from neuro.lateral.learning import Learned


class Place(NamedTuple):
    """Which block is meant.

    Attributes:
        task: 0-based.
        layer: position among the protected layers, 0-based.
        name: of the layer.
        width: presynaptic width n.
        rank: rows frozen so far.
    """

    task: int
    layer: int
    name: str
    width: int
    rank: int


@runtime_checkable
class Sizes(Protocol):
    """The role: how large a block becomes."""

    def candidates(self, place: Place) -> int:
        """Give how many rows to learn, at most what the width leaves."""
        ...

    def keep(self, place: Place, learned: Learned) -> int:
        """Give how many of the learned rows to freeze."""
        ...

    def check(self, names: Sequence[str], widths: Sequence[int], num_tasks: int | None) -> None:
        """Refuse what cannot fit, before anything is trained.

        Raises:
            ValueError: naming the layer and the repair.
        """
        ...


class ListedSizes:
    """Sizes written down per task and layer.

    Rows that no longer fit are cut at the layer's width.

    Args:
        per_task: one list a task, one number a protected layer, in the network's order.

    Raises:
        ValueError: if a number is negative, or the lists differ in length.
    """

    def __init__(self, per_task: Sequence[Sequence[int]]) -> None:
        if not per_task or len({len(sizes) for sizes in per_task}) != 1:
            raise ValueError(f"per_task must hold one list a task, all of one length, got {per_task!r}.")
        if any(size < 0 for sizes in per_task for size in sizes):
            raise ValueError(f"A subspace cannot have fewer than 0 rows, got {per_task!r}.")
        self.per_task = [[int(size) for size in sizes] for sizes in per_task]

    def candidates(self, place: Place) -> int:
        """Give the listed number, cut at what the width leaves."""
        if place.task >= len(self.per_task):
            raise ValueError(
                f"This is task {place.task + 1}, but sizes are listed for {len(self.per_task)}; add a list."
            )
        return min(self.per_task[place.task][place.layer], place.width - place.rank)

    def keep(self, place: Place, learned: Learned) -> int:
        """Keep every row."""
        return learned.rows.shape[0]

    def check(self, names: Sequence[str], widths: Sequence[int], num_tasks: int | None) -> None:
        """Refuse lists that do not match the layers or the tasks, and a block larger than its layer."""
        if len(self.per_task[0]) != len(widths):
            raise ValueError(
                f"The size lists name {len(self.per_task[0])} layers, the network has {len(widths)} to protect "
                f"({', '.join(names)}); give each list {len(widths)} numbers."
            )
        if num_tasks is not None and num_tasks > len(self.per_task):
            raise ValueError(
                f"There are {num_tasks} tasks but sizes for {len(self.per_task)}; add a list for each task."
            )
        for task, sizes in enumerate(self.per_task):
            for name, width, size in zip(names, widths, sizes, strict=True):
                if size > width:
                    raise ValueError(
                        f"Task {task + 1} asks for a subspace of {size} rows in layer {name!r}, whose presynaptic "
                        f"width is {width}; ask for at most {width}."
                    )


def planned_saturation(sizes: Sizes, widths: dict[str, int], num_tasks: int) -> list[str]:
    """Say, before anything is trained, which layers listed sizes will fill.

    Args:
        sizes: the rule; only lists can be foreseen.
        widths: of the protected layers by name, in the network's order.
        num_tasks: how many tasks are to come.

    Returns:
        A sentence per layer.
    """
    if not isinstance(sizes, ListedSizes):
        return []
    found = []
    for layer, (name, width) in enumerate(widths.items()):
        filled = 0
        for task in range(num_tasks - 1):
            filled += sizes.per_task[task][layer]
            if filled >= width:
                found.append(
                    f"Layer {name!r} ({width} directions) will be full after task {task + 1} of {num_tasks}: the "
                    f"listed sizes ask for {filled}. Its weights will stand still from then on; list fewer rows."
                )
                break
    return found


class NoRows:
    """No lateral neurons at all: what remains of a protection is what it freezes."""

    def candidates(self, place: Place) -> int:
        """Give 0."""
        return 0

    def keep(self, place: Place, learned: Learned) -> int:
        """Give 0."""
        return 0

    def check(self, names: Sequence[str], widths: Sequence[int], num_tasks: int | None) -> None:
        """Accept every network."""


class EnergyShare:
    """As few rows as let old and new together capture a share of the task's energy E‖x‖² (the rule of GPM).

    Args:
        share: in (0, 1), of each protected layer.
        at_most: bound on the candidates per task as a share of the width; 1 lets a task take all that is left.
        at_least: candidates that the bound leaves in any case: all directions of a narrow layer are cheap.

    Raises:
        ValueError: if an argument is outside its range.
    """

    def __init__(self, share: float = 0.95, at_most: float = 1.0, at_least: int = 1) -> None:
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1, got {share}.")
        if not 0 < at_most <= 1:
            raise ValueError(f"at_most must be in (0, 1], got {at_most}.")
        if at_least < 1:
            raise ValueError(f"at_least must be 1 or more, got {at_least}.")
        self.share, self.at_most, self.at_least = float(share), float(at_most), int(at_least)

    def candidates(self, place: Place) -> int:
        """Give what the width leaves, bounded by `at_most` beyond `at_least`."""
        return min(place.width - place.rank, max(self.at_least, round(self.at_most * place.width)))

    def keep(self, place: Place, learned: Learned) -> int:
        """Give the smallest number that reaches the share; 0 if the frozen rows reach it alone."""
        retained = learned.frozen_energy + learned.energies.cumsum(0)
        wanted = self.share * learned.total_energy
        if learned.frozen_energy >= wanted:
            return 0
        return min(int(torch.searchsorted(retained, wanted)) + 1, learned.rows.shape[0])

    def check(self, names: Sequence[str], widths: Sequence[int], num_tasks: int | None) -> None:
        """Accept every network."""
