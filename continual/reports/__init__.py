"""Reports of run folders: tables for the terminal, figures, one self-contained page, and comparisons of many runs."""

from .compare import compare
from .page import estimated_energy, write_report
from .run_folder import Activity, RunFolder, read_run
from .tables import comparison_table, run_table

__all__ = [
    "Activity",
    "RunFolder",
    "compare",
    "comparison_table",
    "estimated_energy",
    "read_run",
    "run_table",
    "write_report",
]
