"""The control for projection methods: freeze what they freeze, protect nothing else.

From task 2 on biases, norm statistics and affine parameters, embeddings, thresholds and shared rows of the head's
bias stand still, as they do under HLOP. What HLOP gains beyond this control is what its projection does. It is HLOP
with subspaces of no rows, so the two freeze the same things by construction; on a network that has none of these it
equals naive.
"""

from continual.strategies.hlop import HLOP
from continual.strategies.strategy import LayerRank
from neuro.lateral import Eigen, NoRows


class NaiveFrozen(HLOP):
    """Freeze everything but the weights from task 2 on."""

    def __init__(self) -> None:
        super().__init__(Eigen(), NoRows(), max_samples=1)
        self.name = "naive_frozen"

    def ranks(self) -> list[LayerRank]:
        """Give nothing: no layer holds a subspace."""
        return []

    @property
    def stored_bytes(self) -> int:
        """Give 0: what is frozen stays in the model."""
        return 0

    @property
    def operations(self) -> int:
        """Give 0: nothing is learned or projected."""
        return 0
