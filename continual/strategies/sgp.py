"""SGP: scaled gradient projection (Saha and Roy, AAAI 2023).

GPM's basis M, found and sized in the same way, but every direction is held only as far as it matters:

    G ← G − G M diag(λ) Mᵀ,        λ_i = (a + 1) s_i / (a s_i + s_max)

s_i is the strength of a direction in the task that ends: the singular value for a new row, √(m_iᵀ A Aᵀ m_i) for an old
one; s_max is the largest of both. The importance of an old row grows with every task, λ_i ← min(1, λ_i + λ_i of now).
a → ∞ is GPM; a = 0 holds each direction by its share of the strongest. The map is no projection, and is applied once.
The task's number is needed at the boundaries alone.

Deliberate differences are those of GPM; the smallest number of rows that reaches the share is kept after the first
task too (`ReleasedCount` counts as the released code does).
"""

import torch
from torch import Tensor, nn

from continual.batches import TrainingData
from continual.scenarios import Task
from continual.strategies.projecting import ProjectionPath, require_at_least_one, require_parts
from continual.strategies.strategy import LayerRank, Setting, Strategy
from neuro.lateral import (
    EveryRow,
    GrowingShare,
    Learned,
    Place,
    Sizes,
    SoftProjector,
    WeightSite,
    leading_rows,
    linear_in_gradient,
)
from neuro.lateral.subspace import num_alive


class SGP(Strategy):
    """Scale learning down along the input directions of old tasks, by how much they mattered.

    Args:
        sizes: how many directions are kept: `GrowingShare`, or `ReleasedCount` for the released code's count.
        coefficient: a, at least 0; large is as strict as GPM.
        max_samples: samples of a task that are looked at, drawn by seed; None looks at all.
        batch_size: samples per batch of that pass; it decides no digit but rounding.
        max_rows: bound on the rows a layer shows per batch, drawn by seed; None shows all.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "sgp"
    needs_boundaries = True

    def __init__(
        self,
        sizes: Sizes | None = None,
        coefficient: float = 10.0,
        max_samples: int | None = 125,
        batch_size: int = 64,
        max_rows: int | None = None,
    ) -> None:
        if not 0 <= coefficient < float("inf"):
            raise ValueError(f"coefficient must be finite and at least 0, got {coefficient}; for no bound use gpm.")
        require_at_least_one(max_samples=max_samples, batch_size=batch_size)
        self.sizes = sizes if sizes is not None else GrowingShare()
        self.coefficient = float(coefficient)
        self.max_samples, self.batch_size, self.rows = max_samples, batch_size, EveryRow(max_rows)

    def attach(self, setting: Setting) -> None:
        """Give every weight an empty basis."""
        self._path = ProjectionPath(setting)
        sites = self._path.sites
        self.sizes.check([s.name for s in sites], [s.width for s in sites], len(setting.sequence.tasks))
        self._maps = {site.name: empty_map(site) for site in sites}
        self._summary: list[LayerRank] = []

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Choose the side of the projection."""
        self._path.begin_task(task, linear_in_gradient(optimizer))

    def after_backward(self, model: nn.Module) -> None:
        """Scale the gradient, where the optimiser is linear in it."""
        self._path.after_backward()

    def after_step(self, model: nn.Module) -> None:
        """Scale the applied update, where it is not."""
        self._path.after_step()

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Grow every basis and weigh its directions by what the task put into them."""
        moments = self._path.moments(task, data, self.rows, self.max_samples, self.batch_size)
        self._summary = []
        for index, site in enumerate(self._path.sites):
            held, moment = self._maps[site.name], moments[site.name].mean
            place = Place(self._path.num_tasks, index, site.name, site.width, len(held.shares))
            learned = leading_rows(moment, held.directions, self.sizes.candidates(place))
            kept = min(num_alive(learned), self.sizes.keep(place, learned))
            self._maps[site.name] = grown_map(held, moment, learned, kept, self.coefficient)
            captured = float(
                (learned.frozen_energy + learned.energies[:kept].sum()) / learned.total_energy.clamp(1e-30)
            )
            self._summary.append(LayerRank(site.name, place.rank + kept, site.width, kept, min(1.0, captured)))
            self._path.spent += 5 * place.rank * site.width**2 + 9 * site.width**3
        self._path.end_task(self._in_force())

    def _in_force(self) -> dict[str, SoftProjector]:
        return {name: held for name, held in self._maps.items() if len(held.shares)}

    def state_dict(self) -> dict[str, Tensor]:
        """Give bases, importances and counters."""
        bases = {f"basis.{name}": held.directions for name, held in self._maps.items()}
        shares = {f"importance.{name}": held.shares for name, held in self._maps.items()}
        return {"counters": self._path.counters()} | bases | shares

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back and put the maps into force again."""
        widths = {site.name: site.width for site in self._path.sites}
        bases = {f"basis.{name}": (None, width) for name, width in widths.items()}
        require_parts(state, {"counters": (3,)} | bases | {f"importance.{name}": (None,) for name in widths})
        for name, held in self._maps.items():
            basis, shares = state[f"basis.{name}"], state[f"importance.{name}"]
            self._maps[name] = SoftProjector(basis.to(held.directions), shares.to(held.shares))
        self._path.resume(state["counters"], self._in_force())

    def notices(self) -> list[str]:
        """Say what no map protects, and which layers nothing reached."""
        return self._path.notices()

    def ranks(self) -> list[LayerRank]:
        """Give what the last task left in each layer."""
        return self._summary

    @property
    def stored_bytes(self) -> int:
        """Bytes of bases and importances, and of the anchors that applied updates are measured from."""
        held = sum(one.directions.nbytes + one.shares.nbytes for one in self._maps.values())
        return held + self._path.guard.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of learning, with its passes through the network counted densely, and of projecting."""
        return self._path.operations


def empty_map(site: WeightSite) -> SoftProjector:
    """Give a map that takes nothing out."""
    basis = site.weight.new_zeros(0, site.width, dtype=site.precision)
    return SoftProjector(basis, basis.new_zeros(0))


def grown_map(held: SoftProjector, moment: Tensor, learned: Learned, kept: int, coefficient: float) -> SoftProjector:
    """Add learned rows to a map and weigh all of its rows by the task's moment.

    Args:
        held: the map of the tasks before.
        moment: C = E[x xᵀ] of this task, [n, n].
        learned: new rows, most energetic first, orthogonal to the old.
        kept: how many of them to add.
        coefficient: a.
    """
    old = held.directions.to(moment.dtype)
    energies = torch.cat([((old @ moment) * old).sum(1), learned.energies[:kept].to(moment.dtype)])
    now = importance(energies.clamp(min=0).sqrt(), coefficient).to(held.shares.dtype)
    before = torch.cat([held.shares, held.shares.new_zeros(kept)])
    return SoftProjector(torch.cat([held.directions, learned.rows[:kept]]), (before + now).clamp(max=1))


def importance(strengths: Tensor, coefficient: float) -> Tensor:
    """Give λ_i = (a + 1) s_i / (a s_i + s_max) for strengths s [k]; 0 where nothing has any strength."""
    if strengths.numel() == 0:
        return strengths
    bound = coefficient * strengths + strengths.max()
    return torch.where(bound > 0, (coefficient + 1) * strengths / bound, 0.0)
