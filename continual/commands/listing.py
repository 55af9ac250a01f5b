"""`list` and `data`: what there is to choose from, and which data is here."""

from continual.errors import UserError


def list_choices(words: list[str], config_dir: str | None) -> int:
    """Print groups and their choices."""
    from continual.compose import GROUPS, choices

    for group in words or GROUPS:
        print(f"{group:<11} {'  '.join(choices(group, config_dir))}")
    return 0


def list_data(words: list[str]) -> int:
    """Print which data sets are here, and how to get the rest."""
    if words:
        raise UserError(f"data takes no arguments, got {' '.join(words)}.")
    from continual.data.inventory import inventory

    for entry in inventory():
        print(f"{entry.name:<26} {entry.status:<8} {entry.where or ''}")
        if entry.status != "ready":
            print(f"{'':<26} {'':<8} to get it: {entry.how_to_get}")
    return 0
