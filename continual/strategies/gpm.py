"""GPM: gradient projection memory (Saha, Garg, Roy, ICLR 2021).

At a task's end the inputs of n_s random samples stand before each weight as the columns of A (a convolution's patches).
The basis M grows by the leading left singular vectors of A − M Mᵀ A, as few as let old and new together hold a share ε
of ‖A‖²_F, and later gradients leave its span:

    G ← G − G M Mᵀ

The singular vectors are the eigenvectors of A Aᵀ, so this is HLOP with `Eigen` for its learning and `GrowingShare` for
its sizes, exactly, and it is that here: HLOP's Hebbian rules learn the same span by a local rule. What is left of the
difference is how many samples are shown. `ReleasedCount` keeps one row fewer after the first task, as the released
code does. The task's number is needed at the boundaries alone.

Deliberate differences: where the optimiser is not linear in the gradient, the applied update is projected; of the head
the rows that tasks share are projected (all in the paper's single-head experiment, none in its multi-head ones); rows
that carry less than a millionth of the energy are never kept, single precision cannot tell them from nothing. The code
takes fewer samples for early convolutions; here all layers see the same, and `max_rows` bounds their patches.
"""

from continual.pass_cost import forward_operations
from continual.strategies.hlop import HLOP
from neuro.lateral import Eigen, GrowingShare, ReleasedCount, Sizes


class GPM(HLOP):
    """Project learning away from the leading input directions of old tasks.

    Args:
        sizes: how many directions are kept: `GrowingShare`, or `ReleasedCount` for the released code's count.
        max_samples: n_s, samples of a task that are looked at, drawn by seed; None looks at all.
        batch_size: samples per batch of that pass; it decides no digit but rounding.
        max_rows: bound on the rows a layer shows per batch, drawn by seed; None shows all.

    Raises:
        ValueError: if a number is below 1.
    """

    def __init__(
        self,
        sizes: Sizes | None = None,
        max_samples: int | None = 300,
        batch_size: int = 64,
        max_rows: int | None = None,
    ) -> None:
        sizes = sizes if sizes is not None else GrowingShare()
        super().__init__(Eigen(), sizes, max_samples, batch_size, max_rows=max_rows)
        self.name = "gpm_legacy" if isinstance(sizes, ReleasedCount) else "gpm"

    @property
    def operations(self) -> int:
        """Multiply-accumulates of learning, with its passes through the network counted densely, and of projecting."""
        done = self._setting.sequence.tasks[: self._protection.num_tasks]
        shown = sum(
            len(task.train) if self.max_samples is None else min(len(task.train), self.max_samples) for task in done
        )
        return super().operations + shown * forward_operations(self._setting.model, self._setting.sequence)
