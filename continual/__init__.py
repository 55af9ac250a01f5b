"""What happens over a sequence of tasks: data, scenarios, strategies, runner, metrics, reports.

`run`, `load` and `tune` are imported at first use, so that `import continual` and the quick commands do not wait for
torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continual.api import Result, load, run
    from continual.tuning import Trial, tune

__all__ = ["Result", "Trial", "load", "run", "tune"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from continual import api, tuning

        return getattr(tuning if name in ("Trial", "tune") else api, name)
    raise AttributeError(f"module 'continual' has no attribute {name!r}")
