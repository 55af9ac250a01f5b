"""`report`, `collect` and `mirror`: everything that is made of finished runs."""

from pathlib import Path

from continual.errors import UserError


def report(words: list[str], output: str | None) -> int:
    """Write the page of a run again, or compare several; references they are to one another go into their pages."""
    if not words:
        raise UserError("report needs at least one run folder, such as runs/NAME-12345678.")
    from continual.metrics import write_references
    from continual.reports import compare, write_report
    from continual.run_folder import comparison_folder

    folders = [Path(word) for word in words]
    try:
        finished = [folder for folder in folders if (folder / "metrics.json").exists()]
        write_references(finished)
        if len(folders) == 1:
            print(write_report(folders[0]))
        else:
            for folder in finished:
                write_report(folder)  # its page shows what it lost against the others
            print(compare(folders, Path(output) if output else comparison_folder(folders)))
    except (ValueError, OSError) as problem:
        raise UserError(str(problem)) from problem
    return 0


def collect_runs(words: list[str], output: str | None, formats: list[str]) -> int:
    """Write tables of all finished runs in and below folders."""
    if not words:
        raise UserError("collect needs at least one folder, such as runs.")
    from continual.reports import collect, write_collected
    from continual.run_folder import is_run

    first = Path(words[0])
    beside = first.resolve().parent if is_run(first) else first
    try:
        collected = collect(map(Path, words))
        written = write_collected(collected, Path(output) if output else beside / "collected", formats)
    except (ValueError, OSError) as problem:
        raise UserError(str(problem)) from problem
    print(f"{len(collected.runs)} finished runs, {len(collected.skipped)} left out")
    for folder, reason in collected.skipped:
        print(f"left out {folder}: {reason}")
    for path in written:
        print(f"written  {path}")
    return 0


def mirror_runs(words: list[str], output: str | None, tracker: str | None) -> int:
    """Write copies of the records of all runs in and below folders."""
    if not words:
        raise UserError("mirror needs at least one folder, such as runs.")
    if tracker is None:
        raise UserError("mirror needs --to tensorboard or --to mlflow.")
    from continual.mirror import mirror
    from continual.reports import find_runs

    try:
        folders = find_runs(map(Path, words))
        if not folders:
            raise UserError(f"mirror needs at least one run, but {', '.join(words)} holds none.")
        for folder in folders:
            print(mirror(folder, tracker, Path(output) if output else None))
    except (ValueError, OSError) as problem:
        raise UserError(str(problem)) from problem
    return 0
