"""Ledger of one cap: the used amounts, the reservations and their sums; and the drift that a recount finds.

Drift is usage that no reservation covered: pods that came under a cap without a charge to it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.claim_charge import NO_MAPPINGS, ClassMappings
from tallygate.accounting.names import ALLOCATED_MARK
from tallygate.state.ledger.guarantees import NO_GUARANTEES, Guarantees

SharedName = tuple[str, ConsumerKind, str]
"""The namespace, kind and name of pods or claims of which the API server stores one at a time."""


class Operation(StrEnum):
    """The operation that a reservation is for: the creation of a consumer, or an update of one."""

    CREATE = "create"
    UPDATE = "update"


class Reservation(msgspec.Struct, frozen=True):
    """The reserved amounts of one consumer, a pod, a claim or a workload, that `used` does not count yet.

    The consumer is counted with `counted` and may use `requested`. A claim that kube-scheduler made for the pod
    `pod_uid` is counted with the part of that pod, as long as `used` does not have the claim itself. So is a pod that
    may be stored after the counted pod `pod_uid` of its name (rule 13). The part of one pod never covers both.
    `attempt` is the nonce of the attempt that wrote the reservation last; `single_attempt` is True if no other attempt
    wrote it.

    The reservation of a workload is for all its pods together (rule 11): its `counted` are the amounts that its pods
    have taken over. `workload_kind` is the API version and kind of the workload, as `batch/v1/Job`, and empty for other
    consumers. `counted_pods` are the marks of the pods that took over amounts and are counted: a late attempt for one
    of them takes over nothing more.
    `workload` is the UID of the workload from whose reservation a pod has taken over the amounts `taken`.

    Attempts of one name share what they need (rule 13): the API server stores one object of a name at a time.
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
    taken: Amounts = NO_AMOUNTS
    counted_pods: frozenset[str] = frozenset()

    def compute_reserved(self) -> Amounts:
        """Return the amounts that it adds to `used`: max(0, requested - counted)."""
        return self.requested.find_shortfall(self.counted)

    @property
    def is_of_pod(self) -> bool:
        """Whether it is that of a claim which kube-scheduler made for a pod."""
        return bool(self.pod_uid) and self.kind is ConsumerKind.CLAIM

    @property
    def shared_name(self) -> SharedName | None:
        """The name whose reservations need the largest amounts of them, and not their sum; None if it is alone.

        A workload is alone, since pods of a deleted one may still come. So is a pod that took over amounts from its
        workload, and gives back as many, and a claim that is counted with a part of its pod.
        """
        if self.kind is ConsumerKind.WORKLOAD or self.workload or self.is_of_pod or not self.name:
            return None
        return self.namespace, self.kind, self.name

    @property
    def is_linked(self) -> bool:
        """Whether a recount changes it by more than the counted amounts or the deletion of its own consumer.

        It is linked to other consumers, or has amounts of an earlier count.
        """
        return bool(self.counted or self.pod_uid or self.workload) or self.kind is ConsumerKind.WORKLOAD


class NameAttempts(NamedTuple):
    """The consumers with a reservation of one name, by their UIDs, and the largest amounts of these."""

    uids: frozenset[str]
    reserved: Amounts


class Surge(msgspec.Struct, frozen=True):
    """The amounts above `hard` that are open to pods of a controller that rolls (rule 12).

    `since` is the time, in seconds of the Unix epoch, at which such a pod first exceeded `hard`; None while the ledger
    charges no more than that.
    """

    amounts: Amounts = NO_AMOUNTS
    since: int | None = None


NO_SURGE = Surge()


class Remapping(msgspec.Struct, frozen=True):
    """The names under which `used` may have consumers that passed no guard: classes had other mappings before.

    `mark` identifies the recount that changed the mappings last, so that observers can tell how old that is.
    """

    names: frozenset[str] = frozenset()
    mark: str = ""


NO_REMAPPING = Remapping()


class Activation(msgspec.Struct, frozen=True):
    """The state of a ledger that is not active (rule 7).

    `is_new` is True if its creator found that the cap was never active: then it reserves without a limit. `expected_at`
    is the time, in seconds of the Unix epoch, at which it is expected to be active; 0 if nothing is known of it.
    """

    is_new: bool = False
    expected_at: int = 0


NO_ACTIVATION = Activation()


class Ledger(msgspec.Struct, frozen=True):
    """The used amounts and the reservations of one cap.

    `resources` are the names that `used` counts, and the ways to a device that count under a name (rule 8).
    `pods_revision`, `claims_revision` and `namespaces_revision` are the revisions at which it was counted,
    `namespaces_hash` is a hash of the member namespaces at that time. `initializer` is the nonce of the creator of a
    ledger that is not active (rule 7), and empty once it is; `activation` has more of that state. `reservations` are by
    the UID of the consumer. `reserved` is the sum of all that they add to `used`, `reserved_by_namespace` the same by
    namespace: both are updated by difference, and never summed at a write. Of several reservations of one name only the
    largest amounts are in these sums (rule 13); `attempts_by_name` has them. `numbers_by_namespace` are the numbers of
    reservations, `linked` the UIDs of those that are linked; both are updated by difference, too. `unconfirmed` is the
    part of `used` that may be counted twice: claims that seem to be the scheduler's for pods, before the pods' statuses
    name them.
    `unpublished` are the amounts by UID of claims with devices that no slice still publishes, under the names that
    count devices by attributes. `surge` is what pods of a controller that rolls may use above `hard`. `mappings` are
    the mappings of device classes by which it counts: those of now, and former ones as long as a consumer counts by
    them. `remapping` are the names whose allocations are decided, since mappings were added (rule 10). `guarantees` are
    those of its members, with the part of `used` of each (rule 15).
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
    attempts_by_name: MappingProxyType[SharedName, NameAttempts] = msgspec.field(
        default_factory=lambda: MappingProxyType({})
    )
    activation: Activation = NO_ACTIVATION
    numbers_by_namespace: MappingProxyType[str, int] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    linked: frozenset[str] = frozenset()
    guarantees: Guarantees = NO_GUARANTEES

    @property
    def counts_first(self) -> bool:
        """Whether it is the ledger of a new cap, which reserves without a limit until it is active."""
        return bool(self.initializer) and self.activation.is_new

    def compute_charged(self) -> Amounts:
        """Return the amounts that count against the cap: used + Σ max(0, requested - counted)."""
        return self.used + self.reserved

    def compute_taken(self, namespace: str) -> Amounts:
        """Return the amounts that are not free for a namespace: the charge, and the unspent guarantees of others."""
        charged = self.used + self.reserved
        unspent = self.guarantees.compute_unspent(self.reserved_by_namespace, namespace)
        return charged + {name: amount for name, amount in unspent.items() if amount}

    def count_attempts(self, uid: str) -> int:
        """Return the number of reservations that share their amounts with that of a consumer, itself included."""
        name = self.reservations[uid].shared_name
        return 1 if name is None else len(self.attempts_by_name[name].uids)

    def compute_reserved_with(self, uid: str) -> Amounts:
        """Return the amounts that the reservation of a consumer, and others of its name, add to `used`."""
        reservation = self.reservations[uid]
        name = reservation.shared_name
        return reservation.compute_reserved() if name is None else self.attempts_by_name[name].reserved

    def list_reserved(self) -> Iterator[tuple[str, Amounts]]:
        """Yield the UID of each reservation and what it adds to `used`; the first of several of one name adds all."""
        listed = set[SharedName]()
        for uid, reservation in self.reservations.items():
            name = reservation.shared_name
            if name is None:
                yield uid, reservation.compute_reserved()
            elif name not in listed:
                listed.add(name)
                yield uid, self.attempts_by_name[name].reserved

    def with_reservation(self, uid: str, reservation: Reservation | None) -> "Ledger":
        """Return the ledger with this reservation of a consumer in place of an earlier one, or without it for None."""
        before = self.reservations.get(uid)
        if reservation is None and before is None:
            return self
        sums = self._copy_sums()
        if before is not None:
            sums.remove(uid, before)
        if reservation is not None:
            sums.add(uid, reservation)
        return Ledger(  # `replace` takes ten times as long, and every reservation comes here
            self.hard,
            self.used,
            MappingProxyType(sums.reservations),
            sums.reserved,
            MappingProxyType(sums.by_namespace),
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
            MappingProxyType(sums.attempts_by_name),
            self.activation,
            MappingProxyType(sums.numbers_by_namespace),
            sums.linked,
            self.guarantees,
        )

    def with_changes(self, changes: Mapping[str, Reservation | None]) -> "Ledger":
        """Return the ledger with some of its reservations replaced, or removed for None.

        Few change in most recounts, so the sums are updated by difference.
        """
        if not changes:
            return self
        sums = self._copy_sums()
        for uid, after in changes.items():
            sums.remove(uid, self.reservations[uid])
            if after is not None:
                sums.add(uid, after)
        return replace(
            self,
            reservations=MappingProxyType(sums.reservations),
            reserved=sums.reserved,
            reserved_by_namespace=MappingProxyType(sums.by_namespace),
            attempts_by_name=MappingProxyType(sums.attempts_by_name),
            numbers_by_namespace=MappingProxyType(sums.numbers_by_namespace),
            linked=sums.linked,
        )

    def _copy_sums(self) -> "_Sums":
        # dict() takes thirty times as long
        return _Sums(
            self.reservations.copy(),
            self.reserved,
            self.reserved_by_namespace.copy(),
            self.attempts_by_name.copy(),
            self.numbers_by_namespace.copy(),
            self.linked,
        )

    def with_reservations(self, reservations: Iterable[tuple[str, Reservation]]) -> "Ledger":
        """Return the ledger with these reservations in place of its own, and with new sums.

        It is for callers that iterate over all reservations anyway.
        """
        by_uid = dict(reservations)
        attempts_by_name: dict[SharedName, NameAttempts] = {}
        reserved: dict[str, int] = {}
        by_namespace: dict[str, dict[str, int]] = {}
        for uid, reservation in by_uid.items():
            name, added = reservation.shared_name, reservation.compute_reserved()
            if name is not None:
                added = _add_attempt(attempts_by_name, name, uid, added)
            in_namespace = by_namespace.setdefault(reservation.namespace, {})
            for resource, amount in added.items():
                reserved[resource] = reserved.get(resource, 0) + amount
                in_namespace[resource] = in_namespace.get(resource, 0) + amount
        sums = {namespace: Amounts(amounts) for namespace, amounts in by_namespace.items() if amounts}
        return replace(
            self,
            reservations=MappingProxyType(by_uid),
            reserved=Amounts(reserved),
            reserved_by_namespace=MappingProxyType(sums),
            attempts_by_name=MappingProxyType(attempts_by_name),
            numbers_by_namespace=MappingProxyType(dict(Counter(entry.namespace for entry in by_uid.values()))),
            linked=frozenset(uid for uid, entry in by_uid.items() if entry.is_linked),
        )


class _Sums:
    """The reservations of a ledger and their sums, while one of them changes."""

    __slots__ = ("attempts_by_name", "by_namespace", "linked", "numbers_by_namespace", "reservations", "reserved")

    def __init__(  # noqa: PLR0913, PLR0917  # the parts of a ledger
        self,
        reservations: dict[str, Reservation],
        reserved: Amounts,
        by_namespace: dict[str, Amounts],
        attempts_by_name: dict[SharedName, NameAttempts],
        numbers_by_namespace: dict[str, int],
        linked: frozenset[str],
    ) -> None:
        self.reservations = reservations
        self.reserved = reserved
        self.by_namespace = by_namespace
        self.attempts_by_name = attempts_by_name
        self.numbers_by_namespace = numbers_by_namespace
        self.linked = linked

    def remove(self, uid: str, reservation: Reservation) -> None:
        """Remove a reservation: of several of one name the largest amounts remain."""
        name, removed = reservation.shared_name, reservation.compute_reserved()
        if name is not None:
            removed = self._remove_attempt(name, uid)
        del self.reservations[uid]
        self.reserved = _subtract(self.reserved, removed)
        in_namespace = self.by_namespace.get(reservation.namespace, NO_AMOUNTS)
        _set_or_remove(self.by_namespace, reservation.namespace, _subtract(in_namespace, removed))
        number = self.numbers_by_namespace.pop(reservation.namespace) - 1
        if number:
            self.numbers_by_namespace[reservation.namespace] = number
        self.linked -= {uid}

    def add(self, uid: str, reservation: Reservation) -> None:
        """Add a reservation: of several of one name the largest amounts count."""
        name, added = reservation.shared_name, reservation.compute_reserved()
        if name is not None:
            added = _add_attempt(self.attempts_by_name, name, uid, added)
        self.reservations[uid] = reservation
        self.reserved = self.reserved + added
        in_namespace = self.by_namespace.get(reservation.namespace, NO_AMOUNTS)
        _set_or_remove(self.by_namespace, reservation.namespace, in_namespace + added)
        number = self.numbers_by_namespace.get(reservation.namespace, 0)
        self.numbers_by_namespace[reservation.namespace] = number + 1
        if reservation.is_linked:
            self.linked |= {uid}

    def _remove_attempt(self, name: SharedName, uid: str) -> Amounts:
        """Remove an attempt of a name, and return what the name reserves less. Mostly the next one needs as much."""
        before = self.attempts_by_name.pop(name)
        uids, left = before.uids - {uid}, NO_AMOUNTS
        for other in uids:
            left = left.merge_max(self.reservations[other].compute_reserved())
            if left == before.reserved:
                break
        if uids:
            self.attempts_by_name[name] = NameAttempts(uids, left)
        return before.reserved.find_shortfall(left)


def _add_attempt(
    attempts_by_name: dict[SharedName, NameAttempts], name: SharedName, uid: str, reserved: Amounts
) -> Amounts:
    before = attempts_by_name.get(name)
    if before is None:
        attempts_by_name[name] = NameAttempts(frozenset((uid,)), reserved)
        return reserved
    attempts_by_name[name] = NameAttempts(before.uids | {uid}, before.reserved.merge_max(reserved))
    return reserved.find_shortfall(before.reserved)


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
