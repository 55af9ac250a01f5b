"""The path every projection goes by: one linear map per weight, kept away from the updates of any optimiser.

    G ← M(G)      rows of the gradient, where the optimiser is linear in it            after_backward
    W ← W₀ + M(W − W₀)      rows of the update that was applied, W₀ the last anchor      after_step

Whoever protects weights supplies the maps (hard, soft or dense; HLOP learns them) and nothing else: the side of the
projection, the head's rows, what is frozen beside, counting and switching are here. `after_step` is right for any
optimiser; `after_backward` is cheaper, and right only for one that is linear in the gradient: SGD without weight
decay, new for each task. A map is applied once, so only one of them may be used.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from neuro.lateral.freezing import HeadRows, freeze_unprotected, last_linear
from neuro.lateral.projection import AnyProjector
from neuro.lateral.taps import WeightSite, weight_sites


@runtime_checkable
class ProjectsRows(Protocol):
    """The role of a synapse that can project its presynaptic rows inside its own backward."""

    projectors: Sequence[AnyProjector | None] | None

    def take_projected_rows(self) -> int:
        """Give how many rows were projected since the last call."""
        ...


def linear_in_gradient(optimizer: torch.optim.Optimizer) -> bool:
    """Tell whether an optimiser's update is linear in the gradients to come: SGD without weight decay or old momentum.

    Momentum that remembers gradients of an earlier task, which nobody projected, would carry them into later steps.
    """
    return (
        isinstance(optimizer, torch.optim.SGD)
        and all(group["weight_decay"] == 0 for group in optimizer.param_groups)
        and all(kept.get("momentum_buffer") is None for kept in optimizer.state.values())
    )


class WeightGuard:
    """Apply a linear map per weight to every update; see the head of this file.

    Example:
        >>> from neuro.lateral import Projector, WeightGuard
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 2, bias=False))
        >>> guard = WeightGuard(model)
        >>> guard.enforce({"0": Projector(torch.eye(3)[:1])})
        >>> model(torch.ones(1, 3)).sum().backward()
        >>> guard.after_backward()
        >>> model[0].weight.grad.tolist()
        [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]

    Args:
        model: the network.
        head: name of the last layer; by default the last `nn.Linear`.
        shared_head: whether tasks share rows of the head. If not, the head is left to its tasks: rows that are not
            active stand still, and none is projected.
        trace_side: let our own synapses project presynaptic rows inside their backward where that is cheaper. Only
            with `after_backward`.

    Attributes:
        sites: the weights that are guarded.
        maps: in force, by site; a site without one is free.
        projecting: multiply-accumulates spent on projecting so far.

    Raises:
        ValueError: if the network has a weight that cannot be protected, or the head does not exist.
    """

    def __init__(
        self, model: nn.Module, head: str | None = None, shared_head: bool = True, trace_side: bool = False
    ) -> None:
        self.model, self.trace_side = model, trace_side
        self.head_name = head if head is not None else last_linear(model)
        sites = weight_sites(model)
        if self.head_name not in {site.name for site in sites if isinstance(site.module, nn.Linear)}:
            raise ValueError(
                f"There is no linear layer {self.head_name!r}; choose from {', '.join(s.name for s in sites)}."
            )
        self.head = next(site for site in sites if site.name == self.head_name)
        self.sites = [site for site in sites if shared_head or site.name != self.head_name]
        classes = self.head.weight.shape[0]
        everywhere = torch.ones(classes, dtype=torch.bool, device=self.head.weight.device)
        self.rows, self._whole_head = HeadRows(everywhere if shared_head else ~everywhere, everywhere), shared_head
        self.maps: dict[str, AnyProjector | None] = {}
        self.projecting = 0
        self._in_force = self._frozen = False
        self._anchors: dict[str, Tensor] = {}
        self._used: str | None = None

    @property
    def stored_bytes(self) -> int:
        """Bytes of the anchors that `after_step` measures from; the maps belong to who supplies them."""
        return sum(anchor.nbytes for anchor in self._anchors.values())

    def begin_task(self, rows: HeadRows) -> None:
        """Say which rows of the head the next task trains; without this call all rows are active and shared."""
        device = self.head.weight.device
        projected = None if rows.projected is None else rows.projected.to(device)
        self.rows = HeadRows(rows.shared.to(device), rows.active.to(device), projected)
        self._whole_head = bool(self.rows.to_project.all())
        if self._in_force and self.trace_side:
            self._put_projectors()

    def enforce(self, maps: Mapping[str, AnyProjector | None], freeze: bool = True) -> None:
        """Put maps into force for the weights as they are now.

        Args:
            maps: by site; one that is left out or None leaves its weight free.
            freeze: from now on let nothing move that no map can protect; see `freezing`.
        """
        self.maps, self._in_force, self._frozen = dict(maps), True, self._frozen or freeze
        self._install()

    @torch.no_grad()
    def after_backward(self) -> None:
        """Project the gradients. For optimisers that are linear in the gradient."""
        self._use("after_backward")
        if not self._in_force:
            return
        for site in self.sites:
            projector = self.maps.get(site.name)
            if projector is None or site.weight.grad is None:
                continue
            if self._on_trace_side(site):
                self._count(projector, site.module.take_projected_rows())  # pyright: ignore[reportCallIssue]
            else:
                self._project(site, projector, site.weight.grad)
        for parameter in self._head_parameters().values():
            if parameter.grad is not None:
                parameter.grad[self.rows.still(parameter)] = 0

    @torch.no_grad()
    def after_step(self) -> None:
        """Project the update that the optimiser has applied. For any optimiser.

        Raises:
            RuntimeError: if `after_backward` was used too, or rows are projected on the trace side.
        """
        self._use("after_step")
        if self.trace_side:
            raise RuntimeError(
                "trace_side projects gradients already; use after_backward, or build with trace_side=False."
            )
        if not self._in_force:
            return
        for site in self.sites:
            projector = self.maps.get(site.name)
            if projector is not None:
                weight, anchor = site.part(site.weight), self._anchors[site.name]
                change = weight - anchor
                self._project_part(site, projector, change)
                weight.copy_(anchor.add_(change))
        for name, parameter in self._head_parameters().items():
            still, anchor = self.rows.still(parameter), self._anchors[name]
            parameter[still] = anchor[still]
            anchor.copy_(parameter)

    def set_trace_side(self, enabled: bool) -> None:
        """Switch the projection of rows inside our own synapses' backward on or off."""
        if enabled != self.trace_side:
            self.trace_side, self._used = enabled, None
            self.lift()
            if self._in_force:
                self._install()

    def lift(self) -> None:
        """Take the projectors out of the synapses that hold one."""
        for site in self.sites:
            if isinstance(site.module, ProjectsRows):
                site.module.projectors = None

    def _use(self, call: str) -> None:
        if self._used not in (None, call):
            raise RuntimeError(
                f"Both {self._used} and {call} were called; a projection is applied once: use one of them."
            )
        self._used = call

    def _install(self) -> None:
        """Freeze, and make what the chosen side needs."""
        if self._frozen:
            freeze_unprotected(self.model, self.sites, self.head.module)
        self._anchors = {}
        if self.trace_side:
            self._put_projectors()
        elif self._used != "after_backward":
            anchors = {site.name: site.part(site.weight) for site in self.sites} | self._head_parameters()
            self._anchors = {name: parameter.detach().clone() for name, parameter in anchors.items()}

    def _put_projectors(self) -> None:
        """Hand every synapse that projects rows itself the projectors of its groups."""
        for site in self.sites:
            if isinstance(site.module, ProjectsRows) and site.group == 0:
                groups = [other for other in self.sites if other.module is site.module]
                found = [self.maps.get(other.name) for other in groups]
                on = self._on_trace_side(site) and any(projector is not None for projector in found)
                site.module.projectors = found if on else None

    def _on_trace_side(self, site: WeightSite) -> bool:
        """Tell whether a synapse projects for itself: ours do, and of the head one whose rows are all projected."""
        whole = site.name != self.head_name or self._whole_head
        return self.trace_side and whole and isinstance(site.module, ProjectsRows)

    def _project(self, site: WeightSite, projector: AnyProjector, change: Tensor) -> None:
        """Project a gradient or an update of the whole weight in place."""
        self._project_part(site, projector, site.part(change))

    def _project_part(self, site: WeightSite, projector: AnyProjector, change: Tensor) -> None:
        """Project a group's part [out, ...] in place; of the head only some rows."""
        if projector.rows_only:
            raise RuntimeError(f"Layer {site.name!r}: spiking lateral neurons cannot project a gradient or an update.")
        rows = self.rows.to_project if site.name == self.head_name else slice(None)
        chosen = change[rows]
        change[rows] = projector(chosen.flatten(1)).view_as(chosen)
        self._count(projector, chosen.shape[0])

    def _count(self, projector: AnyProjector, num_rows: int) -> None:
        self.projecting += projector.multiply_accumulates(num_rows)

    def _head_parameters(self) -> dict[str, nn.Parameter]:
        """Give the head's parameters, some of whose rows stand still, once anything does."""
        if not self._frozen:
            return {}
        return {f"head {name}": parameter for name, parameter in self.head.module.named_parameters(recurse=False)}
