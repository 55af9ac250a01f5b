"""Evaluate the robustness of a finished run: its last network on every task's test part.

The run's configuration is built again, weights and the strategy's state of the last task boundary are put back, and
each named evaluation asks the network as it was asked in the run: among the rows of a task's own head with the task
known, else among all classes seen.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from continual.assembly import make_measurements, make_parts
from continual.batches import as_tensors
from continual.checkpoint import read_checkpoint
from continual.config import RunConfig
from continual.errors import UserError
from continual.evaluation import part_of
from continual.robust_matrices import target_of
from continual.run_folder import read_config
from continual.runner import Parts


class Evaluated(NamedTuple):
    """One evaluation on one task.

    Attributes:
        name: of the evaluation.
        task: name of the task.
        report: what it found.
        folder: where it was written.
    """

    name: str
    task: str
    report: Any
    folder: Path


def evaluate_run(
    run_folder: str | Path, overrides: Sequence[str], output: str | Path | None = None
) -> Iterator[Evaluated]:
    """Evaluate a run's last network, evaluation by evaluation and task by task.

    Args:
        run_folder: of the run.
        overrides: robustness=NAME or robustness=[A,B], and values such as robustness.NAME.num_samples=100.
        output: where reports go; None takes the folder `robustness` in the run's.

    Yields:
        Each report, already written to `<output>/<NAME>/task_<kk>`.

    Raises:
        UserError: if the folder is not a run with a checkpoint, or an override is about something else.
    """
    folder, evaluations = Path(run_folder), evaluations_of(overrides)
    parts = last_parts(folder)
    goal = Path(output) if output is not None else folder / "robustness"
    return _evaluated(parts, evaluations, goal)


def _evaluated(parts: Parts, evaluations: dict[str, Any], goal: Path) -> Iterator[Evaluated]:
    reference, last = next(parts.model.parameters()), parts.sequence.tasks[-1]
    for name, evaluation in evaluations.items():
        for task in parts.sequence.tasks:
            images, labels = as_tensors(part_of(task, parts.part), reference.device, reference.dtype)  # pyright: ignore[reportArgumentType]
            target = target_of(parts.strategy, parts.model, parts.sequence, task, last)
            report = evaluation(target, (images, labels))
            yield Evaluated(name, task.name, report, report.save(goal / name / f"task_{task.index:02d}"))


def evaluations_of(overrides: Sequence[str]) -> dict[str, Any]:
    """Build the evaluations that a command names.

    Raises:
        UserError: if there is none, or an override is about something else.
    """
    from continual.compose import compose

    for override in overrides:
        if not override.startswith(("robustness=", "robustness.")):
            raise UserError(f"evaluate takes robustness=NAME and its values, not {override!r}; the run is as it is.")
    config = RunConfig.from_dict(compose(overrides))
    found = make_measurements(config)
    if not found:
        raise UserError("evaluate needs an evaluation, such as robustness=pgd20; `list robustness` shows all.")
    return found


def last_parts(folder: Path) -> Parts:
    """Build a run's parts as they were after its last finished task.

    Raises:
        UserError: if the folder is not a run, has finished no task, or was made with objects.
    """
    config = RunConfig.from_dict(read_config(folder))
    made = [key for key in ("data", "scenario", "model", "strategy") if "object" in (getattr(config, key) or {})]
    if made:
        raise UserError(
            f"The run in {folder} was made with objects of your own ({', '.join(made)}); evaluate them in Python with "
            f"continual.robustness.evaluate(continual.load(run, model=...), ...)."
        )
    checkpoint = read_checkpoint(folder / "checkpoint")
    if checkpoint is None:
        raise UserError(f"{folder} has not finished a task yet; run it first.")
    parts = make_parts(config)
    parts.model.load_state_dict(checkpoint.model)
    parts.strategy.load_state_dict(checkpoint.strategy)
    parts.model.eval()
    return parts
