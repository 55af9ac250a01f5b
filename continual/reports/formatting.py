"""Numbers as people read them: one place decides digits, units and the sign for "nothing here".

Accuracies are printed in percent and their differences in percentage points; operations, bytes and seconds with a
prefix and three significant digits. None and NaN become a dash, never a zero.
"""

import math
from collections.abc import Callable

from continual.metrics import Interval

MISSING = "–"

_SHARES = ("acc_", "wc_acc", "min_acc", "robust_", "certified_")
_DIFFERENCES = ("bwt", "fwt", "forgetting", "intransigence", "plasticity", "stability_gap")


def is_missing(value: float | None) -> bool:
    """Return whether there is no number to print."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def percent(value: float | None, digits: int = 1) -> str:
    """Print a share in [0, 1] in percent.

    Args:
        value: The share, None or NaN.
        digits: After the decimal point.

    Returns:
        For example ``93.1 %`` with a space that does not break.
    """
    return MISSING if value is None or is_missing(value) else f"{100 * value:.{digits}f}\u00a0%"


def points(value: float | None, digits: int = 1) -> str:
    """Print a difference of shares in percentage points, always with its sign.

    Args:
        value: The difference in [-1, 1], None or NaN.
        digits: After the decimal point.

    Returns:
        For example ``−2.3`` with a true minus; zero has no sign.
    """
    if value is None or is_missing(value):
        return MISSING
    rounded = round(100 * value, digits)
    sign = "" if rounded == 0 else ("+" if rounded > 0 else "−")
    return f"{sign}{abs(rounded):.{digits}f}"


def count(value: float | None) -> str:
    """Print a number of operations or samples.

    Args:
        value: The number, None or NaN.

    Returns:
        For example ``950``, ``12.3 k`` or ``1.05 M``.
    """
    if value is None or is_missing(value):
        return MISSING
    if abs(value) < 1000:
        return f"{value:.0f}" if float(value).is_integer() else f"{value:.3g}"
    return _prefixed(value, 1000.0, ("", "k", "M", "G", "T", "P", "E"))


def data_size(value: float | None) -> str:
    """Print bytes, in powers of 1024.

    Args:
        value: The number of bytes, None or NaN.

    Returns:
        For example ``312 B`` or ``1.45 MiB``.
    """
    if value is None or is_missing(value):
        return MISSING
    return _prefixed(value, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB"))


def duration(value: float | None) -> str:
    """Print seconds.

    Args:
        value: Seconds, None or NaN.

    Returns:
        For example ``0.42 s``, ``12.3 s``, ``3 min 20 s`` or ``2 h 05 min``.
    """
    if value is None or is_missing(value):
        return MISSING
    if value < 60:
        return f"{value:.2f}\u00a0s" if value < 10 else f"{value:.1f}\u00a0s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60}\u00a0min\u00a0{whole % 60:02d}\u00a0s"
    return f"{whole // 3600}\u00a0h\u00a0{whole % 3600 // 60:02d}\u00a0min"


def energy(value: float | None) -> str:
    """Print joules.

    Args:
        value: Joules, None or NaN.

    Returns:
        For example ``1.20 µJ``.
    """
    if value is None or is_missing(value):
        return MISSING
    if value == 0:
        return "0\u00a0J"
    return _prefixed(value * 1e12, 1000.0, ("pJ", "nJ", "µJ", "mJ", "J"))


def formatter(name: str) -> Callable[[float | None], str]:
    """Choose how a metric of ``metrics.json`` is printed by its name.

    Args:
        name: For example ``acc_final`` or ``seconds_train``.

    Returns:
        A function from the number to its text.
    """
    if name.startswith(_DIFFERENCES):
        return points
    if name.startswith(_SHARES):
        return percent
    if name.startswith("seconds"):
        return duration
    if name.startswith("energy_joules"):
        return energy
    return data_size if "bytes" in name.split("_") else count


def with_interval(name: str, interval: Interval) -> str:
    """Print a mean over seeds with the half width of its interval, in the unit of the metric.

    Args:
        name: Of the metric.
        interval: Its mean and interval.

    Returns:
        For example ``93.1 % ± 0.4``; the mean alone where one seed gives no interval.
    """
    show = formatter(name)
    mean = show(interval.mean)
    if is_missing(interval.half_width) or (interval.half_width == 0 and show in (count, data_size)):
        return mean  # one seed, or a count that does not depend on the seed
    if show in (percent, points):
        return f"{mean} ± {100 * interval.half_width:.1f}"
    return f"{mean} ± {show(interval.half_width)}"


def _prefixed(value: float, base: float, prefixes: tuple[str, ...]) -> str:
    """Scale by powers of the base and keep three significant digits."""
    step = 0
    while abs(value) >= base * 0.9995 and step < len(prefixes) - 1:
        value /= base
        step += 1
    digits = (
        0 if abs(value) >= 99.95 or (step == 0 and float(value).is_integer()) else (1 if abs(value) >= 9.995 else 2)
    )
    return f"{value:.{digits}f}\u00a0{prefixes[step]}".rstrip()
