"""A-GEM: averaged gradient episodic memory (Chaudhry, Ranzato, Rohrbach, Elhoseiny 2019).

At a task's end m = M/T of its samples are kept. At every later step g_ref is the gradient on a random batch of them,
at the weights of that step, and g may not raise that loss to first order:

    g ← g − (g·g_ref / (g_ref·g_ref + ε)) g_ref    if g·g_ref < 0, else g is left to the bit          ε = 1e-7

g_ref comes from the run's own learning rule (through surrogate gradients where neurons spike, under a tick rule the
sum over the ticks) and objective. Its pass neither moves norm statistics nor the random streams of training. A
parameter without a gradient counts as 0. Dot products are taken in single precision at least. Samples keep the rows
of the head they competed among, so no task's number is needed beyond the boundaries.

Deliberate differences: under a rule that steps at every tick, each step is checked against a g_ref of its own. The
gradient is projected, not the update: with momentum, weight decay or Adam the step itself can still point against
g_ref, as in the paper.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from continual.batches import Batch, TrainingData
from continual.memory import Memory, check_capacity, layout_of
from continual.memory_policies import Reservoir, balanced_selection, random_keys
from continual.scenarios import Task
from continual.seeding import apart, stream
from continual.strategies.replay_stream import PassCost, competing_rows
from continual.strategies.strategy import Setting, Strategy
from neuro.learning import Objective, Rule

EPSILON = 1e-7


class AGEM(Strategy):
    """Keep gradients from raising the loss on old samples.

    Args:
        capacity: M, samples in the memory, M/T of each task; 0 is naive training.
        capacity_bytes: bytes of the memory, instead of M.
        reference_size: samples of a reference batch; all there are if there are fewer.
        class_balanced: keep as many samples of each class of a task, within one, instead of drawing uniformly.

    Raises:
        ValueError: if a number is out of range, or not exactly one capacity is given.
    """

    name = "agem"
    needs_boundaries = True

    def __init__(
        self,
        capacity: int | None = 500,
        capacity_bytes: int | None = None,
        reference_size: int = 256,
        class_balanced: bool = False,
    ) -> None:
        check_capacity(capacity, capacity_bytes)
        if reference_size < 1:
            raise ValueError(f"reference_size must be at least 1, got {reference_size}.")
        self.capacity, self.capacity_bytes = capacity, capacity_bytes
        self.reference_size, self.class_balanced = int(reference_size), bool(class_balanced)

    def attach(self, setting: Setting) -> None:
        """Make the memory.

        Raises:
            ValueError: if it does not hold a sample of each task.
        """
        layout, num_tasks = layout_of(setting.model, setting.sequence), len(setting.sequence.tasks)
        self._setting = setting
        self._memory = Memory(layout, Reservoir(), self.capacity, self.capacity_bytes)  # filled, never overfilled
        self._per_task = self._memory.capacity // num_tasks
        if self._memory.capacity > 0 and self._per_task == 0:
            raise ValueError(
                f"A-GEM keeps samples of each of {num_tasks} tasks, got room for {self._memory.capacity}; "
                f"make it larger, or 0 for no memory."
            )
        self._cost, self._projections = PassCost(setting), 0
        self._num_weights = sum(p.numel() for p in setting.model.parameters() if p.requires_grad)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Begin the task's random streams."""
        self._task, self._steps = task, 0
        self._draws = stream(self._setting.seed, "memory", "draw reference", task.index)
        self._competing = competing_rows(self._setting.sequence, task, self._memory.layout.device)

    def after_backward(self, model: nn.Module) -> None:
        """Project the gradient where it conflicts with the one on old samples."""
        if len(self._memory) == 0:
            return
        batch, _ = self._memory.draw(self.reference_size, self._draws)
        assert batch.active is not None
        batch = batch._replace(active=batch.active | self._competing)
        setting = self._setting
        with apart(model, setting.seed, "reference", self._task.index, self._steps):
            reference = reference_gradients(model, batch, setting.rule, setting.objective)
        project_conflict(list(model.parameters()), reference)
        self._cost.count(len(batch.targets))
        self._steps, self._projections = self._steps + 1, self._projections + 1

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Keep samples of the task."""
        generator = stream(self._setting.seed, "memory", "insert", task.index)
        if self.class_balanced:
            keys = random_keys(len(data), generator).to(data.targets.device)
            chosen = balanced_selection(data.targets, keys, self._per_task).nonzero().flatten()
        else:
            chosen = torch.randperm(len(data), generator=generator)[: self._per_task].to(data.targets.device)
        active = data.active if data.active.ndim == 1 else data.active[chosen]
        batch = Batch(data.inputs[chosen], data.targets[chosen], active, data.task[chosen])
        self._memory.insert(batch, generator)

    def state_dict(self) -> dict[str, Tensor]:
        """Give the memory and its counters."""
        counted = {"passed": self._cost.state(), "projections": torch.tensor(self._projections, dtype=torch.int64)}
        return self._memory.state_dict() | counted

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        if "projections" not in state:
            raise ValueError(f"The state needs a part 'projections', got {sorted(state)}.")
        self._cost.load(state)
        self._projections = int(state["projections"])
        counted = ("passed", "projections")
        self._memory.load_state_dict({name: part for name, part in state.items() if name not in counted})

    @property
    def stored_bytes(self) -> int:
        """Bytes of the samples held."""
        return self._memory.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of the reference gradients, counted densely, and of the projections (3 a weight)."""
        return self._cost.operations + 3 * self._num_weights * self._projections


def reference_gradients(model: nn.Module, batch: Batch, rule: Rule, objective: Objective) -> list[Tensor | None]:
    """Give the gradient a rule finds for a batch, per parameter; `.grad` and norm statistics stay as they are.

    Args:
        model: in the mode of training.
        batch: of old samples.
        rule: how gradients arise; of one that yields at every tick, the sum.
        objective: what is minimised.
    """
    parameters = list(model.parameters())
    own = [parameter.grad for parameter in parameters]
    found: list[Tensor | None] = [None] * len(parameters)
    with statistics_kept(model):
        for parameter in parameters:
            parameter.grad = None
        try:
            for _ in rule.updates(model, batch, objective, lambda outputs, prepared: None):
                for place, parameter in enumerate(parameters):
                    before, now = found[place], parameter.grad
                    found[place] = before if now is None else now if before is None else before + now
                    parameter.grad = None
        finally:
            for parameter, gradient in zip(parameters, own, strict=True):
                parameter.grad = gradient
    return found


@torch.no_grad()
def project_conflict(parameters: list[nn.Parameter], reference: list[Tensor | None]) -> None:
    """Take out of the gradients their part against the reference, where the two conflict.

    Args:
        parameters: with their gradients; one without counts as 0, and gets one where the reference has one.
        reference: gradients of the same parameters; None counts as 0.
    """
    pairs = [(p, p.grad, other) for p, other in zip(parameters, reference, strict=True) if other is not None]
    if not pairs:
        return
    exact = torch.promote_types(parameters[0].dtype, torch.float32)
    squares = torch.stack([other.to(exact).square().sum() for _, _, other in pairs]).sum()
    products = [(own.to(exact) * other.to(exact)).sum() for _, own, other in pairs if own is not None]
    product = torch.stack(products).sum() if products else torch.zeros_like(squares)
    share = product / (squares + EPSILON)
    for parameter, own, other in pairs:
        own = own if own is not None else torch.zeros_like(other)
        projected = (own.to(exact) - share * other.to(exact)).to(own.dtype)
        parameter.grad = torch.where(product < 0, projected, own)


@contextmanager
def statistics_kept(model: nn.Module) -> Iterator[None]:
    """Give norm layers their running statistics back afterwards."""
    norms = [module for module in model.modules() if getattr(module, "track_running_stats", False)]
    buffers = [buffer for module in norms for buffer in module.buffers(recurse=False)]
    saved = [buffer.clone() for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(buffers, saved, strict=True):
                buffer.copy_(value)
