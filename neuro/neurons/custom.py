"""A neuron from a function: the shortest way to your own.

def step(current, state):                          # a resonator, say
    membrane, velocity = state
    velocity = 0.9 * velocity - 0.1 * membrane + current
    membrane = membrane + velocity
    spikes = spike(membrane - 1.0, Sigmoid())
    return spikes, (membrane * (1 - spikes.detach()), velocity)

neuron = StepNeuron(step, num_variables=2)

It stands wherever a built-in neuron does: in both traversals, in models, probes, learning rules and HLOP. A neuron that
needs parameters, or a start other than 0, subclasses `Neuron` with the same `step` as a method.
"""

from collections.abc import Callable

from torch import Tensor

from neuro.neurons.neuron import Neuron
from neuro.types import State, state_like


class StepNeuron(Neuron):
    """Neurons whose step is a function of the user's.

    Example:
        >>> import torch
        >>> from neuro import Sigmoid, spike
        >>> def perfect(current, state):
        ...     charged = state[0] + current
        ...     spikes = spike(charged - 1.0, Sigmoid())
        ...     return spikes, (charged - spikes.detach(),)
        >>> StepNeuron(perfect)(torch.full((4, 1, 1), 0.5))[0].flatten().tolist()
        [0.0, 1.0, 0.0, 1.0]

    Args:
        function: from the current of a tick [B, ...] and a tuple of state variables to the output [B, ...] and the next
            tuple; elementwise, without memory of its own.
        num_variables: state variables, each of the input's shape and 0 at the start; the first is what probes show as
            the membrane.
        is_spiking: whether outputs are zeros and ones.

    Raises:
        ValueError: if there is no state variable.
    """

    def __init__(
        self, function: Callable[[Tensor, State], tuple[Tensor, State]], num_variables: int = 1, is_spiking: bool = True
    ) -> None:
        super().__init__()
        if num_variables < 1:
            raise ValueError(f"num_variables must be at least 1, got {num_variables}.")
        self.function, self.num_variables, self.is_spiking = function, int(num_variables), bool(is_spiking)

    def initial_state(self, current: Tensor) -> State:
        """Give every variable at 0."""
        return tuple(state_like(current) for _ in range(self.num_variables))

    def step(self, current: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance one tick by the function.

        Raises:
            ValueError: if it does not give an output and as many state variables as it got.
        """
        output, following = self.function(current, state)
        if len(following) != self.num_variables:
            raise ValueError(
                f"The step function must give back {self.num_variables} state variables, it gave {len(following)}."
            )
        return output, tuple(following)

    def extra_repr(self) -> str:
        """Show the function."""
        return f"{getattr(self.function, '__name__', self.function)}, num_variables={self.num_variables}"
