"""`evaluate`: how robust the last network of a run is."""

from continual.errors import UserError


def evaluate(words: list[str], output: str | None) -> int:
    """Evaluate a run on all its tasks, write the reports and print their tables."""
    if not words:
        raise UserError("evaluate needs a run folder and an evaluation: evaluate runs/NAME robustness=pgd20.")
    from continual.evaluated_run import evaluate_run

    try:
        for found in evaluate_run(words[0], words[1:], output):
            print(f"{found.name}, {found.task}\n{found.report.table()}\nwritten {found.folder}\n")
    except (ValueError, TypeError) as problem:
        raise UserError(str(problem)) from problem
    return 0
