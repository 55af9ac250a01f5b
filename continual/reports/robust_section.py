"""Robustness over the sequence: a matrix for every measurement, beside the clean one's final value and transfer."""

import numpy as np

from . import markup
from .formatting import MISSING, percent, points
from .run_folder import RunFolder


def robust_section(run: RunFolder) -> str:
    """Lay out every robust matrix that the run measured.

    Args:
        run: The run.

    Returns:
        HTML; empty where nothing was measured.
    """
    path = run.path / "robust_matrices.npz"
    if not path.exists():
        return ""
    with np.load(path) as stored:
        matrices = {name: stored[name] for name in stored.files}
    rows = [("accuracy", percent(run.number("acc_final")), points(run.number("bwt")))]
    rows += [(name, *_numbers(run, name)) for name in matrices]
    caption = (
        "At the end, mean over tasks, and what later tasks did to it in percentage points. Robust: right as it is and "
        "under attack; stable: answered alike under attack, right or wrong; certified: right with that radius at least."
    )
    return markup.table(("measured", "at the end", "backward transfer"), rows, caption) + "".join(
        markup.details(f"{name} after each task", _matrix(matrix)) for name, matrix in matrices.items()
    )


def _numbers(run: RunFolder, name: str) -> tuple[str, str]:
    kind, _, rest = name.partition("_")
    return percent(run.number(f"{kind}_final_{rest}")), points(run.number(f"{kind}_bwt_{rest}"))


def _matrix(matrix: np.ndarray) -> str:
    head = ("after task", *(str(column + 1) for column in range(len(matrix))))
    rows = [
        (str(row + 1), *(MISSING if np.isnan(value) else percent(float(value)) for value in values))
        for row, values in enumerate(matrix)
    ]
    return markup.table(head, rows, "On each task (columns) after training on each (rows), where it was measured.")
