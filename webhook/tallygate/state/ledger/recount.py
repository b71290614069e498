"""Recounts (rule 4), the only way from reserved to used, and changes of the limits by a policy (rule 8).

Rule 8, policy changes: the leader writes the hard limits of the cap.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.claim_charge import NO_MAPPINGS, ClassMappings
from tallygate.state.ledger.gangs import is_complete, renew
from tallygate.state.ledger.guarantees import NOTHING_GUARANTEED, AmountsByNamespace, create_guarantees
from tallygate.state.ledger.ledger import NO_REMAPPING, NO_SURGE, Ledger, Operation, Remapping, Reservation, Surge
from tallygate.state.ledger.surges import end_surge

_MARK_DIGITS = 12

PodName = tuple[str, str]
"""The namespace and the name of a pod."""


class CountedPod(msgspec.Struct, frozen=True):
    """A stored pod, and its part of `used` in the count of one snapshot; empty if the part may cover nothing."""

    uid: str = ""
    part: Amounts = NO_AMOUNTS


NO_POD = CountedPod()


class UsageSnapshot(msgspec.Struct, frozen=True):
    """The used amounts of the consumers under one cap by one observer's watches: pods of one moment, claims of another.

    `pods_revision`, `claims_revision` and `namespaces_revision` are those of pods, claims and namespaces,
    `namespaces_hash` is the hash of the member namespaces of the cap in it. `used_by_consumer` are the amounts of
    `resources` that each pod and claim under the cap uses, by UID, nothing for ended pods, and `used` is the sum of
    them. `deleted` are UIDs whose deletion this very watch has shown; a snapshot that lacks some is valid, and its
    recounts keep reservations longer. A list that was continued inconsistently after a 410 is not a snapshot.
    `unconfirmed` is the part of `used` for claims that may belong to pods in it. `served` are the UIDs of the pods for
    which kube-scheduler seems to have made a claim that is counted here: the part of a pod covers one claim only.
    `holders` are the UIDs of the stored pods that have the names of pods with a reservation.
    `unpublished` are the amounts of claims with devices that no slice still publishes. `uncounted` are the names of
    `resources` that could not be counted, since a device is unknown. `mappings` are the mappings of device classes by
    which it is counted: those of the ledger among them. `used_by_namespace` is the part of `used` of each member
    that has a guarantee, by the ledger or by the policy of this observer.
    """

    pods_revision: int
    namespaces_revision: int
    namespaces_hash: str
    resources: frozenset[str]
    used_by_consumer: Mapping[str, Amounts]
    used: Amounts
    deleted: Collection[str] = frozenset()
    claims_revision: int = 0
    unconfirmed: Amounts = NO_AMOUNTS
    served: Collection[str] = frozenset()
    unpublished: Mapping[str, Amounts] = MappingProxyType({})
    uncounted: frozenset[str] = frozenset()
    mappings: ClassMappings = NO_MAPPINGS
    holders: Mapping[PodName, str] = MappingProxyType({})
    used_by_namespace: AmountsByNamespace = NOTHING_GUARANTEED

    def find_covering_part(self, pod_uid: str) -> Amounts:
        """Return the part of a pod in `used` that may cover a claim which kube-scheduler makes for it, and is not seen.

        Without such a claim it may cover the attempts of the pod's name.
        """
        return NO_AMOUNTS if pod_uid in self.served else self.used_by_consumer.get(pod_uid, NO_AMOUNTS)

    def find_holder(self, name: PodName, uid: str) -> CountedPod:
        """Return the stored pod of this name, with its part of `used` that may cover the creation of another one.

        There is no such pod if the one with `uid` is stored itself.
        """
        holder = self.holders.get(name, uid)
        return NO_POD if holder == uid else CountedPod(holder, self.find_covering_part(holder))


class StaleReason(StrEnum):
    """The reasons why a snapshot cannot replace the counted state of a ledger."""

    PODS = "the ledger was counted from newer pods"
    CLAIMS = "the ledger was counted from newer claims"
    NAMESPACES = "the ledger was counted from other and newer namespaces"
    RESOURCES = "the ledger counts names that this view does not"


@dataclass(frozen=True, slots=True)
class StaleSnapshot:
    """The result of a recount from a snapshot that is too old for the ledger."""

    reason: StaleReason


def recount(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    """Recount a ledger from one snapshot, and remove the reservations that are counted in it (rule 4).

    The reservation of a deleted consumer is removed. So is that of a creation whose consumer is stored: the creation
    may not add anything more. The reservation of a change stays, with the amounts that the consumer is counted with
    now, since the change may still be stored; so does that of a consumer that is not stored (yet). The snapshot has the
    pods of claims that kube-scheduler made, too: one such claim is counted with its pod until it is seen. The attempts
    of a name are counted with the part of the stored pod of that name, if no such claim may exist (rule 13).

    Older namespaces with the same members count the same: a watch of rarely changed objects is often behind by a
    minute.

    The reservation of a workload stays until its pods have taken over all of it, and are counted (rule 11).

    A mapping of a class that is new to the ledger may bring consumers into `used` that passed no guard: the names that
    it concerns are in `remapping` from then on.

    A name that could not be counted is no longer one that the ledger counts: nothing is charged under it before a
    recount has it again, as after a change of policies (rule 8).

    The guarantees of namespaces that are no members any more end (rule 15).
    """
    if snapshot.pods_revision < ledger.pods_revision:
        return StaleSnapshot(StaleReason.PODS)
    if snapshot.claims_revision < ledger.claims_revision:
        return StaleSnapshot(StaleReason.CLAIMS)
    if snapshot.namespaces_revision < ledger.namespaces_revision and snapshot.namespaces_hash != ledger.namespaces_hash:
        return StaleSnapshot(StaleReason.NAMESPACES)
    if not snapshot.resources >= ledger.resources:
        return StaleSnapshot(StaleReason.RESOURCES)
    recounted = replace(
        ledger,
        used=snapshot.used,
        resources=snapshot.resources - snapshot.uncounted,
        pods_revision=snapshot.pods_revision,
        namespaces_revision=max(snapshot.namespaces_revision, ledger.namespaces_revision),
        namespaces_hash=snapshot.namespaces_hash,
        claims_revision=snapshot.claims_revision,
        unconfirmed=snapshot.unconfirmed,
        unpublished=MappingProxyType(dict(snapshot.unpublished)),
        mappings=snapshot.mappings,
        remapping=_find_remapping(ledger, snapshot),
        guarantees=ledger.guarantees.recount(snapshot.used_by_namespace),
    )
    return end_surge(recounted.with_changes(_find_changes(ledger, snapshot)))


def _find_changes(ledger: Ledger, snapshot: UsageSnapshot) -> dict[str, Reservation | None]:
    """Return the reservations that a recount changes, None for those that it removes.

    Most reservations change only when their own consumer is counted or deleted, or a pod of their name is stored. So
    the recount of a ledger with a thousand of them looks at few.
    """
    concerned = ledger.reservations if ledger.linked else _select_concerned(ledger, snapshot)
    remaining = dict(_select_remaining(concerned, snapshot))
    return {uid: remaining.get(uid) for uid, reservation in concerned.items() if remaining.get(uid) is not reservation}


def _select_concerned(ledger: Ledger, snapshot: UsageSnapshot) -> Mapping[str, Reservation]:
    """Return the reservations of the consumers and names in a snapshot, for a ledger in which none is linked."""
    reservations = ledger.reservations
    uids = reservations.keys() & frozenset(snapshot.deleted)
    uids |= reservations.keys() & snapshot.used_by_consumer.keys()
    names = {(namespace, ConsumerKind.POD, name) for namespace, name in snapshot.holders}
    names.update(name for uid in uids if (name := reservations[uid].shared_name) is not None)
    for name in names & ledger.attempts_by_name.keys():
        uids |= ledger.attempts_by_name[name].uids
    return {uid: reservations[uid] for uid in sorted(uids)}


def _find_remapping(ledger: Ledger, snapshot: UsageSnapshot) -> Remapping:
    """Return the names of the ledger that a new mapping concerns, as well as the earlier ones."""
    if snapshot.mappings <= ledger.mappings:
        return ledger.remapping
    added = sorted(snapshot.resources - ledger.resources)
    names = {text.partition("=")[0] for text in added} & ledger.resources
    if not names:
        return ledger.remapping
    recounted = [ledger.remapping.mark, snapshot.pods_revision, snapshot.claims_revision, *added]
    mark = hashlib.sha256(msgspec.json.encode(recounted)).hexdigest()[:_MARK_DIGITS]
    return Remapping(ledger.remapping.names | names, mark)


def _select_remaining(
    reservations: Mapping[str, Reservation], snapshot: UsageSnapshot
) -> Iterator[tuple[str, Reservation]]:
    covering: set[str] = set()
    served = {
        reservation.pod_uid
        for uid, reservation in reservations.items()
        if reservation.pod_uid and reservation.is_of_pod and uid not in snapshot.deleted
    }
    in_flight: set[str] = set()  # UIDs of workloads from which such a pod has taken over amounts
    counted: dict[str, dict[str, str]] = {}  # by UID of the workload, the attempts of pods that were stored, by UID
    workloads: list[tuple[str, Reservation]] = []
    for uid, reservation in reservations.items():
        if reservation.kind is ConsumerKind.WORKLOAD:
            workloads.append((uid, reservation))
            continue
        remaining = None
        if uid not in snapshot.deleted:
            remaining = _recount_reservation(uid, reservation, snapshot, covering, served)
        if remaining is not None:
            yield uid, remaining
        if reservation.workload and (uid in snapshot.used_by_consumer or uid in snapshot.deleted):
            counted.setdefault(reservation.workload, {})[uid] = reservation.attempt
        elif reservation.workload and remaining is not None:
            in_flight.add(reservation.workload)
    for uid, reservation in workloads:
        if not is_complete(uid, reservation, in_flight):
            yield uid, renew(reservation, counted.get(uid, {}))


def _recount_reservation(
    uid: str, reservation: Reservation, snapshot: UsageSnapshot, covering: set[str], served: Collection[str]
) -> Reservation | None:
    """Return the reservation of a pod or claim after the recount, or None if it is removed.

    `covering` are the pods whose part covers a claim, `served` those for which a claim has a reservation.
    """
    counted = snapshot.used_by_consumer.get(uid)
    if counted is not None:
        if reservation.operation is not Operation.UPDATE:
            return None
        return replace(reservation, counted=counted, pod_uid=reservation.pod_uid if reservation.is_of_pod else "")
    if reservation.kind is ConsumerKind.POD:
        return _cover_by_holder(uid, reservation, snapshot, served)
    part = NO_AMOUNTS
    if reservation.pod_uid and reservation.pod_uid not in covering:
        part = snapshot.find_covering_part(reservation.pod_uid)
        covering.add(reservation.pod_uid)
    return replace(reservation, counted=part) if reservation.counted != part else reservation


def _cover_by_holder(
    uid: str, reservation: Reservation, snapshot: UsageSnapshot, served: Collection[str]
) -> Reservation:
    """Return the reservation of a pod that is not stored, counted with the part of the stored pod of its name.

    A pod that took over amounts from its workload is alone: it gives back as many as it took.
    """
    name, holder = (reservation.namespace, reservation.name), NO_POD
    if name in snapshot.holders and reservation.shared_name is not None:
        holder = snapshot.find_holder(name, uid)
        if holder.uid in served or not holder.part:
            holder = NO_POD
    if reservation.counted == holder.part and reservation.pod_uid == holder.uid:
        return reservation
    return replace(reservation, counted=holder.part, pod_uid=holder.uid)


def apply_limits(
    ledger: Ledger,
    hard: Amounts,
    resources: frozenset[str],
    surge: Amounts = NO_AMOUNTS,
    mappings: ClassMappings = NO_MAPPINGS,
) -> Ledger:
    """Return the ledger with these limits, and this surge above them (rule 12).

    Other `mappings` of device classes than these end: none of its consumers counts by them, or the policy does not.
    Names that the cap no longer counts are removed from `used`; new ones need a recount. A limit below the charged
    amount admits no further pods and removes none. Reservations keep all their names: a name that returns to the policy
    finds them. A surge that runs keeps its time as long as there is one.
    """
    remaining = ledger.resources & resources
    used, unconfirmed = (
        amounts
        if remaining.issuperset(amounts)
        else Amounts({name: amount for name, amount in amounts.items() if name in remaining})
        for amounts in (ledger.used, ledger.unconfirmed)
    )
    limited = replace(
        ledger,
        hard=hard,
        resources=remaining,
        used=used,
        unconfirmed=unconfirmed,
        surge=Surge(surge, ledger.surge.since) if surge else NO_SURGE,
        mappings=ledger.mappings & mappings,
        remapping=confirm_names(ledger.remapping, ledger.remapping.names - remaining),
    )
    return end_surge(limited)


def apply_guarantees(ledger: Ledger, amounts: AmountsByNamespace, namespaces_hash: str) -> Ledger:
    """Return the ledger with these guarantees of the members that have this hash (rule 15).

    It is unchanged if it was counted with other members, or does not count each of these by itself yet: a recount comes
    first.
    """
    guarantees = ledger.guarantees
    if amounts == guarantees.amounts or namespaces_hash != ledger.namespaces_hash or not guarantees.counts(amounts):
        return ledger
    used = {namespace: guarantees.used[namespace] for namespace in amounts}
    return end_surge(replace(ledger, guarantees=create_guarantees(amounts, used)))


def confirm_names(remapping: Remapping, names: Collection[str]) -> Remapping:
    left = remapping.names.difference(names)
    return Remapping(left, remapping.mark) if left else NO_REMAPPING
