"""How much of the network's input space the protected subspaces take, over the tasks and for each strategy.

A curve is the sum of the ranks over all protected weights as a share of the sum of their widths, mean over the runs
with its 95 % t-interval. At 100 % nothing can be learned any more without touching what is protected.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .comparison_figures import draw_curves
from .layer_figures import by_layer
from .style import EndLabel, Theme, dress, label_ends, look_of, new_figure, plain_text


def share_of_width(task_ends: Sequence[Mapping[str, Any]], num_tasks: int) -> NDArray[np.float64]:
    """Return the protected share of all input directions after every task.

    Args:
        task_ends: Records of task ends with ``subspaces``.
        num_tasks: T.

    Returns:
        ``[T]`` shares in [0, 1]; NaN where no subspace was recorded.
    """
    shares = np.full(num_tasks, np.nan)
    ranks, widths = by_layer(task_ends, "subspaces", "rank"), by_layer(task_ends, "subspaces", "width")
    for position, record in enumerate(task_ends):
        known = [name for name in ranks if name in widths and np.isfinite(ranks[name][position])]
        total = sum(widths[name][position] for name in known)
        if total > 0:
            shares[int(record["task"])] = sum(ranks[name][position] for name in known) / total
    return shares


def rank_growth(shares: Mapping[str, NDArray[np.float64]], theme: Theme) -> Figure | None:
    """Draw the protected share over the tasks, one curve per strategy.

    Args:
        shares: Name of every strategy, in the order of the page, to ``[runs, T]`` shares.
        theme: Colours.

    Returns:
        A figure of 11.2 x 4.2 inches; None where no strategy protects a subspace.
    """
    if not any(np.isfinite(runs).any() for runs in shares.values()):
        return None
    figure = new_figure(11.2, 4.2, theme)
    axes = figure.add_subplot()
    dress(axes, theme, "Protected share of the input directions", "after training on task", "rank / width (%)")
    ends: list[EndLabel] = []
    num_tasks = 1
    for position, (name, runs) in enumerate(shares.items()):
        if np.isfinite(runs).any():
            look, num_tasks = look_of(position, theme), runs.shape[1]
            height = draw_curves(axes, 100 * runs, look)
            ends.append(EndLabel(height, plain_text(name, 34), look.colour, bold=True, look=look))
    axes.set_xlim(0.7 if num_tasks > 1 else 0.5, num_tasks + 0.3)
    axes.set_xticks(list(range(1, num_tasks + 1, max(1, int(np.ceil(num_tasks / 15))))))
    axes.set_ylim(0.0, min(101.5, 1.12 * axes.get_ylim()[1]))
    label_ends(axes, ends, theme, gap=0.07)
    return figure
