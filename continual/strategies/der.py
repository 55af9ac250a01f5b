"""DER and DER++: dark experience replay (Buzzega, Boschini, Porrello, Abati, Calderara 2020).

The memory keeps the logits z' with which the network answered a sample when it was stored, and later answers are held
to them; DER++ holds to the labels too, on a draw of its own:

    mean CE(x, y)  +  α · mean (z(x') − z')²  +  β · mean CE(x'', y'')            β = 0 is DER

The squares are averaged over the logit columns that existed for the sample when it was stored (the head rows it
competed among) and then over samples. Logits are those of the training pass itself, in training mode, as in the
paper's code. α = 0, β = 1 is ER with the form `Sum`, on the same draws. Needs no task's number.

Under a rule that scores every tick (OTTT, SLTT, e-prop), z' is the mean of the outputs over the ticks of the batch,
which is what the network answers, and every tick's outputs are held to it, 1/T each: the same the rule does to the
cross-entropy, and more than the paper asks (outputs that scatter around z' over the ticks cost too).

Deliberate differences: all three groups go through the network in one batch, so norm layers see them at once, and
the rows held to logits have weight 0 in the cross-entropy. All epochs of a task are offered by default, as in the
paper, so that logits come from the whole trajectory; a sample may then be held more than once.
"""

import torch
from torch import Tensor

from continual.batches import Batch, TrainingData
from continual.memory import Memory, check_capacity, layout_of
from continual.memory_policies import Policy, Reservoir
from continual.scenarios import Task
from continual.strategies.replay_stream import (
    Replayed,
    ReplayStream,
    check_replay,
    equal_weights,
    joined,
    require_weights,
)
from continual.strategies.strategy import Setting, Strategy


class DER(Strategy):
    """Replay samples with the logits they once had.

    Args:
        capacity: M, samples in the memory; 0 is naive training.
        capacity_bytes: bytes of the memory, instead of M.
        alpha: α, weight of the logits.
        beta: β, weight of the labels; 0 for DER.
        replay_size: samples per batch of each draw; None for as many as the batch has.
        policy: which samples the memory holds; by default `Reservoir`.
        insert_epochs: in how many first epochs of a task its batches are offered to the memory; None for all.
        start_at_task: first task, counted from 1, in which anything is replayed; the memory fills before.

    Raises:
        ValueError: if a number is out of range, or not exactly one capacity is given.
    """

    def __init__(
        self,
        capacity: int | None = 500,
        capacity_bytes: int | None = None,
        alpha: float = 0.2,
        beta: float = 0.5,
        replay_size: int | None = None,
        policy: Policy | None = None,
        insert_epochs: int | None = None,
        start_at_task: int = 1,
    ) -> None:
        check_capacity(capacity, capacity_bytes)
        check_replay(replay_size, insert_epochs, start_at_task)
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be 0 or more, got {value}.")
        self.capacity, self.capacity_bytes, self.replay_size = capacity, capacity_bytes, replay_size
        self.alpha, self.beta = float(alpha), float(beta)
        self.policy = policy if policy is not None else Reservoir()
        self.insert_epochs, self.start_at_task = insert_epochs, start_at_task
        self.name = "derpp" if self.beta > 0 else "der"

    def attach(self, setting: Setting) -> None:
        """Make the memory.

        Raises:
            ValueError: if the bytes do not hold one sample, or the objective ignores the weights of samples.
        """
        require_weights(setting, self.name)
        layout = layout_of(setting.model, setting.sequence, with_logits=True)
        memory = Memory(layout, self.policy, self.capacity, self.capacity_bytes)
        self._replay = ReplayStream(setting, memory, self.insert_epochs, self.start_at_task)
        self._matched: Replayed | None = None
        self._answers = Answers(0)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Begin the task's random streams."""
        self._replay.begin(task)
        self._answers = Answers(0)

    def mix(self, batch: Batch) -> Batch:
        """Put samples of the memory behind those of the batch: first those with labels, then those with logits."""
        self._settle()
        num_new = len(batch.targets)
        count = self.replay_size or num_new
        labelled = self._replay.draw("samples", count) if self.beta > 0 else None
        self._matched = self._replay.draw("logits", count) if self.alpha > 0 else None
        self._answers = Answers(num_new if self._replay.offer(batch) else 0)
        groups = [(labelled, self.beta), (self._matched, 0.0)]
        drawn = [(replayed.batch, share) for replayed, share in groups if replayed is not None]
        if not drawn:
            return batch
        batches, shares = zip(*drawn, strict=True)
        counts = (num_new, *(len(replayed.targets) for replayed in batches))
        return joined(batch, batches, equal_weights(counts, (1.0, *shares), batch.inputs))

    def terms(self, outputs: Tensor, batch: Batch) -> Tensor | None:
        """Note the answers to new samples, and hold those to old ones to what they were."""
        self._answers.note(outputs)
        if self._matched is None or self._matched.logits is None:
            return None
        if len(outputs) != len(batch.targets):
            raise ValueError(
                f"{self.name} needs one row of outputs per sample, got {len(outputs)} for {len(batch.targets)}."
            )
        answers = outputs[-len(self._matched.logits) :]
        return self.alpha * squared_distance(answers, self._matched.logits, self._matched.existed)

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Offer the last batch to the memory."""
        self._settle()

    def state_dict(self) -> dict[str, Tensor]:
        """Give the memory and its counters."""
        return self._replay.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        self._replay.load_state_dict(state)

    def _settle(self) -> None:
        """Offer the batch before with the answers to it."""
        self._replay.settle(self._answers.mean)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the samples held, logits among them."""
        return self._replay.memory.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of passing replayed samples through the network and back, counted densely."""
        return self._replay.operations


class Answers:
    """The mean over a batch's ticks of the outputs for its new samples.

    Args:
        num_new: how many samples of the batch are new, the first ones; 0 if nobody will ask for the mean.
    """

    def __init__(self, num_new: int) -> None:
        self._num_new, self._ticks = num_new, 0
        self._sum: Tensor | None = None

    def note(self, outputs: Tensor) -> None:
        """Add the outputs [B, classes] of a tick, or of all ticks at once."""
        if self._num_new > 0:
            new = outputs[: self._num_new].detach()
            self._sum = new if self._sum is None else self._sum + new
            self._ticks += 1

    @property
    def mean(self) -> Tensor | None:
        """The logits [num_new, classes]; None if nothing was noted."""
        return None if self._sum is None else self._sum / self._ticks


def squared_distance(logits: Tensor, wanted: Tensor, existed: Tensor) -> Tensor:
    """Average squares over the columns that existed for each sample, then over samples.

    Args:
        logits: [B, classes].
        wanted: likewise, constant.
        existed: columns to compare, [B, classes] of booleans, at least one a row.
    """
    squares = (logits - wanted).masked_fill(~existed, 0).square().sum(1)
    return (squares / existed.sum(1)).mean()
