"""The most that one namespace can ever have under a cap: the limit without what is guaranteed to all others (rule 15).

The guard leaves the unspent guarantees of others free. While the others use nothing, these are all of their guarantees,
and more use never makes the sum of both smaller. So a request above this amount never passes, whatever ends.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, format_amount
from tallygate.admission.cap_index import ActiveCap
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.reserve import list_guarantees

_NOTHING: Mapping[str, int] = MappingProxyType({})
_EMPTY = Ledger(NO_AMOUNTS)
_MAX_OWNERS = 3
"""The number of namespaces with a guarantee that a message names."""
OTHERS = "other namespaces"


class GuaranteedToOthers(msgspec.Struct, frozen=True):
    """The guarantees of other namespaces under one name: the unspent ones and all, by namespace.

    `later` is the sum of all by the largest limit from now on: a guarantee may be a percentage.
    """

    unspent: Mapping[str, int] = _NOTHING
    amounts: Mapping[str, int] = _NOTHING
    later: int = 0

    @property
    def total(self) -> int:
        """The sum of all guarantees by the limit of now."""
        return sum(self.amounts.values())


NOTHING_GUARANTEED = GuaranteedToOthers()


class Reach(NamedTuple):
    """The most of one name that a namespace may have: `now` by the limit of now, `ever` by the largest one to come.

    Both are below 0 if more than the limit is guaranteed to others. `hard` is the limit of now.
    """

    hard: int
    now: int
    ever: int
    guaranteed: GuaranteedToOthers = NOTHING_GUARANTEED


def find_guaranteed(
    cap: ActiveCap, name: str, ledger: Ledger, members: frozenset[str], namespace: str
) -> GuaranteedToOthers:
    """Return what is guaranteed to others than `namespace` under a name: by the ledger, or more by the policy here.

    `members` are the member namespaces of the ledger, empty if they are not known: then those with a guarantee in the
    ledger.
    """
    found, reserved = list_guarantees(ledger, cap.resolve_guarantees(members)), ledger.reserved_by_namespace
    unspent = max((each.list_unspent(name, reserved, namespace) for each in found), key=lambda by: sum(by.values()))
    amounts = max((each.list_besides(name, namespace) for each in found), key=lambda by: sum(by.values()))
    later = cap.resolve_most_guarantees(members or frozenset(ledger.guarantees.amounts))
    return GuaranteedToOthers(
        unspent, amounts, sum(guaranteed.get(name, 0) for owner, guaranteed in later.items() if owner != namespace)
    )


def compute_reach(cap: ActiveCap, name: str, hard: int, guaranteed: GuaranteedToOthers = NOTHING_GUARANTEED) -> Reach:
    """Return the most of a name that a namespace may have, to which nothing of `guaranteed` belongs."""
    now, most = hard - guaranteed.total, cap.limits.get_most(name)
    return Reach(hard, now, max(now, most - guaranteed.later) if most > hard else now, guaranteed)


class GuaranteeFinder(NamedTuple):
    """The guarantees of others than one namespace, for forecasts: by the ledgers that can be read, and the members."""

    namespace: str
    read_ledger: Callable[[ActiveCap], Ledger | None]
    find_members: Callable[[ActiveCap], frozenset[str]]

    def find(self, cap: ActiveCap, name: str) -> GuaranteedToOthers:
        """Return what is guaranteed to others under a name of a cap."""
        if not cap.definition.guarantee:
            return NOTHING_GUARANTEED
        return find_guaranteed(cap, name, self.read_ledger(cap) or _EMPTY, self.find_members(cap), self.namespace)

    def find_reach(self, cap: ActiveCap, name: str) -> Reach:
        """Return the most of a name that the namespace may have under a hard limit of a cap."""
        return compute_reach(cap, name, cap.hard[name], self.find(cap, name))


def describe_owners(amounts: Mapping[str, int], cap: ActiveCap) -> str:
    """Return the namespaces to which amounts are guaranteed, the largest first, as far as messages may name them."""
    if not cap.definition.shows_top_consumers:
        return OTHERS
    names = sorted(amounts, key=lambda namespace: (-amounts[namespace], namespace))
    more = len(names) - _MAX_OWNERS
    owners = ", ".join(f"namespace {namespace}" for namespace in names[:_MAX_OWNERS])
    return owners + (f" and {more} more namespace{'s' * (more != 1)}" if more > 0 else "")


def describe_reach(cap: ActiveCap, name: str, reach: Reach, requested: int) -> str:
    """Return the sentence that a namespace never has so much, and whose guarantees are why; else an empty text.

    It is empty too if the limits alone never allow what is requested.
    """
    if not reach.ever < requested <= max(reach.hard, cap.limits.get_most(name)):
        return ""
    owners = describe_owners(reach.guaranteed.amounts, cap)
    if reach.ever <= 0:
        return f"All of the cap is guaranteed to {owners}. "
    return f"This namespace never has more than {format_amount(name, reach.ever)}: the rest is guaranteed to {owners}. "


def describe_share(cap: ActiveCap, name: str, reach: Reach) -> str:
    """Return the part of a limit that is guaranteed to others, and to whom; empty if nothing is."""
    amounts = reach.guaranteed.amounts
    return describe_part(name, reach.guaranteed.total, amounts, cap)


def describe_part(name: str, part: int, amounts: Mapping[str, int], cap: ActiveCap) -> str:
    """Return a part that is guaranteed to the namespaces of these amounts, as the end of a clause; empty for none."""
    if not part:
        return ""
    amount = format_amount(name, part)
    return f", of which {amount} {'is' if amount == '1' else 'are'} guaranteed to {describe_owners(amounts, cap)}"
