"""The rules by which a new cap counts first, and is active then (rule 7)."""

from tests.state.simulation.scenario import B


def is_cap_new(was_recorded: bool) -> bool:  # noqa: FBT001  # a rule has positional arguments
    """Return whether a cap was never active, by the record as this attempt read it."""
    return not was_recorded


def may_be_active(is_new: bool, is_recorded: bool) -> bool:  # noqa: FBT001  # a rule has positional arguments
    """Return whether a ledger may become active, that of a new cap or another one, by the record."""
    return is_recorded or not is_new


def is_list_complete(listed_at: float, loaded_at: float) -> bool:
    """Return whether a list has all pods that were accepted without the cap, which every replica had `loaded_at`."""
    return listed_at >= loaded_at + B
