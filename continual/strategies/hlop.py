"""HLOP: Hebbian-learning-based orthogonal projection (Xiao, Zhang, He, Wang, Lin, ICLR 2024).

Every weight has lateral neurons that learn, at a task's end, the subspace of presynaptic rows that the task uses.
Later updates have no component in it: ΔW H_oᵀ = 0, so old inputs keep their pre-activations. The forward pass is
untouched.

Differences from the released code: subspaces are learned in a pass at the task's end, in evaluation mode, instead of
during training; the projection is exact (orthonormalised by QR) and, for an optimiser that is not linear in the
gradient, applies to the update; the head's projection covers just the rows that tasks share. The optimiser decides
the side, never both: gradients for SGD without weight decay, the applied update for all others.
"""

import torch
from torch import Tensor, nn

from continual.batches import TrainingData, training_rows
from continual.scenarios import Task, TaskSequence
from continual.seeding import derive_seed, stream
from continual.strategies.strategy import LayerRank, Setting, Strategy
from neuro.lateral import (
    EnergyShare,
    HeadRows,
    HebbianAccumulated,
    Protection,
    Sizes,
    SubspaceLearning,
    linear_in_gradient,
)


class HLOP(Strategy):
    """Project learning away from what old tasks use.

    Args:
        learning: how a subspace is learned: `Hebbian`, `HebbianAccumulated` or `Eigen`.
        sizes: how large it becomes.
        max_samples: how many training samples of a task it learns from, drawn by seed; None uses all.
        batch_size: samples per batch of that pass; the online rule updates once per batch and iteration.
        passes: how often the pass is repeated, for the online rule.

    Raises:
        ValueError: if a number is below 1.
    """

    needs_boundaries = True

    def __init__(
        self,
        learning: SubspaceLearning | None = None,
        sizes: Sizes | None = None,
        max_samples: int | None = None,
        batch_size: int = 64,
        passes: int = 1,
    ) -> None:
        for name, value in (("max_samples", max_samples), ("batch_size", batch_size), ("passes", passes)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        self.learning = learning if learning is not None else HebbianAccumulated()
        self.sizes = sizes if sizes is not None else EnergyShare()
        self.max_samples, self.batch_size, self.passes = max_samples, batch_size, passes
        self.name = f"hlop_{self.learning.name}"

    def attach(self, setting: Setting) -> None:
        """Give every weight its lateral subspace."""
        self._sequence, self._seed = setting.sequence, setting.seed
        mode, tasks = setting.sequence.mode, setting.sequence.tasks
        shared_head = mode == "domain" or any(bool(shared_rows(setting.sequence, task).any()) for task in tasks)
        self._protection = Protection(
            setting.model,
            self.learning,
            self.sizes,
            setting.head,
            shared_head,
            trace_side=True,
            seed=derive_seed(setting.seed, "lateral") % 2**31,
        )
        sites = self._protection.sites
        names, widths = [site.name for site in sites], [site.width for site in sites]
        self.sizes.check(names, widths, len(setting.sequence.tasks))
        self._summary: list[LayerRank] = []

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Choose the side of the projection and tell the head's rows apart."""
        self._on_gradient = linear_in_gradient(optimizer)
        self._protection.set_trace_side(self._on_gradient)
        active = training_rows(self._sequence, task)
        self._protection.begin_task(HeadRows(shared_rows(self._sequence, task), active))

    def after_backward(self, model: nn.Module) -> None:
        """Project the gradient, where the optimiser is linear in it."""
        if self._on_gradient:
            self._protection.after_backward()

    def after_step(self, model: nn.Module) -> None:
        """Project the applied update, where it is not."""
        if not self._on_gradient:
            self._protection.after_step()

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Learn the subspaces of this task from its training inputs, and freeze them."""
        batches = []
        for number in range(self.passes):
            order = torch.randperm(len(data), generator=stream(self._seed, "consolidation", task.index, number))
            batches += order[: self.max_samples].to(data.inputs.device).split(self.batch_size)
        added = self._protection.end_task((data.inputs[chosen] for chosen in batches), num_batches=len(batches))
        widths = {site.name: site.width for site in self._protection.sites}
        self._summary = [
            LayerRank(name, layer.rank, widths[name], layer.learned, layer.captured_energy)
            for name, layer in added.items()
        ]

    def state_dict(self) -> dict[str, Tensor]:
        """Give the bases and counters."""
        return self._protection.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back and put the protection into force again."""
        self._protection.load_state_dict(state)

    def ranks(self) -> list[LayerRank]:
        """Give what the last task left in each layer."""
        return self._summary

    @property
    def stored_bytes(self) -> int:
        """Bytes of the bases, and of their complements where those are held too."""
        return self._protection.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of learning and projecting so far."""
        return sum(self._protection.operations)


def shared_rows(sequence: TaskSequence, task: Task) -> Tensor:
    """Give the head rows of a task that the loss of an earlier task trained too, [num_classes].

    An inactive row gets no gradient, so it is trained by a task if and only if it is active there.
    """
    active = training_rows(sequence, task)
    earlier = torch.zeros_like(active)
    for old in sequence.tasks[: task.index]:
        earlier |= training_rows(sequence, old)
    return active & earlier
