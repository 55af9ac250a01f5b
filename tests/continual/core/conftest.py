"""What hundreds of tiny runs can do without: reports, and waiting for the disk; signals are given back."""

import os
import signal

import pytest


@pytest.fixture(autouse=True)
def _no_wait_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(autouse=True)
def _no_report(request, monkeypatch):
    if "real_reports" in request.fixturenames:
        return
    import continual.reports

    monkeypatch.setattr(continual.reports, "write_report", lambda folder: folder / "report.html")
    monkeypatch.setattr(continual.reports, "compare", lambda folders, output: output / "comparison.html")


@pytest.fixture
def real_reports():
    """Ask for this where the report itself matters; it takes seconds."""


@pytest.fixture(autouse=True)
def _signals_given_back():
    """Python's own answer to Ctrl-C, which a shell switches off for what it starts in the background."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
