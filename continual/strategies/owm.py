"""OWM: orthogonal weights modification (Zeng, Chen, Cui, Yu 2019), in two variants that differ in when P moves.

Each weight has a matrix P = I/α, and takes its gradients through it, G ← G P. Mean inputs x of batches are taken out
of P by recursive least squares:

    k = P x,    P ← P − k kᵀ / (a + xᵀ k)

so that P⁻¹ = α I + Σ x xᵀ / a, and what was seen often and strongly is hardly reached by learning any more. It is a
soft map: a direction of energy E = Σ (v·x)² keeps a/(a α + E) of its learning rate.

- `OWMOnline` moves P with every training batch and then projects that batch's own gradient, from the first task on, as
  the released code does.
- `OWMTaskEnd` moves P at a task's end, in a pass over its data, and leaves it alone while a task is learned.

a may fall within a task by a factor, per layer in the released code for convolutions. There is one mean per tick for
a layer that runs over time, and one per position for a convolution; the batch of them is taken out at once (Woodbury),
which is what one after the other gives. The task's number is needed at the boundaries alone, to freeze biases and
norm layers from the second task on.

Deliberate differences: P moves with inputs in evaluation mode (without dropout the same, but norm layers show their
running statistics), in a pass of its own that moves no random stream and is counted. Where the optimiser is not linear
in the gradient, the applied update goes through P; online also where it has momentum, which remembers gradients that
went through the P of earlier batches. a is kept above the rounding of xᵀ P x; there is no norm penalty; a row of the
head that one task alone trains is not projected. The released code for convolutions keeps the weights that score best
on the joint test set of all tasks; nothing here looks at a test set.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from continual.batches import Batch, TrainingData
from continual.scenarios import Task
from continual.seeding import apart
from continual.strategies.projecting import ProjectionPath, require_at_least_one, require_parts
from continual.strategies.strategy import Setting, Strategy
from neuro.lateral import BatchMean, DenseProjector, linear_in_gradient, presynaptic_inputs
from neuro.lateral.recursive import absorb, absorb_operations


class OWMOnline(Strategy):
    """Send gradients through a P that every batch moves, as released.

    Args:
        alpha: α of P₀ = I/α, above 0.
        damping: a, above 0; infinite leaves P as it is.
        decay: a falls to this share of itself by the end of a task, in (0, 1]: one for all layers, or one for each.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "owm_online"
    needs_boundaries = True

    def __init__(self, alpha: float = 1.0, damping: float = 1.0, decay: float | Sequence[float] = 1.0) -> None:
        self.settings = (alpha, damping, decay)
        require_settings(*self.settings)

    def attach(self, setting: Setting) -> None:
        """Give every weight its P and put it into force."""
        self._path = ProjectionPath(setting)
        self._matrices = Matrices(self._path, *self.settings)
        self._path.guard.enforce(self._matrices.maps, freeze=False)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Choose the side of the projection; the rows of the head that any two tasks share are projected."""
        self._path.begin_task(task, linear_without_memory(optimizer), within_tasks=True)
        self._task, self._seen = task, 0

    def mix(self, batch: Batch) -> Batch:
        """Take the batch's mean inputs out of P."""
        setting = self._path.setting
        steps = setting.epochs * -(-len(self._task.train) // setting.batch_size)
        if self._matrices.move:
            with apart(setting.model, setting.seed, "mean inputs", self._task.index, self._seen):
                self._matrices.absorb(batch.inputs, min(1.0, self._seen / steps))
            self._path.count_pass(len(batch.inputs))
        self._seen += 1
        return batch

    def after_backward(self, model: nn.Module) -> None:
        """Send the gradient through P, where the optimiser is linear in it."""
        self._path.after_backward()

    def after_step(self, model: nn.Module) -> None:
        """Send the applied update through P, where it is not."""
        self._path.after_step()

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Count the task, and freeze what has no presynaptic side."""
        self._path.end_task(self._matrices.maps)

    def state_dict(self) -> dict[str, Tensor]:
        """Give every P, and the counters."""
        return {"counters": self._path.counters()} | self._matrices.state()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        self._matrices.load(state)
        self._path.resume(state["counters"], self._matrices.maps)

    def notices(self) -> list[str]:
        """Say what no map protects, and which layers nothing reached."""
        return self._path.notices()

    @property
    def stored_bytes(self) -> int:
        """Bytes of every P, and of the anchors that applied updates are measured from."""
        return self._matrices.nbytes + self._path.guard.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of moving P, with its passes through the network counted densely, and of projecting."""
        return self._path.operations


class OWMTaskEnd(Strategy):
    """Send gradients through a P that moves at a task's end.

    Args:
        alpha: α of P₀ = I/α, above 0.
        damping: a, above 0; infinite leaves P as it is.
        decay: a falls to this share of itself by the end of a pass, in (0, 1]: one for all layers, or one for each.
        max_samples: samples of a task that are looked at, drawn by seed; None looks at all.
        batch_size: samples whose inputs are averaged; fewer make P tighter.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "owm_taskend"
    needs_boundaries = True

    def __init__(
        self,
        alpha: float = 1.0,
        damping: float = 1.0,
        decay: float | Sequence[float] = 1.0,
        max_samples: int | None = None,
        batch_size: int = 64,
    ) -> None:
        self.settings = (alpha, damping, decay)
        require_settings(*self.settings)
        require_at_least_one(max_samples=max_samples, batch_size=batch_size)
        self.max_samples, self.batch_size = max_samples, batch_size

    def attach(self, setting: Setting) -> None:
        """Give every weight its P."""
        self._path = ProjectionPath(setting)
        self._matrices = Matrices(self._path, *self.settings)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Choose the side of the projection."""
        self._path.begin_task(task, linear_in_gradient(optimizer))

    def after_backward(self, model: nn.Module) -> None:
        """Send the gradient through P, where the optimiser is linear in it."""
        self._path.after_backward()

    def after_step(self, model: nn.Module) -> None:
        """Send the applied update through P, where it is not."""
        self._path.after_step()

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Take the mean inputs of the task's batches out of P."""
        if self._matrices.move:
            setting = self._path.setting
            batches = self._path.batches(task, data, self.max_samples, self.batch_size)
            with apart(setting.model, setting.seed, "consolidation", task.index):
                for number, inputs in enumerate(batches):
                    self._matrices.absorb(inputs, number / len(batches))
        self._path.end_task(self._matrices.maps)

    def state_dict(self) -> dict[str, Tensor]:
        """Give every P, and the counters."""
        return {"counters": self._path.counters()} | self._matrices.state()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back and put them into force again."""
        self._matrices.load(state)
        self._path.resume(state["counters"], self._matrices.maps)

    def notices(self) -> list[str]:
        """Say what no map protects, and which layers nothing reached."""
        return self._path.notices()

    @property
    def stored_bytes(self) -> int:
        """Bytes of every P, and of the anchors that applied updates are measured from."""
        return self._matrices.nbytes + self._path.guard.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of moving P, with its passes through the network counted densely, and of projecting."""
        return self._path.operations


class Matrices:
    """P of every weight; the maps hold the same tensors, which move in place.

    Args:
        path: whose sites have one.
        alpha: α of P₀ = I/α.
        damping: a.
        decay: of a within a task, for all layers or for each.

    Attributes:
        maps: by site; empty where P is and stays the identity.
        move: whether there is a P that can move.

    Raises:
        ValueError: if there is not one decay for each layer.
    """

    def __init__(self, path: ProjectionPath, alpha: float, damping: float, decay: float | Sequence[float]) -> None:
        self._path, self._damping = path, float(damping)
        sites = path.sites
        self._decays = [float(one) for one in decay] if isinstance(decay, Sequence) else [float(decay)] * len(sites)
        if len(self._decays) != len(sites):
            names = ", ".join(site.name for site in sites)
            raise ValueError(
                f"decay names {len(self._decays)} layers, the network has {len(sites)} to protect ({names}); give one "
                f"number, or {len(sites)}."
            )
        self.move = math.isfinite(damping) and bool(sites)
        self.maps: dict[str, DenseProjector] = {}
        for site in sites if self.move or alpha != 1 else []:
            identity = torch.eye(site.width, dtype=site.precision, device=site.weight.device)
            self.maps[site.name] = DenseProjector(identity / alpha)

    def absorb(self, inputs: Tensor, progress: float) -> None:
        """Take the mean inputs of a batch out of every P.

        Args:
            inputs: as the network takes them, [B, ...].
            progress: share of the task that is over, which decides how far a has fallen.
        """
        path, means = self._path, BatchMean()
        seen = presynaptic_inputs(path.setting.model, path.sites, inputs, path.presynaptic)
        for (site, activity), decay in zip(seen, self._decays, strict=True):
            rows = means(site, activity, len(inputs))
            absorb(self.maps[site.name].matrix, rows, self._damping * decay**progress)
            path.spent += absorb_operations(*rows.shape)

    def state(self) -> dict[str, Tensor]:
        """Give a copy of every P."""
        return {f"matrix.{name}": held.matrix.clone() for name, held in self.maps.items()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take every P back, in place."""
        shapes = {f"matrix.{name}": tuple(held.matrix.shape) for name, held in self.maps.items()}
        require_parts(state, {"counters": (3,)} | shapes)
        for name, held in self.maps.items():
            held.matrix.copy_(state[f"matrix.{name}"])

    @property
    def nbytes(self) -> int:
        """Bytes of every P."""
        return sum(held.matrix.nbytes for held in self.maps.values())


def linear_without_memory(optimizer: torch.optim.Optimizer) -> bool:
    """Tell whether an update is linear in the gradient of now alone; momentum holds gradients of an older P."""
    return linear_in_gradient(optimizer) and all(group["momentum"] == 0 for group in optimizer.param_groups)


def require_settings(alpha: float, damping: float, decay: float | Sequence[float]) -> None:
    """Refuse numbers out of range.

    Raises:
        ValueError: naming the number.
    """
    if not 0 < alpha < math.inf:
        raise ValueError(f"alpha must be above 0, got {alpha}.")
    if not damping > 0:
        raise ValueError(f"damping must be above 0, got {damping}.")
    decays = list(decay) if isinstance(decay, Sequence) else [decay]
    if not decays or not all(0 < one <= 1 for one in decays):
        raise ValueError(f"decay must be in (0, 1], for all layers or for each, got {decay}.")
