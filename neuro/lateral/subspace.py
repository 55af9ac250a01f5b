"""The protected subspace of one layer: frozen orthonormal rows, and a block that learns beside them.

Life of a block: `grow` starts it, `learn` shows it presynaptic rows, `consolidate` makes it orthonormal by QR, keeps
the rows that carry energy, and freezes them with the old ones. `projector` then keeps weight updates out of their
span.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuro.lateral.learning import Learned, SubspaceLearning
from neuro.lateral.projection import Projector, SpikingProjector, smaller_projector


class Consolidation(NamedTuple):
    """What a task added to a subspace.

    Attributes:
        learned: rows kept.
        pruned: candidate rows dropped, because the size rule or their energy said so.
        rank: rows frozen now.
        captured_energy: share of the task's E‖x‖² inside the frozen rows now.
    """

    learned: int
    pruned: int
    rank: int
    captured_energy: float


def num_alive(learned: Learned, prune: float = 1e-6) -> int:
    """Count the rows that capture at least a share `prune` of E‖x‖²; none where there is no energy at all."""
    return int((learned.energies >= prune * learned.total_energy).sum()) if learned.total_energy > 0 else 0


class LateralSubspace(nn.Module):
    """Lateral neurons of one layer.

    Example:
        >>> import torch
        >>> from neuro.lateral import Eigen, LateralSubspace
        >>> subspace = LateralSubspace(3, Eigen())
        >>> subspace.grow(1)
        >>> subspace.learn(torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
        >>> subspace.consolidate().rank
        1
        >>> subspace.project(torch.ones(1, 3)).round().abs().tolist()
        [[0.0, 1.0, 1.0]]

    Args:
        width: presynaptic width n.
        learning: how rows are found.
        device: where the rows live.
        dtype: of the rows; learning and projection run in it.
    """

    basis: Tensor

    def __init__(
        self,
        width: int,
        learning: SubspaceLearning,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width}.")
        self.width, self.learning = width, learning
        self.register_buffer("basis", torch.zeros(0, width, device=device, dtype=dtype))
        self.block: Any = None
        self._projector: Projector | SpikingProjector | None = None

    @property
    def rank(self) -> int:
        """Rows frozen so far."""
        return self.basis.shape[0]

    @property
    def is_full(self) -> bool:
        """Whether nothing is left to learn in this layer."""
        return self.rank == self.width

    @property
    def projector(self) -> Projector | SpikingProjector | None:
        """The map away from the frozen rows, or None while there are none."""
        if self._projector is None and self.rank > 0:
            spikes = self.learning.spikes if not self.is_full else None  # a full layer stands still to the last bit
            self._projector = smaller_projector(self.basis) if spikes is None else SpikingProjector(self.basis, spikes)
        return self._projector

    @property
    def stored_bytes(self) -> int:
        """Bytes held between tasks: the rows and, past half the width, the complement beside them."""
        held = self.projector.directions if self.projector is not None else self.basis
        return self.basis.nbytes + (0 if held is self.basis else held.nbytes)

    def grow(self, num_rows: int, num_batches: int = 1, generator: torch.Generator | None = None) -> None:
        """Start a block of new lateral neurons.

        Args:
            num_rows: how many; cut at what the width leaves.
            num_batches: how many batches it will be shown (sets the decay of an online rule's rate).
            generator: for the rows' random start, on the CPU.

        Raises:
            ValueError: if num_rows is negative or larger than the layer.
            RuntimeError: if a block is learning already.
        """
        if not 0 <= num_rows <= self.width:
            raise ValueError(f"A subspace of width {self.width} can grow by 0 to {self.width} rows, got {num_rows}.")
        if self.block is not None:
            raise RuntimeError("A block is learning already; consolidate it before growing another.")
        num_rows = min(num_rows, self.width - self.rank)
        self.block = self.learning.begin(num_rows, self.basis, num_batches, generator)

    @torch.no_grad()
    def learn(self, inputs: Tensor) -> None:
        """Show presynaptic rows [R, n] to the learning block.

        Raises:
            RuntimeError: if no block is learning.
            ValueError: if the rows do not have the layer's width or are not finite.
        """
        if self.block is None:
            raise RuntimeError("No block is learning; call grow first.")
        if inputs.ndim != 2 or inputs.shape[1] != self.width:
            raise ValueError(f"Presynaptic rows must be [R, {self.width}], got {list(inputs.shape)}.")
        if not bool(torch.isfinite(inputs).all()):
            raise ValueError("Presynaptic rows must be finite; the network has diverged, lower the learning rate.")
        self.block = self.learning.observe(self.block, inputs)

    @torch.no_grad()
    def consolidate(self, keep: Callable[[Learned], int] | None = None, prune: float = 1e-6) -> Consolidation:
        """End the block: keep its most energetic rows, make them orthonormal and freeze them.

        Args:
            keep: how many of the learned rows to keep; None keeps all.
            prune: drop rows that capture less than this share of E‖x‖².

        Returns:
            What was added.
        """
        if self.block is None:
            raise RuntimeError("No block is learning; call grow first.")
        learned = self.learning.finish(self.block)
        self.block = None
        alive = num_alive(learned, prune)
        kept = min(alive, keep(learned) if keep is not None else alive)
        self.freeze(torch.cat([self.basis, learned.rows[:kept]]))
        captured = (learned.frozen_energy + learned.energies[:kept].sum()) / learned.total_energy.clamp(min=1e-30)
        return Consolidation(kept, learned.rows.shape[0] - kept, self.rank, min(1.0, float(captured)))

    def discard(self) -> None:
        """Drop a block that is learning, if there is one."""
        self.block = None

    def freeze(self, basis: Tensor) -> None:
        """Set the frozen rows [k, n], which must be orthonormal."""
        self.basis, self._projector = basis, None

    def project(self, rows: Tensor) -> Tensor:
        """Remove the protected part of rows [..., n]; unchanged while nothing is frozen."""
        return rows if self.projector is None else self.projector(rows)

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]  # the rest is passed on as it came
        self, state_dict: dict[str, Any], prefix: str, *rest: Any
    ) -> None:
        """Take a basis of any rank, so that a grown subspace loads into a fresh module."""
        saved = state_dict.get(prefix + "basis")
        if isinstance(saved, Tensor) and saved.ndim == 2 and saved.shape[1] == self.width:
            self.freeze(self.basis.new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _apply(self, fn: Any, recurse: bool = True) -> "LateralSubspace":
        """Move or convert the rows; what was derived from them is made anew."""
        self._projector = None
        return super()._apply(fn, recurse)

    def extra_repr(self) -> str:
        """Show rank and width."""
        return f"rank={self.rank}, width={self.width}, learning={self.learning.name}"
