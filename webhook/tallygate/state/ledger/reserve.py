"""Rule 2, reserve, with the guards of rules 5, 7, 8 and 15: reserve amounts, or return a prerequisite.

Rule 3, release: an attempt releases its own reservation.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.gangs import NO_GANG, GangTerms, find_gang, give_back, take_over
from tallygate.state.ledger.guarantees import NOTHING_GUARANTEED, AmountsByNamespace, Guarantees
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ledger.recount import NO_POD, CountedPod
from tallygate.state.ledger.surges import NO_TERMS, SurgeTerms, begin_surge, end_surge, is_surge_over

MAX_RESERVATIONS = 3000
"""Maximum number of reservations in one ledger.

A write stores the whole ledger, and etcd accepts at most 1.5 MiB: 500 bytes for each reservation.
"""

_NAMESPACE_SHARE = 4
"""Divisor of a shared cap: the reservations of one namespace may take a quarter of it, but always one pod.

The same quarter limits their number. A guarantee may be reserved as a whole.
"""


class Prerequisite(StrEnum):
    """The step that must precede a reservation in a ledger."""

    ACTIVATE = "its ledger is missing or not counted yet, and what runs is counted first"
    READ_RECORD = "it is not known yet whether the cap was active before"
    CATCH_UP = "the ledger was counted with other and newer namespaces than this writer has seen"
    COUNT_RESOURCES = "the ledger does not count all requested resources yet"
    COUNT_GUARANTEES = "the ledger does not count each namespace with a guarantee by itself yet"
    COUNT_NAMESPACES = "the ledger was counted with other namespaces"
    COUNT_CONSUMERS = "the ledger was counted before its cap became active here"
    COUNT_POD = "a claim of the scheduler for a pod has no room: the pod is not counted yet, or too much is used"
    SETTLE_POD_NAME = "a pod of the same name may still be stored next to the claim that the scheduler made for a pod"
    COUNT_CLAIM = "the ledger was counted before the claim was stored as it is"
    CONFIRM_CLAIMS = "claims of the scheduler may be counted twice until the statuses of their pods name them"
    SETTLE_NAMESPACE = "too much is reserved for pods of this namespace that are not counted yet"
    SETTLE_NAMESPACE_RESERVATIONS = "too many pods of this namespace have a reservation and are not counted yet"
    SETTLE_RESERVATIONS = "too many pods have a reservation and are not counted yet"


class DeviceTerms(msgspec.Struct, frozen=True):
    """The part of a request that only caps with device counts have (rule 10).

    `kind` is the kind of the consumer. `sources` are the ways to a device that the ledger must count, for the names of
    both amounts. `min_claims_revision` is the lowest revision at which the ledger may have counted claims, as
    `min_pods_revision` for pods. `allocates_at` is the revision of the stored claim whose devices the attempt
    allocates; 0 for any other attempt. `pod_uid` and `pod_name` are those of the pod for which kube-scheduler creates a
    claim, and `covered` are the amounts of that pod in `used`.
    """

    kind: ConsumerKind = ConsumerKind.POD
    sources: frozenset[str] = frozenset()
    min_claims_revision: int = 0
    allocates_at: int = 0
    pod_uid: str = ""
    covered: Amounts = NO_AMOUNTS
    pod_name: str = ""


NO_DEVICES = DeviceTerms()


class WorkloadTerms(msgspec.Struct, frozen=True):
    """The part of a request that only caps which admit workloads as a whole have (rule 11).

    `kind` is the API version and kind of the workload that the attempt writes, as `batch/v1/Job`; else empty.
    `owner_uids` are the UIDs of the controllers of the pod or claim that the attempt creates, the nearest first, and
    that of its PodGroup. `gang` is the PodGroup of the pod that the attempt creates, if that group reserves for itself.
    """

    kind: str = ""
    owner_uids: tuple[str, ...] = ()
    gang: GangTerms = NO_GANG


NO_WORKLOAD = WorkloadTerms()


class ReservationRequest(msgspec.Struct, frozen=True):
    """The reservation that one attempt requests.

    `current` and `requested` are the amounts of the stored and of the new pod or claim under this cap; `attempt` is the
    attempt's nonce; `hard` are the limits of the requesting replica's own policy; `may_exceed` is True if this user may
    exceed them. `namespaces_revision` and `namespaces_hash` identify the namespaces that the writer knows. `is_shared`
    is True if several namespaces are members of this ledger, so that the reservations of one are limited.
    `min_pods_revision` is the lowest revision at which the ledger may be counted: pods that were stored before were not
    charged under this cap (rule 8). `max_reservations` limits the number of all reservations, a quarter of it that of
    one namespace in a shared ledger; None if no recount removes them. `surge` is what the policy allows above `hard` to
    a pod of a controller that rolls. `is_cap_new` is True if the record, as read during this attempt, shows that the
    cap was never active (rule 7); None if it was not read. `holder` is the counted pod of the name of the pod that the
    attempt creates, by the snapshot from which the ledger was just recounted (rule 13). `guarantees` are those of the
    member namespaces by the requesting replica's own policy (rule 15).
    """

    uid: str
    namespace: str
    name: str
    current: Amounts
    requested: Amounts
    attempt: str
    operation: Operation
    hard: Amounts
    may_exceed: bool = False
    namespaces_revision: int = 0
    namespaces_hash: str = ""
    is_shared: bool = False
    min_pods_revision: int = 0
    max_reservations: int | None = MAX_RESERVATIONS
    devices: DeviceTerms = NO_DEVICES
    workload: WorkloadTerms = NO_WORKLOAD
    surge: SurgeTerms = NO_TERMS
    is_cap_new: bool | None = None
    holder: CountedPod = NO_POD
    guarantees: AmountsByNamespace = NOTHING_GUARANTEED


class Reserved(msgspec.Struct, frozen=True):
    """The reservation, valid once `ledger` is stored; with `needs_no_write` the ledger is unchanged."""

    ledger: Ledger
    needs_no_write: bool


class Exceeded(msgspec.Struct, frozen=True):
    """The rejection: `excess` are the amounts above the limit, by name.

    `unspent` are the unspent guarantees of other namespaces, which are a part of the excess.
    """

    ledger: Ledger
    excess: Amounts
    unspent: Mapping[str, int] = NO_AMOUNTS


class Deferred(msgspec.Struct, frozen=True):
    """No decision until the prerequisite is met: by a recount in the same write, or by another replica in a moment."""

    ledger: Ledger
    prerequisite: Prerequisite


def reserve(ledger: Ledger, request: ReservationRequest) -> Reserved | Exceeded | Deferred:
    """Reserve amounts for a pod or claim (rule 2), or check the allocation of a claim (rule 10).

    The guard checks only names of which the pod requests more than it has. A pod that requests none of an exceeded name
    passes. So does a change that uses less, though a ledger that is behind makes its charge look larger for a moment.
    The guard also checks names whose charge does not grow by this attempt: it may have grown by a recount, if the
    attempt before took the pod for larger than it was. Under a new cap there is no guard until the ledger is active.
    """
    reservation, devices = ledger.reservations.get(request.uid), request.devices
    increase = request.requested.find_shortfall(request.current)
    if reservation is None and not increase and not devices.allocates_at:
        return Reserved(ledger, needs_no_write=True)
    counts_first = ledger.counts_first and request.is_cap_new is True
    if not counts_first and (prerequisite := _find_prerequisite(ledger, request)) is not None:
        return Deferred(ledger, prerequisite)
    is_guarded = not (request.may_exceed or counts_first)
    if devices.allocates_at and is_guarded:
        unspent = compute_unspent(ledger, request)
        if excess := _compute_allocation_excess(ledger, reservation, request, unspent):
            return _create_exceeded(ledger, excess, unspent)
        if reservation is None and not increase:
            return Reserved(ledger, needs_no_write=True)
    covering = _find_covering(ledger, request)
    after = _uncover_names(ledger, devices.pod_uid) if devices.pod_uid else ledger
    after = after.with_reservation(request.uid, _create_reservation(reservation, request, covering))
    guarded: Amounts = increase
    if request.workload.owner_uids:
        after = take_over(ledger, after, request.uid, request.workload.owner_uids)
        guarded = increase.find_shortfall(after.reservations[request.uid].taken)
    is_checked = not devices.pod_uid or not _is_covered(ledger, request, increase, covering.part)
    if guarded and is_guarded and is_checked:
        outcome = _apply_guard(ledger, after, guarded, request)
        if not isinstance(outcome, Ledger):
            return outcome
        after = outcome
    if reservation is None and (prerequisite := _find_full(ledger, request)) is not None:
        return Deferred(ledger, prerequisite)
    return Reserved(after, needs_no_write=False)


def needs_gang(ledger: Ledger, request: ReservationRequest) -> bool:
    """Return whether a pod has to reserve for its PodGroup first: the ledger has a reservation of neither."""
    gang = request.workload.gang
    return gang is not NO_GANG and gang.uid not in ledger.reservations and request.uid not in ledger.reservations


def create_gang_request(request: ReservationRequest, amounts: Amounts, devices: DeviceTerms) -> ReservationRequest:
    """Return the request of the PodGroup of a pod, for the amounts of all its pods together.

    `devices` are the terms of claims for devices under the names of these amounts.
    """
    gang = request.workload.gang
    return replace(
        request,
        uid=gang.uid,
        name=gang.name,
        current=NO_AMOUNTS,
        requested=amounts,
        devices=devices,
        workload=WorkloadTerms(gang.kind),
        surge=NO_TERMS,
        holder=NO_POD,
    )


def _find_full(ledger: Ledger, request: ReservationRequest) -> Prerequisite | None:
    """Return the prerequisite of one more reservation, if the ledger or the request's namespace has too many.

    It applies to every reservation, also to those that no guard checks: a creation that fails after the gate costs its
    sender nothing, and its reservation remains for the in-flight bound.
    """
    if request.max_reservations is None:
        return None
    if len(ledger.reservations) >= request.max_reservations:
        return Prerequisite.SETTLE_RESERVATIONS
    share = max(request.max_reservations // _NAMESPACE_SHARE, 1)
    if not request.is_shared or len(ledger.reservations) < share:
        return None
    own = ledger.numbers_by_namespace.get(request.namespace, 0)
    return Prerequisite.SETTLE_NAMESPACE_RESERVATIONS if own >= share else None


def _apply_guard(
    ledger: Ledger, after: Ledger, guarded: Amounts, request: ReservationRequest
) -> Ledger | Exceeded | Deferred:
    """Return the ledger after an attempt, or its result if the guard stops it at one of the names `guarded`.

    A pod of a controller that rolls is compared with the sum of hard limit and surge, as long as that is open.
    """
    unspent = compute_unspent(ledger, request)
    excess = _compute_excess(after, guarded, request.hard, after.hard, unspent)
    if excess and request.surge is not NO_TERMS and not is_surge_over(ledger, request.surge):
        own, stored = request.hard + request.surge.amounts, after.hard + after.surge.amounts
        excess = _compute_excess(after, guarded, own, stored, unspent)
        after = begin_surge(ledger, after, request.surge)
    if excess:
        return _defer_owned(ledger, request) if request.devices.pod_uid else _create_exceeded(ledger, excess, unspent)
    if request.is_shared and _is_over_share(ledger, after, guarded, request):
        return Deferred(ledger, Prerequisite.SETTLE_NAMESPACE)
    return after


def _find_prerequisite(ledger: Ledger, request: ReservationRequest) -> Prerequisite | None:
    if ledger.initializer:
        is_unread = ledger.activation.is_new and request.is_cap_new is None
        return Prerequisite.READ_RECORD if is_unread else Prerequisite.ACTIVATE
    if request.namespaces_hash != ledger.namespaces_hash:
        return (
            Prerequisite.CATCH_UP
            if request.namespaces_revision < ledger.namespaces_revision
            else Prerequisite.COUNT_NAMESPACES
        )
    if not (ledger.resources >= request.requested.keys() and ledger.resources >= request.current.keys()):
        return Prerequisite.COUNT_RESOURCES
    if ledger.pods_revision < request.min_pods_revision:
        return Prerequisite.COUNT_CONSUMERS
    if request.guarantees and not _counts_guaranteed(ledger.guarantees, request.guarantees):
        return Prerequisite.COUNT_GUARANTEES
    return None if request.devices is NO_DEVICES else _find_device_prerequisite(ledger, request.devices)


def _find_device_prerequisite(ledger: Ledger, devices: DeviceTerms) -> Prerequisite | None:
    if not ledger.resources >= devices.sources:
        return Prerequisite.COUNT_RESOURCES
    if ledger.claims_revision < devices.min_claims_revision:
        return Prerequisite.COUNT_CONSUMERS
    return Prerequisite.COUNT_CLAIM if ledger.claims_revision < devices.allocates_at else None


def _counts_guaranteed(guarantees: Guarantees, own: AmountsByNamespace) -> bool:
    """Return whether the ledger counts each namespace by itself that has a guarantee by the replica's own policy."""
    return guarantees.are(own) or guarantees.counts(own)


def compute_unspent(ledger: Ledger, request: ReservationRequest) -> Mapping[str, int]:
    """Return the unspent guarantees of the namespaces besides that of a request, by name (rule 15).

    They are the larger ones by the policy of the requesting replica and by the ledger, as a limit is the smaller one.
    """
    stored, *own = list_guarantees(ledger, request.guarantees)
    unspent = stored.compute_unspent(ledger.reserved_by_namespace, request.namespace)
    if not own:
        return unspent
    by_own = own[0].compute_unspent(ledger.reserved_by_namespace, request.namespace)
    return {name: max(unspent.get(name, 0), by_own.get(name, 0)) for name in unspent.keys() | by_own.keys()}


def list_guarantees(ledger: Ledger, own: AmountsByNamespace) -> tuple[Guarantees, ...]:
    """Return the guarantees of a ledger, and then those by a replica's `own` policy, if it has others."""
    if not own or ledger.guarantees.are(own):
        return (ledger.guarantees,)
    return ledger.guarantees, Guarantees(own, ledger.guarantees.used)


def _create_exceeded(ledger: Ledger, excess: Amounts, unspent: Mapping[str, int]) -> Exceeded | Deferred:
    """Return the rejection; deferred as long as claims that may be counted twice make up the excess."""
    if excess.find_shortfall(ledger.unconfirmed):
        return Exceeded(ledger, excess, unspent)
    return Deferred(ledger, Prerequisite.CONFIRM_CLAIMS)


def _compute_allocation_excess(
    ledger: Ledger, reservation: Reservation | None, request: ReservationRequest, unspent: Mapping[str, int]
) -> Amounts:
    """Return the excess of the allocated devices over what all other consumers leave free (rule 10).

    The claim itself counts as its largest alternative in the ledger. It keeps that amount until a recount shows the
    devices, since the allocation may not be stored.
    """
    own = request.current if reservation is None else reservation.requested.merge_max(reservation.counted)
    excess: dict[str, int] = {}
    for name, amount in request.requested.items():
        others = ledger.used.get(name, 0) + ledger.reserved.get(name, 0) - own.get(name, 0)
        charged = others + amount + unspent.get(name, 0)
        limit = min(request.hard.get(name, charged), ledger.hard.get(name, charged))
        if charged > limit:
            excess[name] = charged - limit
    return Amounts(excess)


def _find_covering(ledger: Ledger, request: ReservationRequest) -> CountedPod:
    """Return the pod whose part of `used` covers the consumer: the scheduler's claim for it, or the next of its name.

    The part covers one claim, or the attempts of the name next to no such claim (rule 13). A pod whose workload has a
    reservation takes over amounts of that instead.
    """
    devices = request.devices
    pod = CountedPod(devices.pod_uid, devices.covered) if devices.pod_uid else request.holder
    if pod is NO_POD or (not devices.pod_uid and find_gang(ledger, request.workload.owner_uids) is not None):
        return NO_POD
    reservations = ledger.reservations.items()
    is_taken = any(
        reservation.pod_uid == pod.uid and reservation.is_of_pod and uid != request.uid
        for uid, reservation in reservations
    )
    return NO_POD if is_taken or not pod.part else pod


def _uncover_names(ledger: Ledger, pod_uid: str) -> Ledger:
    """Return the ledger without the part of a pod in the attempts of its name: a claim of the scheduler gets it.

    The claim may remain next to the next pod of the name. So it takes the part away in the write that reserves for it.
    """
    uncovered = {
        uid: replace(reservation, counted=NO_AMOUNTS, pod_uid="")
        for uid, reservation in ledger.reservations.items()
        if reservation.pod_uid == pod_uid and not reservation.is_of_pod
    }
    return ledger.with_changes(uncovered)


def _is_covered(ledger: Ledger, request: ReservationRequest, increase: Amounts, covered: Amounts) -> bool:
    """Return whether the part of its pod in `used` covers all of a scheduler's claim, so that no guard checks it.

    The claim may remain after its pod. So it needs room besides the next pod of that name, if one may be stored: that
    shared its amounts with the pod (rule 13).
    """
    if not covered or increase.find_shortfall(covered) or not ledger.remapping.names.isdisjoint(increase):
        return False
    return not _may_be_followed(ledger, request)


def _may_be_followed(ledger: Ledger, request: ReservationRequest) -> bool:
    """Return whether another pod with the name of the claim's pod has a reservation."""
    attempts = ledger.attempts_by_name.get((request.namespace, ConsumerKind.POD, request.devices.pod_name))
    return attempts is not None and not attempts.uids <= {request.devices.pod_uid}


def _defer_owned(ledger: Ledger, request: ReservationRequest) -> Deferred:
    """Return the deferral of a scheduler's claim for which there is no room besides its pod or the next one."""
    is_followed = _may_be_followed(ledger, request)
    return Deferred(ledger, Prerequisite.SETTLE_POD_NAME if is_followed else Prerequisite.COUNT_POD)


def _create_reservation(
    reservation: Reservation | None, request: ReservationRequest, covering: CountedPod
) -> Reservation:
    devices = request.devices
    pod_uid = devices.pod_uid or covering.uid
    counted = covering.part if pod_uid else request.current
    if reservation is None:
        return Reservation(
            request.namespace,
            request.name,
            counted,
            request.requested,
            request.attempt,
            True,  # noqa: FBT003  # a keyword takes longer, and every reservation comes here
            request.operation,
            ConsumerKind.WORKLOAD if request.workload.kind else devices.kind,
            pod_uid,
            request.workload.kind,
        )
    is_create = reservation.operation is Operation.CREATE and request.operation is Operation.CREATE
    if reservation.kind is ConsumerKind.WORKLOAD and request.operation is Operation.CREATE:
        counted = reservation.counted  # its pods may have taken over amounts since another attempt of the creation
    else:
        counted = _min_by_name(reservation.counted, counted)
    return Reservation(
        reservation.namespace,
        reservation.name,
        counted=counted,
        requested=reservation.requested.merge_max(request.requested),
        attempt=request.attempt,
        single_attempt=False,
        operation=Operation.CREATE if is_create else Operation.UPDATE,
        kind=reservation.kind,
        pod_uid=reservation.pod_uid if counted or reservation.is_of_pod else "",
        workload_kind=reservation.workload_kind,
        workload=reservation.workload,
        taken=reservation.taken,
        counted_pods=reservation.counted_pods,
    )


def _min_by_name(first: Amounts, second: Amounts) -> Amounts:
    """Return the smaller of both by name; an absent name is zero."""
    return Amounts({name: smaller for name, amount in first.items() if (smaller := min(amount, second.get(name, 0)))})


def _compute_excess(
    after: Ledger, names: Iterable[str], own_limits: Amounts, stored_limits: Amounts, unspent: Mapping[str, int]
) -> Amounts:
    """Return the amounts by which the increased names exceed the smaller of both limits (rule 8).

    The `unspent` guarantees of other namespaces are not free (rule 15).
    """
    excess: dict[str, int] = {}
    for name in names:
        charged = after.used.get(name, 0) + after.reserved.get(name, 0) + unspent.get(name, 0)
        limit = min(own_limits.get(name, charged), stored_limits.get(name, charged))
        if charged > limit:
            excess[name] = charged - limit
    return Amounts(excess)


def _is_over_share(ledger: Ledger, after: Ledger, names: Iterable[str], request: ReservationRequest) -> bool:
    """Return whether reservations of several names of this namespace would exceed its share of a shared cap.

    What is left of its guarantee is no share of the others.
    """
    grown = [name for name in names if after.reserved.get(name, 0) > ledger.reserved.get(name, 0)]
    reserved = after.reserved_by_namespace.get(request.namespace, NO_AMOUNTS)
    if reserved == after.compute_reserved_with(request.uid):
        return False
    limits = [(name, hard[name]) for hard in (after.hard, request.hard) for name in grown if name in hard]
    own = after.guarantees
    return any(
        reserved.get(name, 0) > max(limit // _NAMESPACE_SHARE, own.find_left(request.namespace, name))
        for name, limit in limits
    )


def release(ledger: Ledger, uid: str, attempt: str) -> Ledger:
    """Return the ledger without this attempt's reservation, if no other attempt wrote to it.

    Another attempt of the same pod may have been allowed because of a reservation that both wrote. A pod gives back
    what it took over from its workload.
    """
    reservation = ledger.reservations.get(uid)
    if reservation is None or reservation.attempt != attempt or not reservation.single_attempt:
        return ledger
    return end_surge(give_back(ledger.with_reservation(uid, None), reservation))
