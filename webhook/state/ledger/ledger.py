"""Ledger of one cap: the used amounts, the reservations and their sums; and the drift that a recount finds.

Drift is usage that no reservation covered: pods that came under a cap without a charge to it.
"""

from collections.abc import Iterable
from enum import StrEnum
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.accounting.charge import ConsumerKind
from tallygate.webhook.accounting.claim_charge import NO_MAPPINGS, ClassMappings
from tallygate.webhook.accounting.names import ALLOCATED_MARK

_NO_AMOUNTS = Amounts()


class Operation(StrEnum):
    """The operation that a reservation is for: the creation of a consumer, or an update of one."""

    CREATE = "create"
    UPDATE = "update"


class Reservation(msgspec.Struct, frozen=True):
    """The reserved amounts of one consumer, a pod, a claim or a workload, that `used` does not count yet.

    The consumer is counted with `counted` and may use `requested`. A claim that kube-scheduler made for the pod
    `pod_uid` is counted with the part of that pod, as long as `used` does not have the claim itself. `attempt` is the
    nonce of the attempt that wrote the reservation last; `single_attempt` is True if no other attempt wrote it.

    The reservation of a workload is for all its pods together (rule 11): its `counted` are the amounts that its pods
    have taken over. `workload_kind` is the API version and kind of the workload, as `batch/v1/Job`, and empty for other
    consumers. `counted_pods` are the marks of the pods that took over amounts and are counted: a late attempt for one
    of them takes over nothing more.
    `workload` is the UID of the workload from whose reservation a pod has taken over the amounts `taken`.
    """

    namespace: str
    name: str
    counted: Amounts
    requested: Amounts
    attempt: str
    single_attempt: bool
    operation: Operation
    kind: ConsumerKind = ConsumerKind.POD
    pod_uid: str = ""
    workload_kind: str = ""
    workload: str = ""
    taken: Amounts = _NO_AMOUNTS
    counted_pods: frozenset[str] = frozenset()

    def compute_reserved(self) -> Amounts:
        """Return the amounts that it adds to `used`: max(0, requested - counted)."""
        return self.requested.find_shortfall(self.counted)


class Surge(msgspec.Struct, frozen=True):
    """The amounts above `hard` that are open to pods of a controller that rolls (rule 12).

    `since` is the time, in seconds of the Unix epoch, at which such a pod first exceeded `hard`; None while the ledger
    charges no more than that.
    """

    amounts: Amounts = _NO_AMOUNTS
    since: int | None = None


NO_SURGE = Surge()


class Remapping(msgspec.Struct, frozen=True):
    """The names under which `used` may have consumers that passed no guard: classes had other mappings before.

    `mark` identifies the recount that changed the mappings last, so that observers can tell how old that is.
    """

    names: frozenset[str] = frozenset()
    mark: str = ""


NO_REMAPPING = Remapping()


class Ledger(msgspec.Struct, frozen=True):
    """The used amounts and the reservations of one cap.

    `resources` are the names that `used` counts, and the ways to a device that count under a name (rule 8).
    `pods_revision`, `claims_revision` and `namespaces_revision` are the revisions at which it was counted,
    `namespaces_hash` is a hash of the member namespaces at that time. `initializer` is the nonce of the creator of a
    ledger whose past is unknown (rule 7), and empty once it may reserve. `reservations` are by the UID of the consumer.
    `reserved` is the sum of all that they add to `used`, `reserved_by_namespace` the same by namespace: both are
    updated by difference, and never summed at a write. `unconfirmed` is the part of `used` that may be counted twice:
    claims that seem to be the scheduler's for pods, before the pods' statuses name them. `unpublished` are the amounts
    by UID of claims with devices that no slice publishes any more, under the names that count devices by attributes.
    `surge` is what pods of a controller that rolls may use above `hard`. `mappings` are the mappings of device classes
    by which it counts: those of now, and former ones as long as a consumer counts by them. `remapping` are the names
    whose allocations are decided, since mappings were added (rule 10).
    """

    hard: Amounts
    used: Amounts = msgspec.field(default_factory=Amounts)
    reservations: MappingProxyType[str, Reservation] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    reserved: Amounts = msgspec.field(default_factory=Amounts)
    reserved_by_namespace: MappingProxyType[str, Amounts] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    resources: frozenset[str] = frozenset()
    pods_revision: int = 0
    namespaces_revision: int = 0
    namespaces_hash: str = ""
    initializer: str = ""
    claims_revision: int = 0
    unconfirmed: Amounts = msgspec.field(default_factory=Amounts)
    unpublished: MappingProxyType[str, Amounts] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    surge: Surge = NO_SURGE
    mappings: ClassMappings = NO_MAPPINGS
    remapping: Remapping = NO_REMAPPING

    def compute_charged(self) -> Amounts:
        """Return the amounts that count against the cap: used + Σ max(0, requested - counted)."""
        return self.used + self.reserved

    def with_reservation(self, uid: str, reservation: Reservation | None) -> "Ledger":
        """Return the ledger with this reservation of a consumer in place of an earlier one, or without it for None."""
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
        return Ledger(  # `replace` takes ten times as long, and every reservation comes here
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
            self.claims_revision,
            self.unconfirmed,
            self.unpublished,
            self.surge,
            self.mappings,
            self.remapping,
        )

    def with_reservations(self, reservations: Iterable[tuple[str, Reservation]]) -> "Ledger":
        """Return the ledger with these reservations in place of its own, and with new sums.

        It is for callers that iterate over all reservations anyway.
        """
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
    """Return the rest of a sum; a name of which nothing remains is absent, so that sums do not grow for ever."""
    return amounts.find_shortfall(removed) if removed else amounts


def _set_or_remove(by_namespace: dict[str, Amounts], namespace: str, amounts: Amounts) -> None:
    if amounts:
        by_namespace[namespace] = amounts
    else:
        by_namespace.pop(namespace, None)


_NO_DRIFT = Amounts()


def compute_drift(before: Ledger, after: Ledger) -> Amounts:
    """Return the amounts by which `used` exceeds all that was charged before, by name; empty if nothing does.

    `after` was stored in the place of `before`. The drift is the minimum that bypassed the gate: pods that ended
    meanwhile, and open reservations, may hide some. A decrease of `used` is no drift, since any pod may end. An
    increase is no sign of drift if the past of the ledger is unknown, if its member namespaces have changed, or for a
    name that was not counted before, or by another definition. Nor is it if claims have changed: one that loses its
    devices counts the most that it may get again (rule 10). Nor for a name that counts devices by attributes: a driver
    may change these.
    """
    if after.used is before.used or before.initializer or before.namespaces_hash != after.namespaces_hash:
        return _NO_DRIFT  # most writes recount nothing, and keep the same object in `used`
    if after.claims_revision != before.claims_revision or after.unconfirmed:
        return _NO_DRIFT
    growth = after.used.find_shortfall(before.compute_charged())
    if not growth:
        return growth
    by_allocation = {text.partition("=")[0] for text in after.resources if ALLOCATED_MARK in text}
    redefined = {text.partition("=")[0] for text in after.resources - before.resources}
    return Amounts({name: growth[name] for name in (growth.keys() & before.resources) - by_allocation - redefined})
