"""Adam-NSCL: training in the null space of the feature covariance (Wang, Li, Sun, Xu, CVPR 2021).

The uncentred covariance of the rows before each weight is summed over all tasks, X ← X + Σ x xᵀ. What old tasks hardly
use is spanned by the eigenvectors U with small eigenvalues, and every applied update is put into that span:

    ΔW ← ΔW U Uᵀ,      U: eigenvalues at most a times the smallest

Nothing is compressed: the covariances are kept whole, n × n numbers a weight. The task's number is needed at the
boundaries alone. The optimiser may be any; Adam's step is projected, not its gradient.

Deliberate differences: an eigenvalue below the rounding of the largest, n ε λ_max, counts as 0, or a dead input would
leave nothing but its own direction free; biases and norm layers are frozen from the second task on (the paper trains
norm layers under a penalty); one learning rate for all. The released code takes the mean row of a batch for its rows
(`BatchMean`) and divides U Uᵀ by its Frobenius norm, √k, which shrinks steps (`FrobeniusScaled`): two parts of their
own here, together `nscl_legacy`.
"""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from continual.batches import TrainingData
from continual.scenarios import Task
from continual.strategies.projecting import ProjectionPath, require_at_least_one, require_parts
from continual.strategies.strategy import LayerRank, Setting, Strategy
from neuro.lateral import (
    AnyProjector,
    BatchMean,
    DenseProjector,
    EveryRow,
    Projector,
    RowSource,
    linear_in_gradient,
    smaller_projector,
)
from neuro.lateral.projection import complement


@runtime_checkable
class NullSpaceMap(Protocol):
    """The role: from the free directions of a weight to the map of its updates."""

    def __call__(self, free: Tensor) -> AnyProjector:
        """Give the map into the span of orthonormal rows [k, n]."""
        ...


class Unscaled:
    """ΔW U Uᵀ, from U or what it leaves, whichever is smaller."""

    def __call__(self, free: Tensor) -> Projector:
        """Give the map."""
        return Projector(free, free=True) if 2 * len(free) <= free.shape[1] else smaller_projector(complement(free))


class FrobeniusScaled:
    """ΔW U Uᵀ / ‖U Uᵀ‖_F, as released: into the same span, √k times shorter."""

    def __call__(self, free: Tensor) -> DenseProjector:
        """Give the map."""
        matrix = free.mT @ free
        return DenseProjector(matrix / torch.linalg.matrix_norm(matrix))


class NSCL(Strategy):
    """Let updates move only along input directions that old tasks hardly use.

    Args:
        factor: a, at least 1: how many times the smallest eigenvalue still counts as null.
        rows: which rows make the covariance: `EveryRow`, or `BatchMean` as released.
        null_space_map: what is done with the null space: `Unscaled`, or `FrobeniusScaled` as released.
        max_samples: samples of a task that are looked at, drawn by seed; None looks at all.
        batch_size: samples per batch of that pass; `BatchMean` depends on it.

    Raises:
        ValueError: if a number is out of range.
    """

    needs_boundaries = True

    def __init__(
        self,
        factor: float = 10.0,
        rows: RowSource | None = None,
        null_space_map: NullSpaceMap | None = None,
        max_samples: int | None = None,
        batch_size: int = 64,
    ) -> None:
        if not factor >= 1:
            raise ValueError(f"factor must be at least 1, or nothing would count as null, got {factor}.")
        require_at_least_one(max_samples=max_samples, batch_size=batch_size)
        self.factor, self.rows = float(factor), rows if rows is not None else EveryRow()
        self.null_space_map = null_space_map if null_space_map is not None else Unscaled()
        self.max_samples, self.batch_size = max_samples, batch_size
        as_released = isinstance(self.rows, BatchMean) and isinstance(self.null_space_map, FrobeniusScaled)
        self.name = "nscl_legacy" if as_released else "nscl"

    def attach(self, setting: Setting) -> None:
        """Begin with no covariance."""
        self._path = ProjectionPath(setting)
        self._covariances: dict[str, Tensor] = {}
        self._free: dict[str, Tensor] = {}
        self._maps: dict[str, AnyProjector] = {}
        self._summary: list[LayerRank] = []

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Choose the side of the projection."""
        self._path.begin_task(task, linear_in_gradient(optimizer))

    def after_backward(self, model: nn.Module) -> None:
        """Project the gradient, where the optimiser is linear in it and that is the same."""
        self._path.after_backward()

    def after_step(self, model: nn.Module) -> None:
        """Project the applied update."""
        self._path.after_step()

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Add the task's covariances and find the null spaces anew."""
        found = self._path.moments(task, data, self.rows, self.max_samples, self.batch_size)
        self._summary = []
        for site in self._path.sites:
            new = found[site.name].total
            total = new + self._covariances[site.name] if site.name in self._covariances else new
            free = null_space(total, self.factor).to(site.precision)
            before = len(self._free[site.name]) if site.name in self._free else site.width
            self._covariances[site.name], self._free[site.name] = total, free
            outside = float(((free.to(new.dtype) @ new) * free).sum() / new.trace().clamp(min=1e-30))
            rank, learned = site.width - len(free), before - len(free)
            self._summary.append(LayerRank(site.name, rank, site.width, learned, min(1.0, max(0.0, 1 - outside))))
            self._path.spent += 9 * site.width**3
        self._make_maps()
        self._path.end_task(self._maps)

    def _make_maps(self) -> None:
        limited = {name: free for name, free in self._free.items() if len(free) < free.shape[1]}
        self._maps = {name: self.null_space_map(free) for name, free in limited.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Give covariances, null spaces and counters."""
        totals = {f"covariance.{name}": total for name, total in self._covariances.items()}
        return (
            {"counters": self._path.counters()} | totals | {f"free.{name}": free for name, free in self._free.items()}
        )

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back and put the maps into force again."""
        sites = self._path.sites if "counters" in state and int(state["counters"][0]) > 0 else []
        covariances = {f"covariance.{site.name}": (site.width, site.width) for site in sites}
        free = {f"free.{site.name}": (None, site.width) for site in sites}
        require_parts(state, {"counters": (3,)} | covariances | free)
        for site in sites:
            device = site.weight.device
            self._covariances[site.name] = state[f"covariance.{site.name}"].to(device)
            self._free[site.name] = state[f"free.{site.name}"].to(device)
        self._make_maps()
        self._path.resume(state["counters"], self._maps)

    def notices(self) -> list[str]:
        """Say what no map protects, and which layers nothing reached."""
        return self._path.notices()

    def ranks(self) -> list[LayerRank]:
        """Give how many directions of each layer are out of reach."""
        return self._summary

    @property
    def stored_bytes(self) -> int:
        """Bytes of covariances, null spaces and maps, and of the anchors that applied updates are measured from."""
        tensors = [*self._covariances.values(), *self._free.values()]
        for held in self._maps.values():
            tensors += [part for part in held if isinstance(part, Tensor)]
        own = {id(tensor): tensor.nbytes for tensor in tensors}
        return sum(own.values()) + self._path.guard.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of learning, with its passes through the network counted densely, and of projecting."""
        return self._path.operations


def null_space(covariance: Tensor, factor: float) -> Tensor:
    """Give orthonormal rows [k, n] with x-energy at most `factor` times the smallest eigenvalue, least first.

    Args:
        covariance: Σ x xᵀ, [n, n], in double precision.
        factor: a.
    """
    energies, vectors = torch.linalg.eigh(covariance)
    rounding = len(covariance) * torch.finfo(covariance.dtype).eps * energies[-1]
    return vectors[:, energies <= torch.maximum(factor * energies[0], rounding).clamp(min=0)].mT.contiguous()
