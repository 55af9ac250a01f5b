"""The tiny runs and the fixtures of `core` serve here too."""

import os
import sys
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parents[1] / name) for name in ("core", "strategies")]


@pytest.fixture(autouse=True)
def _no_wait_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(autouse=True)
def _no_report(monkeypatch):
    import continual.reports

    monkeypatch.setattr(continual.reports, "write_report", lambda folder: folder / "report.html")
