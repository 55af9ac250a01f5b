"""Online training through time (Xiao et al. 2022, OTTT): spatial errors meet traces of past spikes.

    a_t = λ a_{t−1} + s_t,  λ = 1 − 1/τ  (IF: λ = 1),      ΔW_t ∝ δ_t a_tᵀ

δ_t goes back through space alone; the trace stands for the path through the membranes. At T = 1 this is BPTT. The
trace of a synapse is that of its input, with the leak of the last neuron before it; a synapse with no neuron before
it sees the raw input, which is a constant current. Pooling between neuron and synapse is linear, so its trace is the
pooled trace.

HLOP protects the traces: ΔW a_t = 0 at every tick gives ΔW s_t = ΔW (a_t − λ a_{t−1}) = 0, so old spikes are
protected too. Difference from HLOP's released code, which shows its subspaces a stack of spikes and traces: traces
only.
"""

import torch
from torch import Tensor, nn

from neuro.learning.rule import Presynaptic
from neuro.learning.ticks import TickRule, Trace
from neuro.neurons import LIF, Neuron
from neuro.residual import Residual
from neuro.synapses import Synapse


class OTTT(TickRule):
    """Learn from every tick's error and the traces so far.

    Args:
        every_tick: step the optimiser at every tick (OTTT-O), instead of summing a batch's gradients (OTTT-A).
        error_path: exact by default.
        seed: of a random error path.
    """

    name = "ottt"

    def traces(self, model: nn.Module) -> dict[str, Trace]:
        """Give every synapse behind a neuron a trace at 0."""
        return {name: SpikeTrace(decay) for name, decay in trace_decays(model).items()}

    def presynaptic(self, model: nn.Module) -> Presynaptic:
        """Give the traces over time."""
        decays = trace_decays(model)
        return lambda name, activity: filtered(activity, decays[name]) if name in decays else activity


class SpikeTrace:
    """A running trace: called once a tick with s_t, it gives a_t = λ a_{t−1} + s_t."""

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.value: Tensor | None = None

    def __call__(self, spikes: Tensor) -> Tensor:
        """Advance by a tick."""
        self.value = spikes if self.value is None else torch.add(spikes, self.value, alpha=self.decay)
        return self.value


def filtered(activity: Tensor, decay: float) -> Tensor:
    """Give a_t of an activity [T, B, ...]; one tick alone is its own trace."""
    trace = SpikeTrace(decay)
    return torch.stack([trace(tick) for tick in activity])


def trace_decays(model: nn.Module) -> dict[str, float]:
    """Give λ of every synapse that has a neuron before it, in the order of the network's modules."""
    decays, leak, shortcuts, entered = {}, None, {}, {}
    for name, module in model.named_modules(remove_duplicate=False):
        leak = entered.pop(name, leak)
        if isinstance(module, Residual):  # its shortcut reads what its body reads, and not the body
            shortcuts[f"{name}.body"] = f"{name}.shortcut"
        if name in shortcuts:
            entered[shortcuts[name]] = leak
        if isinstance(module, Neuron):
            leak = 1 - 1 / module.tau if isinstance(module, LIF) else 1.0
        elif isinstance(module, Synapse) and leak is not None:
            decays[name] = leak
    return decays
