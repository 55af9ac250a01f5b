"""An estimate of energy from counts of operations, with its constants beside it.

    E = 4.6 pJ x MAC + 0.9 pJ x synaptic operation

32-bit arithmetic in 45 nm (Horowitz 2014): a multiplication takes 3.7 and an addition 0.9 picojoules, a
multiply-accumulate both; a spike only adds its weight. Memory traffic, which usually costs more than the arithmetic, is
left out, so this compares networks and measures none.
"""

from typing import Any, NamedTuple

from continual.errors import UserError

PICOJOULES_PER_MAC = 4.6
PICOJOULES_PER_SYNAPTIC_OPERATION = 0.9


def estimated_energy(
    synaptic_operations: float | None,
    macs: float | None,
    per_mac: float = PICOJOULES_PER_MAC,
    per_synaptic_operation: float = PICOJOULES_PER_SYNAPTIC_OPERATION,
) -> float | None:
    """Estimate the energy of one test sample from its operations.

    Args:
        synaptic_operations: per sample, or None where not counted.
        macs: per sample, or None; an operation must be in one of the two counts, not in both.
        per_mac: picojoules.
        per_synaptic_operation: picojoules.

    Returns:
        Joules; None where neither was counted.
    """
    if synaptic_operations is None and macs is None:
        return None
    return (per_mac * (macs or 0.0) + per_synaptic_operation * (synaptic_operations or 0.0)) * 1e-12


class Picojoules(NamedTuple):
    """What an operation costs.

    Attributes:
        per_mac: picojoules of a multiply-accumulate.
        per_synaptic_operation: picojoules of an addition that a spike causes.
    """

    per_mac: float = PICOJOULES_PER_MAC
    per_synaptic_operation: float = PICOJOULES_PER_SYNAPTIC_OPERATION


def constants_from(description: Any) -> Picojoules:
    """Read the constants of a configuration, `energy={per_mac: 4.6, per_synaptic_operation: 0.9}`.

    Raises:
        UserError: if a key is unknown or a value is no number of at least 0.
    """
    given = description if isinstance(description, dict) else {"energy": description}
    for key, value in given.items():
        if key not in Picojoules._fields:
            raise UserError(f"energy has the keys {', '.join(Picojoules._fields)}, got {key!r}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise UserError(f"energy.{key} must be picojoules of at least 0, got {value!r}.")
    return Picojoules(**given)


def energy_report(synaptic_operations: float, macs: float, constants: Picojoules) -> dict[str, Any]:
    """Give the estimate for one test sample with the constants it stands on, for `metrics.json`."""
    return {
        "energy_joules_estimate": estimated_energy(synaptic_operations, macs, *constants),
        "energy_picojoules_per_mac": constants.per_mac,
        "energy_picojoules_per_synaptic_operation": constants.per_synaptic_operation,
    }
