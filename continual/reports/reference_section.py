"""What a run lost or gained against reference runs that had each task easier: intransigence and plasticity.

Both need accuracies of other runs (a network trained on all tasks so far, and one trained on a task alone), so they are
shown only where the run was compared with such runs, with the names of their folders.
"""

from . import markup
from .formatting import percent, points
from .run_folder import RunFolder

_KINDS = (
    ("intransigence", "intransigence_per_task", "cumulative_restart", "trained on all tasks so far"),
    ("plasticity", "transfer_independent", "alone", "trained on the task alone"),
)


def reference_section(run: RunFolder) -> str:
    """Lay out the comparison with reference runs, task by task.

    Args:
        run: The run.

    Returns:
        HTML; empty where the run was compared with none.
    """
    there = [kind for kind in _KINDS if run.references.get(kind[0]) is not None]
    if not there:
        return ""
    per_task = [run.references.get(each) or [None] * run.matrices.num_tasks for _, each, _, _ in there]
    rows = [
        (f"{k + 1}  {name}", percent(float(run.accuracies[k, k])), *(points(each[k]) for each in per_task))
        for k, name in enumerate(run.task_names)
    ]
    means = (points(run.number(name)) for name, _, _, _ in there)
    rows.append(("mean", percent(run.number("acc_learning")), *means))
    against = "; ".join(f"{name} against {run.references.get(who)}, {how}" for name, _, who, how in there)
    missing = [f"no {name}: {run.references.get('undefined', {}).get(name, 'no reference')}" for name, *_ in _KINDS]
    notes = [words for words, kind in zip(missing, _KINDS, strict=True) if kind not in there]
    head = ("task", "just learnt", *(name for name, *_ in there))
    caption = f"In percentage points: {against}. Same data, network, seeds and epochs."
    return markup.table(head, rows, caption) + "".join(markup.note(f"{words}.") for words in notes)
