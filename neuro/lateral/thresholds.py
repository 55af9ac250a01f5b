"""GPM's thresholds: a share of the energy per layer, that may rise from task to task (Saha, Garg, Roy 2021).

After task t a layer keeps as few new rows as let old and new together hold a share ε_l + t · increment of the task's
energy E‖x‖², t counted from 0. At a share of 1 every row that carries energy is kept.
"""

from collections.abc import Sequence

import torch

from neuro.lateral.learning import Learned
from neuro.lateral.sizes import EnergyShare, Place


class GrowingShare:
    """`EnergyShare` with a share of its own for every layer and task.

    Args:
        share: in (0, 1), of the first task: one for all layers, or one for each protected layer in the network's order.
        increment: added with every task, at least 0.

    Raises:
        ValueError: if a number is outside its range.
    """

    def __init__(self, share: float | Sequence[float] = 0.95, increment: float = 0.0) -> None:
        self.per_layer = isinstance(share, Sequence)
        self.shares = [float(one) for one in share] if isinstance(share, Sequence) else [float(share)]
        if not self.shares or not all(0 < one < 1 for one in self.shares):
            raise ValueError(f"share must lie between 0 and 1, for all layers or for each, got {share}.")
        if not 0 <= increment < 1:
            raise ValueError(f"increment must be in [0, 1), got {increment}.")
        self.increment = float(increment)

    def share_of(self, place: Place) -> float:
        """Give the share a layer must reach after a task, at most 1."""
        first = self.shares[place.layer if self.per_layer else 0]
        return min(1.0, first + self.increment * place.task)

    def candidates(self, place: Place) -> int:
        """Give what the width leaves."""
        return place.width - place.rank

    def keep(self, place: Place, learned: Learned) -> int:
        """Give the smallest number that reaches the layer's share of now."""
        share = self.share_of(place)
        return EnergyShare(share).keep(place, learned) if share < 1 else learned.rows.shape[0]

    def check(self, names: Sequence[str], widths: Sequence[int], num_tasks: int | None) -> None:
        """Refuse shares that do not match the layers."""
        if self.per_layer and len(self.shares) != len(names):
            raise ValueError(
                f"share names {len(self.shares)} layers, the network has {len(names)} to protect ({', '.join(names)}); "
                f"give one number, or {len(names)}."
            )


class ReleasedCount:
    """The count of GPM's released code: after the first task one row fewer than reaches the share.

    It counts rows whose cumulative share stays strictly below the threshold; from the second task on the row that
    crosses it is counted too, as the paper has it. A row that meets the threshold exactly is a matter of rounding.

    Args:
        sizes: whose shares are counted so.
    """

    def __init__(self, sizes: GrowingShare | None = None) -> None:
        self.sizes = sizes if sizes is not None else GrowingShare()

    def candidates(self, place: Place) -> int:
        """Give what the shares ask for."""
        return self.sizes.candidates(place)

    def keep(self, place: Place, learned: Learned) -> int:
        """Give one row fewer after the first task."""
        if place.task > 0:
            return self.sizes.keep(place, learned)
        reached = learned.energies.cumsum(0) < self.sizes.share_of(place) * learned.total_energy
        return int(torch.count_nonzero(reached))

    def check(self, names: Sequence[str], widths: Sequence[int], num_tasks: int | None) -> None:
        """Refuse what the shares refuse."""
        self.sizes.check(names, widths, num_tasks)
