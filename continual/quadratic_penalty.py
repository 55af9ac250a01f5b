"""A quadratic pull towards old weights, as a gradient in closed form: what EWC, SI and MAS share.

    penalty  s Σ_p A_p (θ_p − c_p)²            gradient  2 s A (θ − c)

No graph is built and the reported loss stays the task's own. A new task adds a term of its own, or moves the anchor:

- `add_term`: Σ_k F_k (θ − θ*_k)² is one quadratic, up to a constant: A = Σ F_k, c = Σ F_k θ*_k / A. Every task keeps
  its own anchor θ*_k in the sum, yet memory and time do not grow with the tasks.
- `move_anchor`: A ← γ A + F, c ← the weights of now.

What is protected is every parameter that trains: weights, biases, affine parameters of norm layers, thresholds and
time constants of neurons, and the head where tasks share rows of it. Running statistics of norm layers are no
parameters, and drift. A head whose rows each belong to one task is left out: an inactive row gets no gradient.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from continual.batches import training_rows
from continual.importance import Estimate, Weights, precision_of
from continual.pass_cost import forward_operations
from continual.scenarios import TaskSequence


class QuadraticPenalty:
    """Importances and anchors of the parameters that tasks share.

    Args:
        model: the network.
        head: name of its head.
        sequence: all tasks.

    Raises:
        ValueError: if tasks share no parameter that trains.
    """

    def __init__(self, model: nn.Module, head: str, sequence: TaskSequence) -> None:
        self.model, self.names = model, shared_parameters(model, head, sequence)
        if not self.names:
            raise ValueError(
                "There is nothing to protect: every parameter that trains belongs to rows of the head that one task "
                "alone uses; share the head (scenario.mode=domain) or put a layer before it."
            )
        self.importance: Weights = {}
        self.anchors: Weights = {}
        self._distances: Weights = {}  # room that every step writes anew: asking for it anew costs more than the pull
        self.num_tasks, self.operations = 0, 0

    @property
    def num_parameters(self) -> int:
        """How many numbers are protected."""
        return sum(self.model.get_parameter(name).numel() for name in self.names)

    @torch.no_grad()
    def add_to_gradients(self, factor: float) -> None:
        """Add factor · A (θ − c) to every gradient; a factor of 0 touches nothing."""
        if factor == 0 or not self.importance:
            return
        for name in self.names:
            parameter = self.model.get_parameter(name)
            if parameter.requires_grad:
                if name not in self._distances:
                    self._distances[name] = torch.empty_like(self.anchors[name])
                distance = torch.sub(parameter, self.anchors[name], out=self._distances[name])
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad.addcmul_(distance, self.importance[name], value=factor)
        self.operations += 2 * self.num_parameters

    def add_term(self, importance: Mapping[str, Tensor]) -> None:
        """Protect the weights of now with an anchor of their own, beside the terms so far."""
        weights = self.weights()
        if not self.importance:
            self.importance, self.anchors = dict(importance), weights
        else:
            for name, new in importance.items():
                total = self.importance[name] + new
                share = torch.where(total > 0, new / total, 0.0)
                self.anchors[name] = torch.lerp(self.anchors[name], weights[name], share)
                self.importance[name] = total
        self.num_tasks += 1

    def move_anchor(self, importance: Mapping[str, Tensor], decay: float = 1.0) -> None:
        """Protect the weights of now instead of those before, with what is left of the importances so far."""
        for name, new in importance.items():
            self.importance[name] = decay * self.importance[name] + new if name in self.importance else new
        self.anchors = self.weights()
        self.num_tasks += 1

    def count(self, found: Estimate, sequence: TaskSequence) -> None:
        """Add what an estimate cost: its passes through the network, counted densely, and its squares."""
        passes = found.passes * forward_operations(self.model, sequence)
        self.operations += passes + found.gradients * self.num_parameters

    def weights(self) -> Weights:
        """Give a copy of the weights of now, in single precision at least."""
        held = {name: self.model.get_parameter(name).detach() for name in self.names}
        return {name: weight.to(precision_of(weight), copy=True) for name, weight in held.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Give everything a resumed run needs."""
        counters = torch.tensor([self.num_tasks, self.operations], dtype=torch.int64)
        held = {f"importance.{name}": tensor for name, tensor in self.importance.items()}
        return {"counters": counters} | held | {f"anchor.{name}": tensor for name, tensor in self.anchors.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state_dict` gave.

        Raises:
            ValueError: if a part is missing, left over, or of another shape.
        """
        num_tasks = int(state["counters"][0]) if "counters" in state else 0
        names = self.names if num_tasks else []
        wanted = {"counters"} | {f"{kind}.{name}" for kind in ("importance", "anchor") for name in names}
        if set(state) != wanted:
            raise ValueError(f"The penalty's state needs exactly {sorted(wanted)}, got {sorted(state)}.")
        for kind, held in (("importance", self.importance), ("anchor", self.anchors)):
            held.clear()
            for name in names:
                parameter, tensor = self.model.get_parameter(name), state[f"{kind}.{name}"]
                if tensor.shape != parameter.shape:
                    raise ValueError(
                        f"The penalty's state has {list(tensor.shape)} for {name!r}, the model {list(parameter.shape)}."
                    )
                held[name] = tensor.to(parameter.device, precision_of(parameter), copy=True)
        self.num_tasks, self.operations = num_tasks, int(state["counters"][1])

    @property
    def stored_bytes(self) -> int:
        """Bytes of importances and anchors."""
        return sum(tensor.nbytes for held in (self.importance, self.anchors) for tensor in held.values())


def shared_parameters(model: nn.Module, head: str, sequence: TaskSequence) -> list[str]:
    """Name the parameters that train and that tasks share: all but a head of which each task has rows of its own."""
    own_head = set() if shares_head(sequence) else {f"{head}.{name}" for name in ("weight", "bias")}
    return [name for name, p in model.named_parameters() if p.requires_grad and name not in own_head]


def shares_head(sequence: TaskSequence) -> bool:
    """Tell whether a row of the head is trained by more than one task."""
    uses = torch.stack([training_rows(sequence, task) for task in sequence.tasks]).sum(0)
    return sequence.mode == "domain" or bool((uses > 1).any())


def overshoot(penalty: QuadraticPenalty, factor: float, optimizer: torch.optim.Optimizer | None) -> float:
    """Give how far a step of plain gradient descent carries the stiffest parameter, in distances to its anchor.

    Above 2 it ends further away than it was, and training diverges. 0 for optimisers that scale gradients themselves.

    Args:
        penalty: that pulls.
        factor: of the pull.
        optimizer: of the last task.
    """
    if not isinstance(optimizer, torch.optim.SGD) or not penalty.importance:
        return 0.0
    stiffest = max(float(importance.max()) for importance in penalty.importance.values())
    return stiffest * factor * max(group["lr"] for group in optimizer.param_groups)


def protection_notices(penalty: QuadraticPenalty, reach: float, measured: str | None = None) -> list[str]:
    """Say, before the first task, by what parameters are weighed and what nothing holds; later, whether it overshoots.

    Args:
        penalty: that protects.
        reach: as `overshoot` gives it.
        measured: name of the estimate.
    """
    if penalty.num_tasks:
        if reach <= 2:
            return []
        return [
            f"The pull overshoots: a step at this learning rate carries the stiffest parameter {reach:.3g} times the "
            f"way to its anchor, and above 2 training diverges; make the strength or the rate {reach / 2:.2g} times "
            f"smaller."
        ]
    found = [f"Parameters are weighed by {measured}."] if measured is not None else []
    moving = [name for name, module in penalty.model.named_modules() if getattr(module, "track_running_stats", False)]
    if moving:
        found.append(
            f"The running statistics of norm layers ({', '.join(moving)}) are no parameters, so nothing holds them: "
            f"every task moves them."
        )
    return found


def require_strength(strength: float) -> float:
    """Give a penalty's strength as a number.

    Raises:
        ValueError: if it is below 0.
    """
    if not strength >= 0:
        raise ValueError(f"strength must be at least 0, got {strength}.")
    return float(strength)
