"""What happens over a sequence of tasks: data, scenarios, strategies, runner, metrics, reports.

`run`, `load`, `tune` and `fork` are imported at first use, so that `import continual` and the quick commands do not
wait for torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continual.api import Result, load, run
    from continual.forking import fork
    from continual.tuning import Trial, tune

__all__ = ["Result", "Trial", "fork", "load", "run", "tune"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        place = {"Trial": "tuning", "tune": "tuning", "fork": "forking"}.get(name, "api")
        return getattr(import_module(f"continual.{place}"), name)
    raise AttributeError(f"module 'continual' has no attribute {name!r}")
