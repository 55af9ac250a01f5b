"""The weights a network begins with, kept so that it can begin again."""

from typing import Any

from torch import Tensor, nn


class InitialWeights:
    """A copy of a network's parameters and statistics as they are now.

    Args:
        model: the network.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._held = {name: part.detach().clone() for name, part in model.state_dict().items()}

    def restore(self) -> None:
        """Put them back, in place."""
        self._model.load_state_dict(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of the copy."""
        return sum(part.nbytes for part in self._held.values())

    def state_dict(self) -> dict[str, Tensor]:
        """Give the copy, a part per name."""
        return {f"initial.{name}": part for name, part in self._held.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave.

        Raises:
            ValueError: if a part is missing or left over.
        """
        wanted = self.state_dict()
        if set(state) != set(wanted):
            raise ValueError(f"The state of the initial weights needs exactly {sorted(wanted)}, got {sorted(state)}.")
        self._held = {name: state[f"initial.{name}"].to(part).clone() for name, part in self._held.items()}
