"""The rules by which claims count under the name that their class leads to (rules 8 and 10)."""

from collections.abc import Iterable

from tallygate.accounting.claim_charge import NO_MAPPINGS, ClassMappings
from tallygate.state.ledger.ledger import Ledger
from tests.state.simulation.scenario import X

CLASS = "gpu"
"""The class of all claims."""
MAPPED, ELSEWHERE, MISSING = "mapped", "elsewhere", "missing"
"""The states of the class: it leads to the counted resource, or to another one, or does not exist."""
MAPPINGS: ClassMappings = frozenset({(CLASS, X)})
"""The mappings of the class while it leads to the counted resource."""
_SOURCES = frozenset({f"{X}={CLASS}"})


def select_mappings(seen: str, recorded: ClassMappings) -> ClassMappings:
    """Rule 8: return the mappings to count by, of the class as it was seen, and of those that the ledger records."""
    return MAPPINGS | recorded if seen == MAPPED else recorded


def list_sources(mappings: ClassMappings) -> frozenset[str]:
    """Return the ways to a device that count by these mappings, as a ledger records them."""
    return _SOURCES if mappings else frozenset()


def is_class_known(seen: str) -> bool:
    """Rule 10: return whether a claim can be decided by the class as it was seen."""
    return seen != MISSING


def is_decided_again(ledger: Ledger, sources: frozenset[str]) -> bool:
    """Rule 10: return whether the allocation of a claim that counts the same before and after is decided."""
    return X in ledger.remapping.names or not ledger.resources >= sources


def end_mappings(ledger: Ledger, seen: str, counted: Iterable[int]) -> ClassMappings:
    """Rule 8: return the mappings that remain, by the class as it was seen, and by what the stored claims count."""
    is_reserved = any(X in each.requested for each in ledger.reservations.values())
    return ledger.mappings if seen == MAPPED or is_reserved or any(counted) else NO_MAPPINGS
