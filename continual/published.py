"""Whether a run reproduces a published number: a flag that only a run of the unaltered protocol can set.

A preset carries `published`: where the number stands, the number, and how far from it counts as the same. A run
compares its own configuration with the preset's and its own result with the number. Seeds, devices and the places of
files may differ; anything else that differs is an altered protocol, and its result verifies nothing.
"""

from collections.abc import Mapping
from typing import Any

from continual.config import NOT_HASHED

MEASURED_BESIDE = ("robustness", "robustness_every_task", "evaluate_future", "evaluate_every")
MAY_DIFFER = {*NOT_HASHED, *MEASURED_BESIDE, "seed", "order_seed"}
PLACES = ("root", "seed")
"""Last parts of keys below that say where files are, or which draw it is."""


def judged(config: Mapping[str, Any], preset: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Compare a finished run with what its preset says was published.

    Args:
        config: of the run, resolved.
        preset: the unaltered preset, resolved.
        metrics: of the run.

    Returns:
        For `metrics.json`: the published numbers, `verified`, and why not where it is false.
    """
    published = config["published"]
    found = {f"published_{name}": published[name] for name in ("source", "acc_final", "bwt")}
    altered = differences(config, preset)
    reason = f"the protocol was altered: {', '.join(altered)}" if altered else outside(published, metrics)
    return found | {"verified": not reason} | ({"unverified_because": reason} if reason else {})


def outside(published: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """Say which number lies outside the band; nothing where both lie inside."""
    for name in ("acc_final", "bwt"):
        wanted, band, value = published[name], published["tolerance"], metrics[name]
        if value is None or abs(100 * value - wanted) > band:
            shown = "undefined" if value is None else f"{100 * value:.2f}"
            return f"{name} is {shown} where {wanted} ± {band} was published"
    return ""


def differences(config: Mapping[str, Any], preset: Mapping[str, Any]) -> list[str]:
    """List the keys, as in `optimizer.lr`, in which a configuration differs from a preset."""
    one, other = _flat(config), _flat(preset)
    keys = sorted(one.keys() | other.keys())
    absent = object()
    return [key for key in keys if one.get(key, absent) != other.get(key, absent) and not _may_differ(key)]


def _may_differ(key: str) -> bool:
    return key.partition(".")[0] in MAY_DIFFER or key.rpartition(".")[2] in PLACES or key.endswith("_root")


def _flat(node: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {path: list(node) if isinstance(node, tuple) else node}
    flat: dict[str, Any] = {}
    for key, value in node.items():
        flat |= _flat(value, f"{path}.{key}" if path else str(key))
    return flat
