"""HLOP: Hebbian-learning-based orthogonal projection (Xiao, Zhang, He, Wang, Lin, ICLR 2024).

Every weight has lateral neurons that learn, at a task's end, the subspace of presynaptic rows that the task uses.
Later updates have no component in it: ΔW H_oᵀ = 0, so old inputs keep their pre-activations. The forward pass is
untouched.

What is presynaptic, the rule says: spikes, traces, weighted rates. Differences from the released code: subspaces are
learned in a pass at the task's end, in evaluation mode, unless `last_epochs` lets them learn along; the projection is
exact (orthonormalised by QR) and, for an optimiser that is not linear in the gradient, applies to the update; the
head's projection covers just the rows that tasks share. The optimiser decides the side, never both: gradients for SGD
without weight decay, the applied update for all others.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from continual.batches import Batch, TrainingData
from continual.errors import UserError
from continual.quadratic_penalty import shares_head
from continual.scenarios import Task
from continual.seeding import derive_seed
from continual.strategies.projecting import (
    chosen_batches,
    head_rows,
    require_at_least_one,
    standing_still,
)
from continual.strategies.strategy import LayerRank, Setting, Strategy
from neuro.lateral import (
    Consolidation,
    EnergyShare,
    HebbianAccumulated,
    Protection,
    Sizes,
    SubspaceLearning,
    linear_in_gradient,
)
from neuro.lateral.sizes import planned_saturation
from neuro.learning import EProp

SILENCE = (
    "Layer {name!r} learned no direction and is not protected: its inputs are silent, or too faint for lateral neurons "
    "that spike; lower the scale of their spikes, or use linear ones."
)


class HLOP(Strategy):
    """Project learning away from what old tasks use.

    Args:
        learning: how a subspace is learned: `Hebbian`, `HebbianAccumulated` or `Eigen`.
        sizes: how large it becomes.
        max_samples: how many training samples of a task the pass at its end shows, drawn by seed; None shows all.
        batch_size: samples per batch of that pass; the online rule updates once per batch and iteration.
        passes: how often the pass is repeated, for the online rule.
        last_epochs: learn from every training batch of so many last epochs instead, while the weights still move; as
            many as there are is learning online from the first batch on. None learns in the pass at the task's end.
        max_rows: bound on the rows a layer shows per batch, drawn by seed; a convolution has one per patch.

    Raises:
        ValueError: if a number is below 1.
    """

    needs_boundaries = True
    needs_labels = False

    def __init__(
        self,
        learning: SubspaceLearning | None = None,
        sizes: Sizes | None = None,
        max_samples: int | None = None,
        batch_size: int = 64,
        passes: int = 1,
        last_epochs: int | None = None,
        max_rows: int | None = 4096,
    ) -> None:
        require_at_least_one(max_samples=max_samples, batch_size=batch_size, passes=passes)
        require_at_least_one(last_epochs=last_epochs, max_rows=max_rows)
        self.learning = learning if learning is not None else HebbianAccumulated()
        self.sizes = sizes if sizes is not None else EnergyShare()
        self.max_samples, self.batch_size, self.passes = max_samples, batch_size, passes
        self.last_epochs, self.max_rows = last_epochs, max_rows
        self.name = f"hlop_{self.learning.name}"

    def attach(self, setting: Setting) -> None:
        """Give every weight its lateral subspace."""
        self._setting = setting
        self._protection = Protection(
            setting.model,
            self.learning,
            self.sizes,
            setting.head,
            shares_head(setting.sequence),
            trace_side=True,
            presynaptic=setting.rule.presynaptic(setting.model),
            max_rows=self.max_rows,
            seed=derive_seed(setting.seed, "lateral") % 2**31,
        )
        self._widths = {site.name: site.width for site in self._protection.sites}
        self.sizes.check(list(self._widths), list(self._widths.values()), len(setting.sequence.tasks))
        if self.learning.spikes is not None:
            self._require_rows(setting)
        self._summary: list[LayerRank] = []
        self._silent: list[str] = []
        self._batches_to_wait: int | None = None

    def _require_rows(self, setting: Setting) -> None:
        """Refuse spiking lateral neurons where a later task would have only a finished gradient to project."""
        if isinstance(setting.rule, EProp):
            raise ValueError("Spiking lateral neurons project presynaptic rows, eprop forms none; use another rule.")
        for task in setting.sequence.tasks:
            self._protection.begin_task(head_rows(setting.sequence, task))

    def check_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Refuse an optimiser whose update would have to be projected, where lateral neurons spike.

        Raises:
            UserError: if it is not linear in the gradient, or remembers gradients of an earlier task.
        """
        if self.learning.spikes is not None and not linear_in_gradient(optimizer):
            raise UserError(
                "Spiking lateral neurons project rows on the way to the gradient, which an optimiser must be linear "
                "in; use SGD without weight decay that starts afresh with each task (optimizer_state=reset), or linear "
                "lateral neurons."
            )

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Choose the side of the projection and tell the head's rows apart."""
        self.check_optimizer(optimizer)
        self._on_gradient = linear_in_gradient(optimizer)
        self._protection.set_trace_side(self._on_gradient)
        self._protection.begin_task(head_rows(self._setting.sequence, task))
        if self.last_epochs is not None:
            per_epoch = -(-len(task.train) // self._setting.batch_size)
            learning_epochs = min(self.last_epochs, self._setting.epochs)
            self._protection.begin_learning(learning_epochs * per_epoch)
            self._batches_to_wait = (self._setting.epochs - learning_epochs) * per_epoch

    def mix(self, batch: Batch) -> Batch:
        """Show a training batch to the subspaces, in the epochs in which they learn along."""
        if self._batches_to_wait is not None:
            if self._batches_to_wait == 0:
                self._protection.learn(batch.inputs)
            self._batches_to_wait = max(0, self._batches_to_wait - 1)
        return batch

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
        added = self._protection.consolidate() if self.last_epochs is not None else self._learn_at_the_end(task, data)
        self._silent = [name for name, layer in added.items() if layer.pruned and not layer.rank]
        self._summary = [
            LayerRank(name, layer.rank, self._widths[name], layer.learned, layer.captured_energy)
            for name, layer in added.items()
        ]

    def _learn_at_the_end(self, task: Task, data: TrainingData) -> dict[str, Consolidation]:
        batches = []
        for number in range(self.passes):
            batches += chosen_batches(data, self._setting.seed, task, self.max_samples, self.batch_size, number)
        return self._protection.end_task((data.inputs[chosen] for chosen in batches), num_batches=len(batches))

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Let updates through as they are while the context is open, then protect the weights as they are by then.

        What is frozen stays frozen, and no subspace learns.
        """
        self._protection.lift()
        try:
            yield
        finally:
            self._protection.load_state_dict(self._protection.state_dict())

    def state_dict(self) -> dict[str, Tensor]:
        """Give the bases and counters."""
        return self._protection.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back and put the protection into force again."""
        self._protection.load_state_dict(state)

    def ranks(self) -> list[LayerRank]:
        """Give what the last task left in each layer."""
        return self._summary

    def notices(self) -> list[str]:
        """Say what stands still, which layers will be full, and which are."""
        if not self._summary:
            planned = planned_saturation(self.sizes, self._widths, len(self._setting.sequence.tasks))
            return standing_still(self._protection) + planned
        full = [note for layer in self._summary if (note := saturation_of(layer)) is not None]
        return full + [SILENCE.format(name=name) for name in self._silent]

    @property
    def stored_bytes(self) -> int:
        """Bytes of the bases, and of their complements where those are held too."""
        return self._protection.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of learning and projecting so far."""
        return sum(self._protection.operations)


def saturation_of(layer: LayerRank) -> str | None:
    """Say that a layer is full, or will be after one more task like the last; None while there is room."""
    if layer.rank >= layer.width:
        return f"Layer {layer.name!r} is full ({layer.rank} directions): its weights stand still from now on."
    if layer.learned and layer.rank + layer.learned >= layer.width:
        return (
            f"Layer {layer.name!r} holds {layer.rank} of {layer.width} directions and took {layer.learned} for the "
            f"last task: one more such task fills it, and its weights will stand still; choose smaller sizes."
        )
    return None
