"""e-prop: eligibility propagation (Bellec et al. 2020).

Every synapse carries an eligibility trace of what its neuron would have done with a slightly larger weight, computed
forward in time; a learning signal says at every tick how wrong the output is. Their product is the gradient:

    x̄_t = λ x̄_{t−1} + x_t                      what the membrane still holds of the presynaptic spikes
    e_t = ψ_t (x̄_t − β ε_{t−1}),  ε_t = ρ ε_{t−1} + e_t      β, ρ of an adaptive threshold; else β = 0
    ΔW ∝ Σ_t L_t F_κ(e)_t                         F_κ the low-pass filter of a leaky readout

with ψ the surrogate derivative and L_t = ∂loss_t/∂s_t through space alone: through the readout's own weights
(symmetric e-prop) or, with feedback alignment as the error path, random ones (random e-prop). For one hidden layer
without recurrent synapses this is exactly BPTT; recurrent synapses (whose presynaptic side is s_{t−1}) and further
layers make it an approximation. Memory does not grow with T; it is [B, out, n] per layer where the threshold adapts
or the readout leaks.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuro.decoding import MeanOverTime
from neuro.learning.bptt import detached
from neuro.learning.rule import Objective, Rule, Terms, Update, backpropagate, score
from neuro.models.classifier import SpikingClassifier
from neuro.network import SpikingSequential
from neuro.neurons import IF, LIF, AdaptiveLIF, LeakyReadout, Neuron, Recurrent
from neuro.reset import SoftReset
from neuro.synapses import Linear
from neuro.temporal import Temporal
from neuro.types import Static, num_time_steps


class EProp(Rule):
    """Train flat networks by eligibility traces.

    Args:
        error_path: exact for symmetric e-prop, feedback alignment for random e-prop.
        seed: of a random error path.
    """

    name = "eprop"
    accepts = (LIF, IF, AdaptiveLIF, Recurrent, LeakyReadout)

    def check(self, model: nn.Module) -> None:
        """Refuse a network that is not linear synapses and neurons in turn.

        Raises:
            ValueError: naming the layer and what is wanted.
        """
        super().check(model)
        if not any(isinstance(module, Neuron) for module in model.modules()):
            return
        if not isinstance(model, SpikingClassifier) or not isinstance(model.decoder, MeanOverTime):
            raise ValueError("eprop scores every tick, so it needs a SpikingClassifier with the decoder MeanOverTime.")
        for name, module in model.named_modules():
            reset = getattr(module, "reset", None)
            if isinstance(module, Neuron) and reset is not None and reset != SoftReset(detached=True):
                raise ValueError(f"eprop needs SoftReset(detached=True), layer {name!r} has {reset}.")
        self.require_own_synapses(model)
        plan_of(model.network)

    def updates(self, model: nn.Module, batch: Any, objective: Objective, terms: Terms) -> Iterator[Update]:
        """Fill `.grad` once and yield; see `Rule.updates`.

        A network without neurons is trained by plain backpropagation.
        """
        if not isinstance(model, SpikingClassifier) or not any(isinstance(part, Neuron) for part in model.modules()):
            yield from backpropagate(model, model, batch, objective, terms)
            return
        prepared = objective.prepare(model, batch)
        activity, plan = model.encode(prepared.inputs), plan_of(model.network)
        eligibilities = [Eligibility.of(layer.neuron, plan.readout) for layer in plan.hidden]
        time_steps, state, seen = num_time_steps(activity), None, []
        head_trace = Eligibility(plan.readout)
        for tick in range(time_steps):
            current = activity.value if isinstance(activity, Static) else activity[tick]
            outputs, read, scored, state = advance(plan, current, state)
            loss = score(outputs, prepared, objective, terms) / time_steps
            signals = torch.autograd.grad(loss, [outputs, *(layer.spikes for layer in scored)])
            head_trace.advance(read)
            add_gradient(plan.head, None, head_trace.gradient(signals[0]))
            for layer, eligibility, found, signal in zip(plan.hidden, eligibilities, scored, signals[1:], strict=True):
                eligibility.advance(found.presynaptic, found.slope)
                add_gradient(layer.synapse, layer.recurrent, eligibility.gradient(signal))
            seen.append((outputs.detach(), loss.detach()))
        outputs, losses = zip(*seen, strict=True)
        yield Update(torch.stack(outputs).mean(0), torch.stack(losses).sum(), prepared)


class _Hidden(NamedTuple):
    before: tuple[nn.Module, ...]
    synapse: Linear
    neuron: Neuron
    recurrent: Linear | None


class _Plan(NamedTuple):
    hidden: tuple[_Hidden, ...]
    before_head: tuple[nn.Module, ...]
    head: Linear
    readout: float


class _Scored(NamedTuple):
    presynaptic: Tensor
    slope: Tensor
    spikes: Tensor


def plan_of(network: SpikingSequential) -> _Plan:
    """Read a network as synapses and neurons in turn, a head, and perhaps a leaky readout.

    Raises:
        ValueError: naming the first layer that does not fit.
    """
    hidden, before, synapse, readout = [], [], None, 0.0
    for position, (name, layer) in enumerate(network.named_children(), start=1):
        if isinstance(layer, Linear) and synapse is None:
            synapse = layer
        elif isinstance(layer, LeakyReadout) and synapse is not None and position == len(network):
            readout = 1 - 1 / layer.tau
        elif isinstance(layer, Neuron) and not isinstance(layer, LeakyReadout) and synapse is not None:
            hidden.append(_Hidden(tuple(before), synapse, layer, getattr(layer, "synapse", None)))
            before, synapse = [], None
        elif not any(True for _ in layer.parameters()) and synapse is None and not isinstance(layer, Temporal):
            before.append(layer)
        else:
            raise ValueError(
                f"eprop trains linear synapses and neurons in turn, ended by a linear head; layer {name!r} "
                f"({type(layer).__name__}) does not fit there."
            )
    if synapse is None or not hidden:
        raise ValueError("eprop needs at least one layer of neurons and a linear head after it.")
    return _Plan(tuple(hidden), tuple(before), synapse, readout)


def advance(plan: _Plan, current: Tensor, state: Any) -> tuple[Tensor, Tensor, list[_Scored], Any]:
    """Advance the network by a tick, from states cut from the graph; give what the head read and every hidden layer."""
    *states, membrane = detached(state) if state is not None else (*(None for _ in plan.hidden), None)
    scored, following = [], []
    for layer, held in zip(plan.hidden, states, strict=True):
        for module in layer.before:
            current = module(current)
        presynaptic = current.detach()
        if layer.recurrent is not None:
            silence = presynaptic.new_zeros(len(presynaptic), layer.recurrent.in_features)
            presynaptic = torch.cat([presynaptic, held[-1] if held is not None else silence], 1)
        drive = layer.synapse(current)
        drive = drive if drive.requires_grad else drive.requires_grad_()
        current, held = layer.neuron.tick(drive, held)
        (slope,) = torch.autograd.grad(current.sum(), drive, retain_graph=True)
        scored.append(_Scored(presynaptic, slope, current))
        following.append(held)
    for module in plan.before_head:
        current = module(current)
    outputs = plan.head(current)
    outputs = outputs if membrane is None else plan.readout * membrane + outputs
    return outputs, current.detach(), scored, (*following, outputs)


class Eligibility:
    """The eligibility trace of one layer's synapses.

    Args:
        readout: κ, decay of the readout's filter.
        decay: λ, what the membrane keeps per tick.
        strength: β of an adaptive threshold.
        adaptation: ρ, what the adaptation keeps per tick.
    """

    def __init__(
        self, readout: float, decay: float | None = None, strength: float = 0.0, adaptation: float = 0.0
    ) -> None:
        self.readout, self.strength, self.adaptation = readout, strength, adaptation
        self.decay = decay if decay is not None else readout
        self.held: Tensor | None = None
        self.slope: Tensor | None = None
        self.adapted: Tensor | None = None
        self.filtered: Tensor | None = None

    @classmethod
    def of(cls, neuron: Neuron, readout: float) -> "Eligibility":
        """Start the trace of a neuron's synapses."""
        inner = neuron.neuron if isinstance(neuron, Recurrent) else neuron
        if isinstance(inner, AdaptiveLIF):
            return cls(readout, 1 - 1 / inner.tau, inner.strength, 1 - 1 / inner.tau_adaptation)
        return cls(readout, 1 - 1 / inner.tau if isinstance(inner, LIF | LeakyReadout) else 1.0)

    def advance(self, presynaptic: Tensor, slope: Tensor | None = None) -> None:
        """Advance by a tick.

        Args:
            presynaptic: x, [B, n].
            slope: ψ, [B, out]; None for the head, whose neurons are linear.
        """
        ones = presynaptic.new_ones(len(presynaptic), 1)  # the presynaptic side of a bias
        seen = torch.cat([presynaptic, ones], 1)
        self.held = seen if self.held is None else self.decay * self.held + seen
        self.slope = slope
        if slope is None or not (self.readout or self.strength):
            return
        inner = self.held[:, None] if self.adapted is None else self.held[:, None] - self.strength * self.adapted
        eligible = slope[:, :, None] * inner
        if self.strength:
            self.adapted = eligible if self.adapted is None else self.adaptation * self.adapted + eligible
        self.filtered = eligible if self.filtered is None else self.readout * self.filtered + eligible

    def gradient(self, signal: Tensor) -> Tensor:
        """Give Σ_b L F_κ(e), [out, n + 1], the last column for a bias."""
        assert self.held is not None
        if self.filtered is not None:
            return torch.einsum("bo,bon->on", signal, self.filtered)
        return (signal if self.slope is None else signal * self.slope).mT @ self.held


def add_gradient(synapse: Linear, recurrent: Linear | None, gradient: Tensor) -> None:
    """Add a gradient [out, n (+ out) + 1] to the weights it belongs to, kept out of their protected subspaces."""
    widths = [synapse.in_features, *([recurrent.in_features] if recurrent is not None else []), 1]
    forward, *back, constant = gradient.split(widths, 1)
    for holder, part in ((synapse, forward), *((recurrent, part) for part in back)):
        if holder is not None and holder.weight.requires_grad:
            projector = holder.projectors[0] if holder.projectors else None
            if projector is not None and projector.rows_only:
                raise ValueError("eprop forms gradients, not rows; spiking lateral neurons cannot protect it.")
            accumulate(holder.weight, part if projector is None else projector(part))
    if synapse.bias is not None and synapse.bias.requires_grad:
        accumulate(synapse.bias, constant[:, 0])


def accumulate(parameter: Tensor, gradient: Tensor) -> None:
    """Add to `.grad`."""
    parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad + gradient
