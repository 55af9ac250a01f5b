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

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from neuro.lateral.learning import HebbianAccumulated, SubspaceLearning
from neuro.lateral.projection import AnyProjector
from neuro.lateral.sizes import EnergyShare, Place, Sizes
from neuro.lateral.subspace import Consolidation, LateralSubspace
from neuro.lateral.taps import WeightSite, evaluating, modules_of, tapped, weight_sites

Presynaptic = Callable[[str, Tensor], Tensor]
"""From a layer's name and its input over time [T, B, ...] to what a learning rule takes for presynaptic, time first."""


@runtime_checkable
class ProjectsRows(Protocol):
    """The role of a synapse that can project its presynaptic rows inside its own backward."""

    projectors: Sequence[AnyProjector | None] | None

    def take_projected_rows(self) -> int:
        """Give how many rows were projected since the last call."""
        ...


class HeadRows(NamedTuple):
    """Rows of the head in the current task, each [classes] of booleans.

    Attributes:
        shared: trained by an earlier task too, so updates to them are projected.
        active: trained now; all others stand still.
    """

    shared: Tensor
    active: Tensor


class Operations(NamedTuple):
    """Multiply-accumulates spent so far."""

    learning: int = 0
    projecting: int = 0


def linear_in_gradient(optimizer: torch.optim.Optimizer) -> bool:
    """Tell whether an optimiser's update is linear in the gradient: SGD without weight decay."""
    return isinstance(optimizer, torch.optim.SGD) and all(
        group["weight_decay"] == 0 for group in optimizer.param_groups
    )


def last_linear(model: nn.Module) -> str:
    """Give the name of the last linear layer, which is the head unless the user names another.

    Raises:
        ValueError: if there is none.
    """
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not names:
        raise ValueError("The network has no linear layer that could be its head; name the head's module.")
    return names[-1]


def subspace_of(site: WeightSite, learning: SubspaceLearning) -> LateralSubspace:
    """Make the subspace of a weight on its device, in single precision at least."""
    precision = torch.promote_types(site.weight.dtype, torch.float32)
    return LateralSubspace(site.width, learning, site.weight.device, precision)


class Protection:
    """Lateral subspaces for every weight of a network; see the head of this file.

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
        learning = learning if learning is not None else HebbianAccumulated()
        self.model, self.sizes, self.trace_side, self.seed = model, sizes or EnergyShare(), trace_side, seed
        self.presynaptic, self.max_rows = presynaptic, max_rows
        self.head_name = head if head is not None else last_linear(model)
        sites = weight_sites(model)
        if self.head_name not in {site.name for site in sites if isinstance(site.module, nn.Linear)}:
            raise ValueError(
                f"There is no linear layer {self.head_name!r}; choose from {', '.join(s.name for s in sites)}."
            )
        self.head = next(site for site in sites if site.name == self.head_name)
        self.sites = [site for site in sites if shared_head or site.name != self.head_name]
        self.subspaces = {site.name: subspace_of(site, learning) for site in self.sites}
        self.sizes.check([site.name for site in self.sites], [site.width for site in self.sites], None)
        self._spiking = learning.spikes is not None
        if self._spiking:
            require_row_side(self.sites, trace_side)
        classes = self.head.weight.shape[0]
        everywhere = torch.ones(classes, dtype=torch.bool, device=self.head.weight.device)
        self.rows = HeadRows(everywhere if shared_head else ~everywhere, everywhere)
        self.num_tasks, self.operations = 0, Operations()
        self._places: dict[str, Place] = {}
        self._observed: dict[str, int] = {}
        self._anchors: dict[str, Tensor] = {}
        self._used: str | None = None

    @property
    def ranks(self) -> dict[str, int]:
        """Frozen rows per protected layer."""
        return {name: subspace.rank for name, subspace in self.subspaces.items()}

    @property
    def stored_bytes(self) -> int:
        """Bytes held between tasks: subspaces and, with `after_step`, the anchors."""
        anchors = sum(anchor.nbytes for anchor in self._anchors.values())
        return anchors + sum(subspace.stored_bytes for subspace in self.subspaces.values())

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
        device = self.head.weight.device
        self.rows = HeadRows(rows.shared.to(device), rows.active.to(device))
        if self.num_tasks and self.trace_side:
            self._put_projectors()

    @torch.no_grad()
    def after_backward(self) -> None:
        """Project the gradients, from task 2 on. For optimisers that are linear in the gradient."""
        self._use("after_backward")
        if self.num_tasks == 0:
            return
        for site in self.sites:
            projector = self.subspaces[site.name].projector
            if projector is None or site.weight.grad is None:
                continue
            if self._on_trace_side(site):
                self._count(projector, site.module.take_projected_rows())  # pyright: ignore[reportCallIssue]
            else:
                self._project(site, projector, site.weight.grad)
        for parameter in self._head_parameters():
            if parameter.grad is not None:
                parameter.grad[self._still(parameter)] = 0

    @torch.no_grad()
    def after_step(self) -> None:
        """Project the update that the optimiser has applied, from task 2 on. For any optimiser.

        Raises:
            RuntimeError: if `after_backward` was used too, or rows are projected on the trace side.
        """
        self._use("after_step")
        if self.trace_side:
            raise RuntimeError(
                "trace_side projects gradients already; use after_backward, or build with trace_side=False."
            )
        if self.num_tasks == 0:
            return
        for site in self.sites:
            projector = self.subspaces[site.name].projector
            if projector is not None:
                weight, anchor = site.part(site.weight), self._anchors[site.name]
                change = weight - anchor
                self._project_part(site, projector, change)
                weight.copy_(anchor.add_(change))
        for name, parameter in self.head.module.named_parameters(recurse=False):
            still, anchor = self._still(parameter), self._anchors[f"head {name}"]
            parameter[still] = anchor[still]
            anchor.copy_(parameter)

    def set_trace_side(self, enabled: bool) -> None:
        """Switch the projection of rows inside our own synapses' backward on or off.

        Raises:
            ValueError: if lateral neurons spike and it is to be switched off.
        """
        if self._spiking:
            require_row_side(self.sites, enabled)
        if enabled != self.trace_side:
            self.trace_side, self._used = enabled, None
            for site in self.sites:
                if isinstance(site.module, ProjectsRows):
                    site.module.projectors = None
            if self.num_tasks:
                self._install()

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
        calls: dict[str, list[Tensor]] = {}
        try:
            with (
                evaluating(self.model),
                tapped(modules_of(self.sites), lambda name, seen: calls.setdefault(name, []).append(seen)),
            ):
                self.model(inputs)
            with torch.no_grad():
                for site in self.sites:
                    self._show(site, torch.cat(calls[site.layer]), len(inputs))
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
            self.operations = self.operations._replace(learning=self.operations.learning + spent)
        self.num_tasks += 1
        self._install()
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
        self.num_tasks, *spent = (int(count) for count in state["counters"])
        self.operations = Operations(*spent)
        if self.num_tasks:
            self._install()

    def _use(self, call: str) -> None:
        if self._used not in (None, call):
            raise RuntimeError(
                f"Both {self._used} and {call} were called; a projection is applied once: use one of them."
            )
        self._used = call

    def _stream(self, index: int) -> torch.Generator:
        """Give a stream that depends on the seed, the task and the layer alone."""
        return torch.Generator().manual_seed(self.seed * 1_000_003 + self.num_tasks * 1009 + index)

    def _show(self, site: WeightSite, inputs: Tensor, batch_size: int) -> None:
        """Cut a layer's input of one batch into rows and show them to its block."""
        if self.presynaptic is not None and len(inputs) % batch_size == 0:
            over_time = inputs.unflatten(0, (-1, batch_size))
            inputs = self.presynaptic(site.layer, over_time).flatten(0, 1)
        rows = site.rows(inputs, self.max_rows, self._choice)
        self._observed[site.name] += rows.shape[0]
        try:
            self.subspaces[site.name].learn(rows)
        except ValueError as problem:
            raise ValueError(f"Layer {site.name!r}: {problem}") from problem

    def _install(self) -> None:
        """Put the protection of the tasks so far into force."""
        freeze_unprotected(self.model, self.sites, self.head.module)
        self._anchors = {}
        if self.trace_side:
            self._put_projectors()
        elif self._used != "after_backward":
            anchors = {site.name: site.part(site.weight) for site in self.sites}
            anchors |= {f"head {name}": p for name, p in self.head.module.named_parameters(recurse=False)}
            self._anchors = {name: parameter.detach().clone() for name, parameter in anchors.items()}

    def _put_projectors(self) -> None:
        """Hand every synapse that projects rows itself the projectors of its groups."""
        for site in self.sites:
            if isinstance(site.module, ProjectsRows) and site.group == 0:
                groups = [other for other in self.sites if other.module is site.module]
                found = [self.subspaces[other.name].projector for other in groups]
                on = self._on_trace_side(site) and any(projector is not None for projector in found)
                site.module.projectors = found if on else None

    def _on_trace_side(self, site: WeightSite) -> bool:
        """Tell whether a synapse projects for itself: ours do, and of the head one whose rows are all shared."""
        whole = site.name != self.head_name or bool(self.rows.shared.all())
        return self.trace_side and whole and isinstance(site.module, ProjectsRows)

    def _project(self, site: WeightSite, projector: AnyProjector, change: Tensor) -> None:
        """Project a gradient or an update of the whole weight in place."""
        self._project_part(site, projector, site.part(change))

    def _project_part(self, site: WeightSite, projector: AnyProjector, change: Tensor) -> None:
        """Project a group's part [out, ...] in place; of the head only the rows that tasks share."""
        if projector.rows_only:
            raise RuntimeError(f"Layer {site.name!r}: spiking lateral neurons cannot project a gradient or an update.")
        rows = self.rows.shared if site.name == self.head_name else slice(None)
        chosen = change[rows]
        change[rows] = projector(chosen.flatten(1)).view_as(chosen)
        self._count(projector, chosen.shape[0])

    def _count(self, projector: AnyProjector, num_rows: int) -> None:
        spent = projector.multiply_accumulates(num_rows)
        self.operations = self.operations._replace(projecting=self.operations.projecting + spent)

    def _head_parameters(self) -> list[nn.Parameter]:
        return list(self.head.module.parameters(recurse=False))

    def _still(self, parameter: Tensor) -> Tensor:
        """Give which rows of a head parameter stand still: inactive ones, and shared ones of a bias."""
        return ~self.rows.active if parameter.ndim > 1 else ~self.rows.active | self.rows.shared


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


def freeze_unprotected(model: nn.Module, sites: Iterable[WeightSite], head: nn.Module) -> list[str]:
    """Freeze every parameter that is neither a protected weight nor the head's, and all norm statistics.

    Statistics stay frozen however often the model's mode is switched.

    Returns:
        Names of the frozen parameters.
    """
    trained = {id(site.weight) for site in sites} | {id(parameter) for parameter in head.parameters(recurse=False)}
    frozen = []
    for name, parameter in model.named_parameters():
        if id(parameter) not in trained:
            parameter.requires_grad_(False)
            parameter.grad = None
            frozen.append(name)
    for module in model.modules():
        if getattr(module, "track_running_stats", False) and not hasattr(module, "keeps_statistics"):
            module.keeps_statistics = module.register_forward_pre_hook(_in_evaluation_mode)  # pyright: ignore[reportArgumentType]
    return frozen


def _in_evaluation_mode(module: nn.Module, _inputs: object) -> None:
    module.eval()
