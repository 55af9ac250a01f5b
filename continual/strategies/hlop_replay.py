"""HLOP with memory replay: after each task the network is trained on a few stored samples without protection.

The first m samples of each class are kept of every task, in the order of its training data. After each task from the
second on the network makes extra epochs over all that is kept, with no projection and without the subspaces learning
(Xiao et al. 2024 and its released code); then the weights as they are by then are protected again. Projection keeps
old outputs while a task is learned; replay repairs what the frozen subspace did not hold. Parameters and statistics
that HLOP freezes stay frozen here too. This composes with HLOP, which knows nothing of it.

The extra training is SGD with a learning rate and momentum of its own, new after each task, by the run's learning
rule and objective, in shuffled batches over all tasks. Each sample competes among the head rows it was stored with
(in class mode with `train_logits="seen"` among all seen by now). Deliberate differences: the released code puts so
many samples of every task into each batch, here batches are drawn from all tasks together; its rate follows the
setting (0.01 in one epoch on permuted MNIST, 0.001 in 20 epochs elsewhere). A bias of the head, which HLOP holds still
where rows are shared, is trained by the replay.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from continual.batches import Batch, TrainingData
from continual.errors import DivergedError
from continual.memory import Memory, layout_of
from continual.memory_policies import Reservoir, ranks_within
from continual.scenarios import Task
from continual.seeding import apart, stream
from continual.strategies.hlop import HLOP
from continual.strategies.replay_stream import PassCost, competing_rows
from continual.strategies.strategy import LayerRank, Setting, Strategy


class HLOPReplay(Strategy):
    """Protect by projection while a task is learned, and replay stored samples after it.

    Args:
        hlop: the protection, its subspaces and their sizes; by default `HLOP()`.
        per_class: m, samples kept of each class of each task; 0 is HLOP alone.
        epochs: over all that is kept, after each task from the second on.
        learning_rate: of the extra training.
        momentum: of the extra training.
        batch_size: of the extra training.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "hlop_replay"
    needs_boundaries = True

    def __init__(
        self,
        hlop: HLOP | None = None,
        per_class: int = 50,
        epochs: int = 1,
        learning_rate: float = 0.01,
        momentum: float = 0.0,
        batch_size: int = 64,
    ) -> None:
        if per_class < 0:
            raise ValueError(f"per_class must be 0 or more, got {per_class}.")
        for name, value in (("epochs", epochs), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        if not learning_rate > 0 or not 0 <= momentum < 1:
            raise ValueError(
                f"learning_rate must be above 0 and momentum in [0, 1), got {learning_rate} and {momentum}."
            )
        self.hlop = hlop if hlop is not None else HLOP()
        self.per_class, self.epochs, self.batch_size = int(per_class), int(epochs), int(batch_size)
        self.learning_rate, self.momentum = float(learning_rate), float(momentum)

    def attach(self, setting: Setting) -> None:
        """Attach HLOP and make the memory."""
        self.hlop.attach(setting)
        self._setting = setting
        capacity = sum(self.per_class * len(task.classes) for task in setting.sequence.tasks)
        self._memory = Memory(layout_of(setting.model, setting.sequence), Reservoir(), capacity)  # never overfilled
        self._cost = PassCost(setting)

    def check_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Ask HLOP."""
        self.hlop.check_optimizer(optimizer)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Get HLOP ready for a task."""
        self.hlop.before_task(task, optimizer)

    def mix(self, batch: Batch) -> Batch:
        """Leave the batch to HLOP."""
        return self.hlop.mix(batch)

    def after_backward(self, model: nn.Module) -> None:
        """Leave the gradient to HLOP."""
        self.hlop.after_backward(model)

    def after_step(self, model: nn.Module) -> None:
        """Leave the update to HLOP."""
        self.hlop.after_step(model)

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Let the subspaces learn, keep samples, and from the second task on replay all of them.

        Raises:
            DivergedError: if the loss of the extra training is not finite.
        """
        self.hlop.after_task(task, data)
        places = torch.arange(len(data), device=data.targets.device)
        chosen = (ranks_within(data.targets, places) < self.per_class).nonzero().flatten()
        active = data.active if data.active.ndim == 1 else data.active[chosen]
        kept = Batch(data.inputs[chosen], data.targets[chosen], active, data.task[chosen])
        self._memory.insert(kept, stream(self._setting.seed, "memory", "insert", task.index))
        if task.index > 0 and len(self._memory) > 0:
            self._replay(task)

    def _replay(self, task: Task) -> None:
        """Train on all that is kept, unprotected."""
        setting, model = self._setting, self._setting.model
        weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.SGD(weights, self.learning_rate, self.momentum)
        losses = []
        optimizer.zero_grad(set_to_none=True)
        with self.hlop.suspended(), training(model), apart(model, setting.seed, "replay", task.index):
            for batch in self._batches(task):
                for update in setting.rule.updates(model, batch, setting.objective, lambda outputs, seen: None):
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)  # the next update may be another tick of the same batch
                    losses.append(update.loss)
        self._cost.count(self.epochs * len(self._memory))
        if not bool(torch.isfinite(torch.stack(losses)).all()):
            raise DivergedError(
                f"The loss of replay after task {task.index + 1} ({task.name}) is not finite; "
                f"lower strategy.learning_rate and run again."
            )

    def _batches(self, task: Task) -> Iterator[Batch]:
        """Give all that is kept, in as many epochs, each in an order of its own."""
        setting = self._setting
        competing = competing_rows(setting.sequence, task, self._memory.layout.device)
        for epoch in range(self.epochs):
            generator = stream(setting.seed, "memory", "draw replay", task.index, epoch)
            for chosen in torch.randperm(len(self._memory), generator=generator).split(self.batch_size):
                batch, _ = self._memory.take(chosen)
                assert batch.active is not None
                yield batch._replace(active=batch.active | competing)

    def predict(self, model: nn.Module, inputs: Tensor, task: int | None = None) -> Tensor:
        """Give HLOP's logits."""
        return self.hlop.predict(model, inputs, task)

    def state_dict(self) -> dict[str, Tensor]:
        """Give HLOP's state, the memory and its counter."""
        return (
            {f"hlop.{name}": part for name, part in self.hlop.state_dict().items()}
            | {f"memory.{name}": part for name, part in self._memory.state_dict().items()}
            | {"passed": self._cost.state()}
        )

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back.

        Raises:
            ValueError: if a part is missing or left over.
        """
        own = {
            prefix: {name.removeprefix(prefix): part for name, part in state.items() if name.startswith(prefix)}
            for prefix in ("hlop.", "memory.")
        }
        unknown = [name for name in state if name != "passed" and not name.startswith(tuple(own))]
        if unknown:
            raise ValueError(f"The state of {self.name} has no parts {unknown}.")
        self._cost.load(state)
        self._memory.load_state_dict(own["memory."])
        self.hlop.load_state_dict(own["hlop."])

    def ranks(self) -> list[LayerRank]:
        """Give what HLOP's layers hold."""
        return self.hlop.ranks()

    def notices(self) -> list[str]:
        """Give HLOP's notices."""
        return self.hlop.notices()

    @property
    def stored_bytes(self) -> int:
        """Bytes of HLOP and of the samples kept."""
        return self.hlop.stored_bytes + self._memory.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of HLOP and of the extra training, the latter counted densely."""
        return self.hlop.operations + self._cost.operations


@contextmanager
def training(model: nn.Module) -> Iterator[None]:
    """Put every module in training mode, and give each its own mode back."""
    modes = {module: module.training for module in model.modules()}
    model.train()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
