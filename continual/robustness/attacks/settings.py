"""Checks of what attacks are set to."""


def require_at_least_one(**numbers: int) -> None:
    """Refuse counts below 1.

    Raises:
        ValueError: naming the setting.
    """
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}.")


def require_positive(**numbers: float) -> None:
    """Refuse numbers that are not above 0.

    Raises:
        ValueError: naming the setting.
    """
    for name, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{name} must be above 0, got {number}.")


def require_share(**numbers: float) -> None:
    """Refuse numbers outside [0, 1].

    Raises:
        ValueError: naming the setting.
    """
    for name, number in numbers.items():
        if not 0 <= number <= 1:
            raise ValueError(f"{name} must lie in [0, 1], got {number}.")
