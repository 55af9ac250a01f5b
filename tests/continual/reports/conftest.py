"""Made-up run folders, as fixtures."""

import pytest
from fake_runs import write_fake_run


@pytest.fixture
def fake_run(tmp_path):
    """Give a function that writes a made-up run folder below the test's own folder."""

    def write(name="run", **arguments):
        return write_fake_run(tmp_path / name, **arguments)

    return write


@pytest.fixture(scope="session")
def reported_run(tmp_path_factory):
    """Write one made-up run with hostile names and its report, once for all tests that only read it."""
    from continual.reports import write_report

    names = [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(2)>',
        "costs $5 & $\\frac{",
        "plain",
        "[red]brackets[/red]",
    ]
    folder = write_fake_run(
        tmp_path_factory.mktemp("reported") / "run", names=names, changes={"note": "</pre><script>x"}
    )
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def seeded_runs(tmp_path_factory):
    """Write made-up runs of four strategies with three seeds each, once for all tests that only read them."""
    root = tmp_path_factory.mktemp("seeded")
    return {
        (strategy, seed): write_fake_run(root / f"{strategy}-{seed}", strategy=strategy, seed=seed, num_tasks=4)
        for strategy in ("naive", "ewc", "hlop", "joint")
        for seed in (0, 1, 2)
    }
