"""Reports of run folders: figures and one self-contained page of a run, comparisons and collected tables of many."""

from .collect import Collected, Skipped, accuracy_rows, collect, find_runs, run_rows
from .collected_files import FORMATS, write_collected
from .compare import compare
from .page import write_report
from .run_folder import Activity, RunFolder, read_run
from .tables import comparison_table, run_table

__all__ = [
    "FORMATS",
    "Activity",
    "Collected",
    "RunFolder",
    "Skipped",
    "accuracy_rows",
    "collect",
    "compare",
    "comparison_table",
    "find_runs",
    "read_run",
    "run_rows",
    "run_table",
    "write_collected",
    "write_report",
]
