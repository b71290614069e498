"""What a ledger is: tally, rows, and the sums that go along with them.

What a recount has found that nobody was promised: pods that came under a cap without being charged to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from webhook.accounting.amounts import Amounts

_NO_AMOUNTS = Amounts()


class Operation(StrEnum):
    """What a row promises: room for a pod to be created, or for one to change."""

    CREATE = "create"
    UPDATE = "change"


@dataclass(slots=True, unsafe_hash=True)  # never changed, like a ledger; to make a frozen one takes five times as long
class Reservation:
    """A reservation: one pod's promise that the tally does not count yet.

    The pod is counted with `base` and promised `to`; `by` is the nonce of the attempt that wrote it last, `sole`
    whether no other attempt did.
    """

    namespace: str
    name: str
    counted: Amounts
    requested: Amounts
    attempt: str
    single_attempt: bool
    operation: Operation

    def compute_reserved(self) -> Amounts:
        """What it adds to the tally: max(0, to - base)."""
        return self.requested.find_shortfall(self.counted)


@dataclass(slots=True, unsafe_hash=True)
class Ledger:
    """Tally plus reservations of one cap.

    `counts` are the names that the tally counts, `as_of` and `ns_as_of` the revisions of pods and namespaces at which
    it was counted, `members` a hash of the namespaces that the cap held then. `converging` is the nonce of who made a
    ledger whose past is not known (rule 7), and empty once it may promise. `rows` are by pod UID; `promised` is all
    that they add to the tally, `promised_in` the same by namespace: kept by difference, never added up at a write.
    """

    hard: Amounts
    used: Amounts = field(default_factory=Amounts)
    reservations: MappingProxyType[str, Reservation] = field(default_factory=lambda: MappingProxyType({}))
    reserved: Amounts = field(default_factory=Amounts)
    reserved_by_namespace: MappingProxyType[str, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    resources: frozenset[str] = frozenset()
    pods_revision: int = 0
    namespaces_revision: int = 0
    namespaces_hash: str = ""
    initializer: str = ""

    def compute_charged(self) -> Amounts:
        """What counts against the cap: tally + Σ max(0, to - base)."""
        return self.used + self.reserved

    def with_reservation(self, uid: str, reservation: Reservation | None) -> "Ledger":
        """The ledger with this pod's row put in place of what it had, or without any."""
        before = self.reservations.get(uid)
        if reservation is None and before is None:
            return self
        # dict() takes thirty times as long
        reservations, by_namespace, reserved = (
            self.reservations.copy(),
            self.reserved_by_namespace.copy(),
            self.reserved,
        )
        if before is not None:
            removed = before.compute_reserved()
            reserved = _subtract(reserved, removed)
            _set_or_remove(
                by_namespace, before.namespace, _subtract(by_namespace.get(before.namespace, _NO_AMOUNTS), removed)
            )
        if reservation is None:
            del reservations[uid]
        else:
            reservations[uid] = reservation
            added = reservation.compute_reserved()
            reserved = reserved + added
            _set_or_remove(
                by_namespace, reservation.namespace, by_namespace.get(reservation.namespace, _NO_AMOUNTS) + added
            )
        return Ledger(  # `replace` takes ten times as long, and every promise comes here
            self.hard,
            self.used,
            MappingProxyType(reservations),
            reserved,
            MappingProxyType(by_namespace),
            self.resources,
            self.pods_revision,
            self.namespaces_revision,
            self.namespaces_hash,
            self.initializer,
        )

    def with_reservations(self, reservations: Iterable[tuple[str, Reservation]]) -> "Ledger":
        """The ledger with these rows instead of its own, added up anew: for who looks at every row anyway."""
        by_uid = dict(reservations)
        reserved: dict[str, int] = {}
        by_namespace: dict[str, dict[str, int]] = {}
        for reservation in by_uid.values():
            in_namespace = by_namespace.setdefault(reservation.namespace, {})
            for name, amount in reservation.compute_reserved().items():
                reserved[name] = reserved.get(name, 0) + amount
                in_namespace[name] = in_namespace.get(name, 0) + amount
        sums = {namespace: Amounts(amounts) for namespace, amounts in by_namespace.items() if amounts}
        return replace(
            self,
            reservations=MappingProxyType(by_uid),
            reserved=Amounts(reserved),
            reserved_by_namespace=MappingProxyType(sums),
        )


def _subtract(amounts: Amounts, removed: Amounts) -> Amounts:
    """What is left of a sum; a name of which nothing is left is absent, so that sums do not grow for ever."""
    return amounts.find_shortfall(removed) if removed else amounts


def _set_or_remove(by_namespace: dict[str, Amounts], namespace: str, amounts: Amounts) -> None:
    if amounts:
        by_namespace[namespace] = amounts
    else:
        by_namespace.pop(namespace, None)


_NO_DRIFT = Amounts()


def compute_drift(before: Ledger, after: Ledger) -> Amounts:
    """By how much a tally is larger than all that was charged before, by name; empty where that explains it.

    `after` was stored in the place of `before`. It is the least that came past the gate: pods that ended meanwhile, and
    promises that are still open, may hide some. A tally that shrinks is no drift, since any pod may end. Growth says
    nothing where the past of a ledger is not known, other namespaces draw on it now, or a name was not counted before.
    """
    if after.used is before.used or before.initializer or before.namespaces_hash != after.namespaces_hash:
        return _NO_DRIFT  # most writes count nothing anew, and keep the very tally
    growth = after.used.find_shortfall(before.compute_charged())
    return Amounts({name: amount for name, amount in growth.items() if name in before.resources})
