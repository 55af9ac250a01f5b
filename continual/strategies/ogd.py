"""OGD: orthogonal gradient descent (Farajtabar, Azizan, Mott, Li, AISTATS 2020).

At a task's end the gradients of the network's own outputs, ∂z_y(x)/∂θ, of n samples are made orthonormal by
Gram-Schmidt and kept as directions v of the whole parameter space. Later gradients leave their span, so that to first
order in the step no old sample's output moves:

    g ← g − Σ_v ⟨g, v⟩ v

z_y is the logit of the true label; `EveryLogit` keeps one direction per competing row, `MeanLogit` that of their mean.
The gradients are plain ones, through surrogate derivatives where neurons spike (`surrogate_logit_gradients`), whatever
rule trains. Memory is directions × parameters; nothing forgets it: a notice says how much it will become. The task's
number is needed at the boundaries alone.

Deliberate differences: where the optimiser is not linear in the gradient, the applied update is projected; θ is every
parameter that tasks share, biases and affine parameters of norm layers too, so none of these is frozen, but running
statistics of norm layers are, from the second task on: they are no parameters and would move outputs by themselves. A
gradient that is a combination of those before, but for rounding, gives no direction.
"""

import numpy as np
import torch
from torch import Tensor, nn

from continual.batches import TrainingData, as_tensors, training_rows
from continual.importance import precision_of
from continual.importance.estimator import choose
from continual.output_directions import Outputs, TrueLogit
from continual.pass_cost import forward_operations
from continual.per_sample import per_sample_gradients, require_per_sample
from continual.quadratic_penalty import shared_parameters
from continual.scenarios import Task
from continual.seeding import apart, stream
from continual.strategies.projecting import require_parts
from continual.strategies.strategy import LayerRank, Setting, Strategy
from neuro.lateral import freeze_statistics, linear_in_gradient
from neuro.neurons import Neuron


class OGD(Strategy):
    """Project learning away from the output gradients of old samples.

    Args:
        num_samples: n, samples of a task whose gradients are kept, drawn by seed; 0 is naive training.
        outputs: whose gradients: `TrueLogit`, `EveryLogit` or `MeanLogit`.
        chunk_size: samples whose gradients are formed at a time; None keeps them below 64 MiB.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "ogd"
    needs_boundaries = True

    def __init__(self, num_samples: int = 200, outputs: Outputs | None = None, chunk_size: int | None = None) -> None:
        if num_samples < 0:
            raise ValueError(f"num_samples must be 0 or more, got {num_samples}.")
        if chunk_size is not None and chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1, got {chunk_size}.")
        self.num_samples, self.chunk_size = int(num_samples), chunk_size
        self.outputs = outputs if outputs is not None else TrueLogit()

    def attach(self, setting: Setting) -> None:
        """Begin with no direction.

        Raises:
            ValueError: if tasks share no parameter, or per-sample gradients cannot be had.
        """
        model, sequence = setting.model, setting.sequence
        self._setting, self._names = setting, shared_parameters(model, setting.head, sequence)
        if self.num_samples and not self._names:
            raise ValueError("Tasks share no parameter that trains, so there is no gradient to keep; share the head.")
        if self.num_samples:
            reference = next(model.parameters())
            one, _ = as_tensors(sequence.tasks[0].train.select(np.array([0])), reference.device, reference.dtype)
            with apart(model, 0, "fit"):
                require_per_sample(model, self._names, one)
        self._shared = [model.get_parameter(name) for name in self._names]
        width = sum(parameter.numel() for parameter in self._shared)
        precision = precision_of(self._shared[0]) if self._shared else torch.float32
        self._directions = torch.zeros(0, width, dtype=precision, device=next(model.parameters()).device)
        self._on_gradient, self._num_tasks, self._spent = True, 0, 0
        self._anchors: list[Tensor] = []
        self._summary: list[LayerRank] = []

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Choose the side of the projection and tell the head's rows apart."""
        self._on_gradient = linear_in_gradient(optimizer)
        head = self._setting.model.get_submodule(self._setting.head)
        self._head = list(head.parameters(recurse=False)) if self._protects else []
        self._still = ~training_rows(self._setting.sequence, task).to(self._directions.device)
        moving = [*self._shared, *self._head] if self._protects and not self._on_gradient else []
        self._anchors = [parameter.detach().clone() for parameter in moving]

    @property
    def _protects(self) -> bool:
        return self._num_tasks > 0 and self.num_samples > 0

    @torch.no_grad()
    def after_backward(self, model: nn.Module) -> None:
        """Project the gradient, where the optimiser is linear in it."""
        if not self._protects or not self._on_gradient:
            return
        for parameter in self._head:
            if parameter.grad is not None:
                parameter.grad[self._still] = 0
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._shared]
        for parameter, projected in zip(self._shared, self._projected(gradients), strict=True):
            parameter.grad = projected

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Project the applied update, where it is not."""
        if not self._protects or self._on_gradient:
            return
        anchors = self._anchors[len(self._shared) :]
        for parameter, anchor in zip(self._head, anchors, strict=True):
            parameter[self._still] = anchor[self._still]
            anchor.copy_(parameter)
        anchors = self._anchors[: len(self._shared)]
        changes = self._projected([p - anchor for p, anchor in zip(self._shared, anchors, strict=True)])
        for parameter, anchor, change in zip(self._shared, anchors, changes, strict=True):
            parameter.copy_(anchor.add_(change))

    def _projected(self, parts: list[Tensor]) -> list[Tensor]:
        """Take the kept directions out of a vector that comes in the shapes of the shared parameters."""
        self._spent += 2 * self._directions.numel()
        flat = torch.cat([part.flatten() for part in parts]).to(self._directions.dtype)
        left = flat - (self._directions @ flat) @ self._directions
        pieces = left.split([part.numel() for part in parts])
        return [piece.view_as(part).to(part.dtype) for piece, part in zip(pieces, parts, strict=True)]

    @torch.no_grad()
    def after_task(self, task: Task, data: TrainingData) -> None:
        """Keep the directions of the task's samples."""
        if self.num_samples:
            before = len(self._directions)
            gradients = self._output_gradients(task, data)
            self._directions = gram_schmidt(self._directions, gradients)
            added = len(self._directions) - before
            self._spent += 4 * len(gradients) * self._directions.numel()
            layer = LayerRank("shared parameters", before + added, self._directions.shape[1], added, 1.0)
            self._summary = [layer]
            freeze_statistics(self._setting.model)
        self._num_tasks += 1

    def _output_gradients(self, task: Task, data: TrainingData) -> Tensor:
        """Give the gradients of the chosen outputs of the drawn samples, [m, parameters]."""
        setting, model = self._setting, self._setting.model
        chosen = choose(data, self.num_samples, stream(setting.seed, "consolidation", task.index))
        step, rows = self.outputs(chosen), []
        with apart(model, setting.seed, "consolidation", task.index):
            for found in per_sample_gradients(
                model,
                self._names,
                step.score,
                chosen.inputs,
                chosen.active,
                *step.extras,
                num_scores=step.num_scores,
                chunk_size=self.chunk_size,
            ):
                parts = [
                    found[name].reshape(-1, parameter.numel())
                    for name, parameter in zip(self._names, self._shared, strict=True)
                ]
                rows.append(torch.cat(parts, 1).to(self._directions.dtype))
        self._spent += len(chosen) * (1 + 2 * step.num_scores) * forward_operations(model, setting.sequence)
        return torch.cat(rows)

    def state_dict(self) -> dict[str, Tensor]:
        """Give the directions and counters."""
        return {
            "counters": torch.tensor([self._num_tasks, self._spent], dtype=torch.int64),
            "directions": self._directions,
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        require_parts(state, {"counters": (2,), "directions": (None, self._directions.shape[1])})
        self._num_tasks, self._spent = (int(count) for count in state["counters"])
        self._directions = state["directions"].to(self._directions)
        if self._protects:
            freeze_statistics(self._setting.model)

    def ranks(self) -> list[LayerRank]:
        """Give how many directions of the shared parameters are taken."""
        return self._summary

    def notices(self) -> list[str]:
        """Say, before anything is learned, whose gradients are kept and how much memory they will take."""
        if self._num_tasks or not self.num_samples:
            return []
        sequence, width = self._setting.sequence, self._directions.shape[1]
        competing = [int(training_rows(sequence, task).sum()) for task in sequence.tasks]
        samples = [min(self.num_samples, len(task.train)) for task in sequence.tasks]
        most = sum(n * self.outputs.per_sample(rows) for n, rows in zip(samples, competing, strict=True))
        mebibytes = min(most, width) * width * self._directions.element_size() / 2**20
        spiking = any(isinstance(module, Neuron) and module.is_spiking for module in self._setting.model.modules())
        kind = "surrogate_logit_gradients" if spiking else "logit_gradients"
        return [f"OGD keeps up to {min(most, width)} {kind} of {width} parameters: {mebibytes:.1f} MiB in the end."]

    @property
    def stored_bytes(self) -> int:
        """Bytes of the directions, and of the anchors that applied updates are measured from."""
        return self._directions.nbytes + sum(anchor.nbytes for anchor in self._anchors)

    @property
    def operations(self) -> int:
        """Multiply-accumulates of forming and orthogonalising gradients, counted densely, and of projecting."""
        return self._spent


def gram_schmidt(basis: Tensor, vectors: Tensor) -> Tensor:
    """Add vectors to an orthonormal basis, each deflated twice and made a unit vector.

    What is left of a vector is dropped where it is no longer than the rounding of the whole.

    Args:
        basis: orthonormal rows [k, P].
        vectors: [m, P].

    Returns:
        The basis with up to m rows more, [k', P]; those it had are the same to the bit.
    """
    held, count = torch.cat([basis, torch.zeros_like(vectors)]), len(basis)
    tolerance = 100 * torch.finfo(vectors.dtype).eps
    for vector in vectors:
        left = vector
        for _ in range(2):
            left = left - (held[:count] @ left) @ held[:count]
        length = torch.linalg.vector_norm(left)
        if length > tolerance * torch.linalg.vector_norm(vector) and count < held.shape[1]:
            held[count] = left / length
            count += 1
    return held[:count].clone()
