"""Protection for anybody's network in anybody's training loop.

    protection = protect(model)                       # once
    loss.backward(); optimizer.step(); protection.after_step()      # every step
    protection.end_task(inputs_of_this_task)          # at each task's end

HLOP (Xiao et al. 2024) in those lines: at a task's end a lateral subspace per weight learns the presynaptic rows of
the task, and from then on no update may have a component in it, so old inputs keep their pre-activations. Everything
that cannot be protected so (biases, norm statistics and affine parameters, embeddings, thresholds) is frozen from
task 2.

`after_step` projects the update that was applied, right for any optimiser. `after_backward` projects the gradient
instead, cheaper, and right only for an optimiser that is linear in it: SGD without weight decay, new for each task.
Use one of them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from neuro.lateral.freezing import HeadRows
from neuro.lateral.guard import ProjectsRows, WeightGuard
from neuro.lateral.learning import HebbianAccumulated, SubspaceLearning
from neuro.lateral.sizes import EnergyShare, Place, Sizes
from neuro.lateral.subspace import Consolidation, LateralSubspace
from neuro.lateral.taps import Presynaptic, WeightSite, presynaptic_inputs


class Operations(NamedTuple):
    """Multiply-accumulates spent so far."""

    learning: int = 0
    projecting: int = 0


def subspace_of(site: WeightSite, learning: SubspaceLearning) -> LateralSubspace:
    """Make the subspace of a weight on its device, in single precision at least."""
    return LateralSubspace(site.width, learning, site.weight.device, site.precision)


class Protection(WeightGuard):
    """A guard whose maps are lateral subspaces, one for every weight; see the head of this file.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> protection = protect(model)
        >>> _ = protection.end_task(torch.rand(16, 4))
        >>> protection.num_tasks
        1

    Args:
        model: the network.
        learning: how subspaces are learned; by default `HebbianAccumulated`.
        sizes: how large they become; by default 95 % of each layer's energy.
        head: name of the last layer; by default the last `nn.Linear`.
        shared_head: whether tasks share rows of the head. If not, the head is left to its tasks: rows that are not
            active stand still, and none is projected.
        trace_side: let our own synapses project presynaptic rows inside their backward where that is cheaper. Only
            with `after_backward`.
        presynaptic: what the learning rule takes for presynaptic; by default each layer's input as it is.
        max_rows: how many rows a layer shows its subspace per batch, chosen by seed; None shows all.
        seed: of the subspaces' random start and of the choice of rows.

    Raises:
        ValueError: if the network has a weight that cannot be protected, the head does not exist, a size does not fit,
            or lateral neurons spike where a layer cannot project rows.
    """

    def __init__(
        self,
        model: nn.Module,
        learning: SubspaceLearning | None = None,
        sizes: Sizes | None = None,
        head: str | None = None,
        shared_head: bool = True,
        trace_side: bool = False,
        presynaptic: Presynaptic | None = None,
        max_rows: int | None = 4096,
        seed: int = 0,
    ) -> None:
        super().__init__(model, head, shared_head, trace_side)
        learning = learning if learning is not None else HebbianAccumulated()
        self.sizes, self.seed = sizes or EnergyShare(), seed
        self.presynaptic, self.max_rows = presynaptic, max_rows
        self.subspaces = {site.name: subspace_of(site, learning) for site in self.sites}
        self.sizes.check([site.name for site in self.sites], [site.width for site in self.sites], None)
        self._spiking = learning.spikes is not None
        if self._spiking:
            require_row_side(self.sites, trace_side)
        self.num_tasks, self._learning_operations = 0, 0
        self._places: dict[str, Place] = {}
        self._observed: dict[str, int] = {}

    @property
    def ranks(self) -> dict[str, int]:
        """Frozen rows per protected layer."""
        return {name: subspace.rank for name, subspace in self.subspaces.items()}

    @property
    def operations(self) -> Operations:
        """Multiply-accumulates of learning and of projecting."""
        return Operations(self._learning_operations, self.projecting)

    @property
    def stored_bytes(self) -> int:
        """Bytes held between tasks: subspaces and, with `after_step`, the anchors."""
        return super().stored_bytes + sum(subspace.stored_bytes for subspace in self.subspaces.values())

    def begin_task(self, rows: HeadRows) -> None:
        """Say which rows of the head the next task trains; without this call all rows are active and shared.

        Raises:
            ValueError: if lateral neurons spike and only a part of a protected head is shared.
        """
        if self._spiking and self.head_name in self.subspaces and 0 < int(rows.shared.sum()) < len(rows.shared):
            raise ValueError(
                f"Spiking lateral neurons project the presynaptic rows of a whole layer, and tasks share only a part "
                f"of the head {self.head_name!r}; let them share all of its rows or none."
            )
        super().begin_task(rows)

    def set_trace_side(self, enabled: bool) -> None:
        """Switch the projection of rows inside our own synapses' backward on or off.

        Raises:
            ValueError: if lateral neurons spike and it is to be switched off.
        """
        if self._spiking:
            require_row_side(self.sites, enabled)
        super().set_trace_side(enabled)

    def end_task(
        self, inputs: Tensor | Iterable[Tensor], batch_size: int = 256, num_batches: int | None = None
    ) -> dict[str, Consolidation]:
        """Learn what this task put before each weight, and freeze it.

        Runs in evaluation mode without gradients; modes come back as they were.

        Args:
            inputs: the task's training inputs [N, ...] as the network takes them, or batches of them.
            batch_size: how a tensor is cut.
            num_batches: how many batches an iterable gives; None makes a list of it.

        Returns:
            What was added, per layer.

        Raises:
            ValueError: if there is no input, or an activity is not finite.
        """
        batches = inputs.split(batch_size) if isinstance(inputs, Tensor) else inputs
        if num_batches is None:
            batches = list(batches)
            num_batches = len(batches)
        if num_batches < 1 or (isinstance(inputs, Tensor) and len(inputs) == 0):
            raise ValueError("A task's end needs at least one input to learn from, got none.")
        self.begin_learning(num_batches)
        for batch in batches:
            self.learn(batch)
        return self.consolidate()

    def begin_learning(self, num_batches: int) -> None:
        """Start a block of lateral neurons in every layer.

        Args:
            num_batches: how many batches they will be shown, which sets the decay of an online rule's rate.
        """
        for index, (name, subspace) in enumerate(self.subspaces.items()):
            subspace.discard()
            self._places[name] = place = Place(self.num_tasks, index, name, subspace.width, subspace.rank)
            subspace.grow(self.sizes.candidates(place), num_batches, self._stream(index))
        self._observed = dict.fromkeys(self.subspaces, 0)
        self._choice = self._stream(len(self.subspaces))

    def learn(self, inputs: Tensor) -> None:
        """Show every layer's presynaptic rows for a batch of inputs to its block.

        Runs in evaluation mode without gradients; modes come back as they were. If the network fails, no block stays
        behind.

        Args:
            inputs: as the network takes them, [B, ...].

        Raises:
            ValueError: if an activity is not finite, naming the layer.
        """
        try:
            for site, seen in presynaptic_inputs(self.model, self.sites, inputs, self.presynaptic):
                self._show(site, seen)
        except BaseException:
            for subspace in self.subspaces.values():
                subspace.discard()
            raise

    def consolidate(self) -> dict[str, Consolidation]:
        """End the task: orthonormalise and freeze what every block has learned, and put the protection into force.

        Returns:
            What was added, per layer.
        """
        summary = {}
        for name, subspace in self.subspaces.items():
            place = self._places[name]
            summary[name] = subspace.consolidate(lambda learned, place=place: self.sizes.keep(place, learned))
            spent = subspace.learning.multiply_accumulates(
                self._observed[name], self.sizes.candidates(place), place.rank, place.width
            )
            self._learning_operations += spent
        self.num_tasks += 1
        self._enforce_subspaces()
        return summary

    def state_dict(self) -> dict[str, Tensor]:
        """Give everything a resumed run needs: the bases and the number of tasks."""
        counters = torch.tensor([self.num_tasks, *self.operations], dtype=torch.int64)
        return {"counters": counters} | {f"basis.{name}": subspace.basis for name, subspace in self.subspaces.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take back what `state_dict` gave; the model must hold the weights of that moment.

        Raises:
            ValueError: if a part is missing or left over.
        """
        wanted = {"counters", *(f"basis.{name}" for name in self.subspaces)}
        if set(state) != wanted:
            raise ValueError(f"The protection's state needs exactly {sorted(wanted)}, got {sorted(state)}.")
        for name, subspace in self.subspaces.items():
            basis = state[f"basis.{name}"]
            if basis.ndim != 2 or basis.shape[1] != subspace.width:
                raise ValueError(f"Layer {name!r} needs a basis [k, {subspace.width}], got {list(basis.shape)}.")
            subspace.freeze(basis.to(subspace.basis))
        self.num_tasks, self._learning_operations, self.projecting = (int(count) for count in state["counters"])
        if self.num_tasks:
            self._enforce_subspaces()

    def _enforce_subspaces(self) -> None:
        self.enforce({name: subspace.projector for name, subspace in self.subspaces.items()})

    def _stream(self, index: int) -> torch.Generator:
        """Give a stream that depends on the seed, the task and the layer alone."""
        return torch.Generator().manual_seed(self.seed * 1_000_003 + self.num_tasks * 1009 + index)

    def _show(self, site: WeightSite, inputs: Tensor) -> None:
        """Cut a layer's input of one batch into rows and show them to its block."""
        rows = site.rows(inputs, self.max_rows, self._choice)
        self._observed[site.name] += rows.shape[0]
        try:
            self.subspaces[site.name].learn(rows)
        except ValueError as problem:
            raise ValueError(f"Layer {site.name!r}: {problem}") from problem


def require_row_side(sites: Sequence[WeightSite], trace_side: bool) -> None:
    """Refuse spiking lateral neurons where only gradients could be projected: their step rounds those to nothing.

    Raises:
        ValueError: naming the layer and the repair.
    """
    foreign = [site.name for site in sites if not isinstance(site.module, ProjectsRows)]
    if foreign:
        raise ValueError(
            f"Spiking lateral neurons project presynaptic rows, and layer {foreign[0]!r} "
            f"cannot; use neuro.Linear or neuro.Conv2d there."
        )
    if not trace_side:
        raise ValueError(
            "Spiking lateral neurons project presynaptic rows, never gradients or updates (their step would round "
            "those to nothing); build with trace_side=True and call after_backward, with SGD without weight decay."
        )


protect = Protection
"""The verb for a script; it takes what `Protection` takes."""
