"""NCM: nearest class mean on frozen features; a control that cannot forget and hardly learns.

Features f(x) are the input of the head (averaged over the ticks of a spiking network), read by a tap. After each task
the mean of every class's features joins what is known of it, and a sample belongs to the class whose mean is nearest:

    logit_c(x) = −‖f(x) − μ_c‖²,    μ_c = Σ f / n over all training samples of class c so far; −∞ for a class not seen

The network learns the first task like any other and then stands still (`learn_first_task`), or stands still from the
start and shows what untrained features are worth. Whatever a strategy gains beyond this control it gains by learning
features after the first task. Source: Mensink, Verbeek, Perronnin, Csurka (2013); as a classifier of continual
learning Rebuffi et al. (2017, iCaRL), whose network goes on learning, whereas here it does not, and whose features
are normalised, whereas here they are not.

Standing still means: gradients are dropped before the optimiser's step and the network is in evaluation mode, so
neither weights, decay nor norm statistics move. The passes of those epochs are made all the same and serve nothing.
"""

import torch
from torch import Tensor, nn

from continual.batches import TrainingData
from continual.pass_cost import FORWARD
from continual.scenarios import Task
from continual.seeding import apart
from continual.strategies.replay_stream import PassCost
from continual.strategies.strategy import Setting, Strategy
from neuro.lateral import evaluating, tapped

BATCH_SIZE = 500


class NCM(Strategy):
    """Predict the class with the nearest mean of frozen features.

    Args:
        learn_first_task: let the network learn the first task; else it stays untrained.
    """

    needs_boundaries = True

    def __init__(self, learn_first_task: bool = True) -> None:
        self.learn_first_task = bool(learn_first_task)
        self.name = "ncm" if self.learn_first_task else "ncm_untrained"

    def attach(self, setting: Setting) -> None:
        """Make room for a mean per class."""
        head = setting.model.get_submodule(setting.head)
        assert isinstance(head, nn.Linear)
        exact = torch.promote_types(head.weight.dtype, torch.float32)
        classes, device = setting.sequence.num_classes, head.weight.device
        self._setting, self._cost = setting, PassCost(setting, FORWARD)
        self._sums = torch.zeros(classes, head.in_features, dtype=exact, device=device)
        self._counts = torch.zeros(classes, dtype=torch.int64, device=device)
        self._classes = torch.arange(classes, device=device)
        self._frozen = False

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Put a network that stands still in evaluation mode for the task."""
        self._frozen = task.index > 0 or not self.learn_first_task
        if self._frozen:
            self._setting.model.eval()

    def after_backward(self, model: nn.Module) -> None:
        """Drop the gradients of a network that stands still."""
        if self._frozen:
            model.zero_grad(set_to_none=True)

    @torch.no_grad()
    def after_task(self, task: Task, data: TrainingData) -> None:
        """Let the task's features join the means."""
        model, seed = self._setting.model, self._setting.seed
        with evaluating(model), apart(model, seed, "consolidation", task.index):
            for inputs, targets in zip(data.inputs.split(BATCH_SIZE), data.targets.split(BATCH_SIZE), strict=True):
                members = targets == self._classes[:, None]
                found = features(model, self._setting.head, inputs).to(self._sums.dtype)
                self._sums = self._sums + members.to(found.dtype) @ found
                self._counts = self._counts + members.sum(1)
        self._cost.count(len(data))

    def predict(self, model: nn.Module, inputs: Tensor, task: int | None = None) -> Tensor:
        """Give minus the squared distance to each class's mean, [B, classes]; minus infinity for a class not seen."""
        found = features(model, self._setting.head, inputs).to(self._sums.dtype)
        means = self._sums / self._counts.clamp(min=1)[:, None]
        distances = torch.cdist(found, means, compute_mode="donot_use_mm_for_euclid_dist")
        return (-distances.square()).masked_fill(self._counts == 0, float("-inf")).to(inputs.dtype)

    def state_dict(self) -> dict[str, Tensor]:
        """Give sums, counts and a counter."""
        return {"sums": self._sums, "counts": self._counts, "passed": self._cost.state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        wanted = {"sums", "counts", "passed"}
        if (
            set(state) != wanted
            or state["sums"].shape != self._sums.shape
            or state["counts"].shape != (len(self._sums),)
        ):
            raise ValueError(
                f"The state of {self.name} needs exactly {sorted(wanted)} of {list(self._sums.shape)}, got "
                f"{ {name: list(part.shape) for name, part in state.items()} }."
            )
        self._sums, self._counts = state["sums"].to(self._sums).clone(), state["counts"].to(self._counts).clone()
        self._cost.load(state)

    @property
    def stored_bytes(self) -> int:
        """Bytes of sums and counts."""
        return self._sums.nbytes + self._counts.nbytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of the passes that collect features, counted densely."""
        return self._cost.operations


def features(model: nn.Module, head: str, inputs: Tensor) -> Tensor:
    """Give the input of the head for a batch, averaged over ticks, [B, n].

    Args:
        model: the network; modes are left to the caller.
        head: name of its head.
        inputs: [B, ...].
    """
    seen: list[Tensor] = []
    with tapped({head: model.get_submodule(head)}, lambda name, rows: seen.append(rows)):
        model(inputs)
    return torch.cat([rows.flatten(0, -2) for rows in seen]).unflatten(0, (-1, len(inputs))).mean(0)
