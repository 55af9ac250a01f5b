"""Spatial learning through time (Meng et al. 2023): backpropagation through time without the time.

At every tick errors go back through the layers and meet this tick's spikes; what the past has left in the membranes
is taken for constant. ΔW_t ∝ δ_t s_tᵀ, summed over the ticks, or applied at each. Difference from the paper: all
ticks learn (its SLTT-K lets a random few learn).
"""

from torch import nn

from neuro.learning.ticks import TickRule, Trace


class SLTT(TickRule):
    """Learn from every tick's spikes alone.

    Args:
        every_tick: step the optimiser at every tick, instead of summing a batch's gradients.
        error_path: exact by default.
        seed: of a random error path.
    """

    name = "sltt"

    def traces(self, model: nn.Module) -> dict[str, Trace]:
        """Give none: spikes stand for themselves."""
        return {}
