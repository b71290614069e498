"""The ledger transitions of a charge under one cap: reserve, release and read."""

from enum import Enum, auto
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.cluster.membership import Membership
from tallygate.cluster.usage_lister import CountedRevisions, UsageLister, get_ledger_key
from tallygate.gate.cap_activation import CapActivation
from tallygate.review.cap_charge import NO_NEED, CapCharge, CapChargeResult, ChargedConsumer
from tallygate.review.cap_reach import find_guaranteed
from tallygate.state.ledger.guarantees import NOTHING_GUARANTEED, create_guarantees
from tallygate.state.ledger.ledger import Activation, Ledger, Operation, Surge
from tallygate.state.ledger.recount import NO_POD, CountedPod, UsageSnapshot, recount
from tallygate.state.ledger.reserve import (
    MAX_RESERVATIONS,
    NO_DEVICES,
    NO_WORKLOAD,
    Deferred,
    DeviceTerms,
    Exceeded,
    Prerequisite,
    ReservationRequest,
    Reserved,
    create_gang_request,
    needs_gang,
    release,
    reserve,
)
from tallygate.state.ledger.surges import NO_TERMS
from tallygate.state.ports import LedgerKey, TransitionResult

_MANY_RESERVATIONS = 8
_NO_REQUIREMENT = CountedRevisions(0, 0)


class _Recount(NamedTuple):
    """A recounted ledger, and the snapshot that it was counted from."""

    ledger: Ledger
    snapshot: UsageSnapshot


class _Attempted(NamedTuple):
    """The outcome of a request, the charge and the request that it is about, and the number of pods of a PodGroup.

    If a pod reserves for its PodGroup first, and that has no room, they are those of the group; else the number is 0.
    """

    outcome: Reserved | Exceeded | Deferred
    charge: CapCharge
    request: ReservationRequest
    gang_pods: int = 0


class ChargeMode(Enum):
    """The purpose of a charge: reserve; check before reserving; or a dry run that writes nothing."""

    RESERVE = auto()
    CHECK = auto()
    DRY_RUN = auto()


class ReserveTransition(msgspec.Struct):
    """A transition that charges one ledger.

    `is_standalone` is the flag of the `Ledgers` that apply the transition. Without a watch of the cluster, there is no
    `usage_lister`. `may_be_stored` becomes True once the transition has returned a ledger to write: from then on a
    release may be necessary, whatever a later application returns. `is_cap_new` is True if the cap was never active, by
    a read of the record in this attempt, and None before that; `activation` estimates when a ledger that the transition
    creates is active (rule 7).
    """

    consumer: ChargedConsumer
    charge: CapCharge
    mode: ChargeMode
    is_standalone: bool
    usage_lister: UsageLister | None = None
    may_be_stored: bool = False
    is_cap_new: bool | None = False
    activation: CapActivation | None = None

    def __call__(self, stored: Ledger | None) -> TransitionResult[CapChargeResult | Deferred]:
        """Return the result under the cap, and the ledger with the reservation."""
        result = self._apply(stored)
        self.may_be_stored |= result.ledger is not None
        return result

    def _apply(self, stored: Ledger | None) -> TransitionResult[CapChargeResult | Deferred]:
        ledger = self._recount_if_large(
            self._prepare_standalone(stored) if self.is_standalone else self._prepare_shared(stored)
        )
        membership = self._find_membership()
        covered, charge = NO_AMOUNTS, self.charge.adapt_to_ledger(ledger)
        if self.consumer.allocates_at and not charge.requested:
            result = CapChargeResult(charge, ledger, ledger, NO_AMOUNTS)
            return TransitionResult(result, accepts_cached=self.mode is ChargeMode.CHECK)
        if self.consumer.pod_uid:
            ledger, covered = self._count_pod(ledger)
        request = self._create_request(charge, membership, covered)
        attempted = self._reserve(ledger, request, charge)
        outcome = attempted.outcome
        if (
            isinstance(outcome, Reserved)
            and not outcome.needs_no_write
            and membership
            and not ledger.initializer
            and self._may_lack_consumers(ledger, membership)
        ):
            outcome = Deferred(ledger, Prerequisite.COUNT_NAMESPACES)
        is_counted = isinstance(outcome, Reserved) or bool(self.consumer.pod_uid)
        if not is_counted and (counted := self._recount(ledger)) is not None:
            # In the same write: deleted pods free their amounts, resources new to the ledger are counted, and the
            # counted pod of a name covers the attempts of that name.
            ledger, request = counted.ledger, replace(request, holder=self._find_holder(counted.snapshot))
            attempted = self._reserve(ledger, request, charge)
            outcome = attempted.outcome
        match outcome:
            case Deferred():
                must_read = outcome.prerequisite is Prerequisite.READ_RECORD
                is_stored = stored is not None or self.mode is ChargeMode.DRY_RUN or must_read
                return TransitionResult(outcome, None if is_stored else ledger, accepts_cached=must_read)
            case Exceeded():
                members = membership.names if membership else frozenset[str]()
                return self._create_rejection(ledger, attempted, outcome, members)
            case Reserved(needs_no_write=needs_no_write):
                result = CapChargeResult(charge, ledger, outcome.ledger, NO_AMOUNTS)
                # store the recount that decides an allocation: no older count may decide a later creation
                needs_write = not needs_no_write or (bool(self.consumer.allocates_at) and ledger is not stored)
                if self.mode is ChargeMode.RESERVE and needs_write:
                    return TransitionResult(result, outcome.ledger)
                return TransitionResult(result, accepts_cached=self.mode is ChargeMode.CHECK)

    def _reserve(self, ledger: Ledger, request: ReservationRequest, charge: CapCharge) -> _Attempted:
        """Reserve for the consumer, and before that for its PodGroup, if it is the first pod of that (rule 11)."""
        need = NO_NEED
        if charge.compute_gang is not None and needs_gang(ledger, request):
            need = charge.compute_gang(charge.cap)
        if not need.amounts:
            return _Attempted(reserve(ledger, request), charge, request)
        whole = replace(charge, current=NO_AMOUNTS, requested=need.amounts)
        required = CountedRevisions(request.min_pods_revision, request.devices.min_claims_revision)
        devices = self._create_device_terms(whole, required, NO_AMOUNTS) if charge.cap.has_sources else NO_DEVICES
        gang_request = create_gang_request(request, need.amounts, devices)
        outcome = reserve(ledger, gang_request)
        if not isinstance(outcome, Reserved):
            return _Attempted(outcome, whole, gang_request, need.pod_count)
        joined = reserve(outcome.ledger, request)
        if isinstance(joined, Reserved):
            joined = Reserved(joined.ledger, needs_no_write=False)
        return _Attempted(joined, charge, request)

    def _create_rejection(
        self, ledger: Ledger, attempted: _Attempted, outcome: Exceeded, members: frozenset[str]
    ) -> TransitionResult[CapChargeResult | Deferred]:
        """Return the rejection, with the amounts for which it may be repeated.

        An allocation is rejected for the amounts of all others, which says nothing of other requests, and so does a
        rejection for the guarantees of others. A replica may not have seen yet that a pod takes over amounts from its
        workload. And what is rejected of a pod that surges, and of one that does not, differs.
        """
        charge, request = attempted.charge, attempted.request
        excess, increase = outcome.excess, request.requested.find_shortfall(request.current)
        rejected = {
            name: increase[name]
            for name, above in excess.items()
            if name in increase and above > outcome.unspent.get(name, 0)
        }
        is_special = bool(self.consumer.allocates_at or self.consumer.workload.owner_uids or self.charge.rolls_at)
        cap, namespace = charge.cap, request.namespace
        guaranteed = {name: find_guaranteed(cap, name, ledger, members, namespace) for name in excess}
        return TransitionResult(
            CapChargeResult(charge, ledger, outcome.ledger, excess, guaranteed, attempted.gang_pods),
            rejected_amounts=Amounts(rejected) if rejected and not is_special else None,
        )

    def _find_membership(self) -> Membership | None:
        if self.usage_lister is None or self.is_standalone:
            return None
        return self.usage_lister.find_membership(self.charge.cap, self.key)

    @property
    def key(self) -> LedgerKey:
        """The key of the ledger that counts the consumer."""
        return get_ledger_key(self.charge.cap, self.consumer.namespace)

    def is_stored_in(self, ledger: Ledger) -> bool:
        """Return whether this attempt was the last to write the reservation."""
        reservation = ledger.reservations.get(self.consumer.uid)
        return reservation is not None and reservation.attempt == self.consumer.attempt

    def _prepare_standalone(self, stored: Ledger | None) -> Ledger:
        """Return the ledger under this policy, for a replica that alone writes it and watches no pods.

        The hard limits of the policy apply, and a resource that is new to the ledger counts from now on. Of the
        namespaces with a guarantee only those are known that the policy names, unless the ledger was counted from pods.
        """
        cap, resources = self.charge.cap, self.charge.cap.counted
        hard = cap.hard if stored is None else cap.complete_limits(stored.hard)
        if stored is not None and stored.hard is hard and stored.resources >= resources:
            return stored
        if stored is not None and stored.pods_revision:
            return replace(stored, hard=hard, resources=stored.resources | resources)
        named = cap.resolve_named_guarantees()
        ledger = Ledger(hard) if stored is None else replace(stored, hard=hard)
        guarantees = create_guarantees(named, dict.fromkeys(named, NO_AMOUNTS))
        return replace(ledger, resources=ledger.resources | resources, guarantees=guarantees)

    def _prepare_shared(self, stored: Ledger | None) -> Ledger:
        """Return the ledger as replicas share it.

        A missing ledger may have been lost, and then its reservations are unknown (rule 7). Only if the namespace is
        new and no replica has seen the ledger, the ledger never existed. That of a new cap counts first.
        """
        if stored is not None:
            return stored
        is_new = self.usage_lister is not None and self.usage_lister.is_new_ledger(self.charge.cap, self.key)
        cap = self.charge.cap
        if is_new:
            return Ledger(cap.hard, surge=Surge(cap.surge))
        was_active = self.usage_lister is not None and self.usage_lister.was_active(self.key)
        expected_at = 0 if self.activation is None else self.activation.estimate_time(cap.policy_key)
        activation = Activation(self.is_cap_new is not False and not was_active, expected_at)
        return Ledger(cap.hard, initializer=self.consumer.attempt, surge=Surge(cap.surge), activation=activation)

    def _recount_if_large(self, ledger: Ledger) -> Ledger:
        """Return the ledger without the reservations that the watch shows to be stored, if there are many.

        The recount goes into the same write (rule 4), so that the leader need not write for it. It does not go into
        every write: each remaining reservation costs some microseconds, and so does a recount.
        """
        if self.mode is not ChargeMode.RESERVE or len(ledger.reservations) < _MANY_RESERVATIONS:
            return ledger
        if self.usage_lister is None or not self.usage_lister.is_newer_than(self.charge.cap, ledger):
            return ledger
        counted = self._recount(ledger)
        return ledger if counted is None else counted.ledger

    def _may_lack_consumers(self, ledger: Ledger, membership: Membership) -> bool:
        """Return whether the ledger may lack consumers that a member namespace got while it was away (rule 5).

        A ledger that was counted from the namespaces as they are now, but from older pods or claims, may lack them too.
        This matters as soon as this replica sees newer ones: until then, no recount here would show more.
        """
        if ledger.namespaces_revision < membership.last_change:
            return True
        return self.usage_lister is not None and self.usage_lister.may_lack_consumers(
            self.charge.cap, ledger, membership.last_change
        )

    def _recount(self, ledger: Ledger) -> _Recount | None:
        """Return the recounted ledger; None if no newer snapshot exists."""
        if self.is_standalone or self.usage_lister is None or ledger.initializer:
            return None
        consumer = self.consumer
        created = (consumer.namespace, consumer.name) if consumer.kind is ConsumerKind.POD else None
        snapshot = self.usage_lister.take_snapshot(self.charge.cap, self.key, ledger, consumer.pod_uid, created)
        recounted = None if snapshot is None else recount(ledger, snapshot)
        return _Recount(recounted, snapshot) if snapshot is not None and isinstance(recounted, Ledger) else None

    def _find_holder(self, snapshot: UsageSnapshot) -> CountedPod:
        """Return the counted pod of the name of the pod that the attempt creates, if it is another one (rule 13)."""
        consumer = self.consumer
        if consumer.kind is not ConsumerKind.POD or consumer.operation is not Operation.CREATE:
            return NO_POD
        return snapshot.find_holder((consumer.namespace, consumer.name), consumer.uid)

    def _count_pod(self, ledger: Ledger) -> tuple[Ledger, Amounts]:
        """Return the recounted ledger, and what it counts for the pod of a claim that kube-scheduler makes.

        Without a newer snapshot the pod counts nothing: then the claim needs amounts of its own.
        """
        counted = self._recount(ledger)
        if counted is None:
            return ledger, NO_AMOUNTS
        return counted.ledger, counted.snapshot.find_covering_part(self.consumer.pod_uid)

    def _create_request(self, charge: CapCharge, membership: Membership | None, covered: Amounts) -> ReservationRequest:
        consumer, cap = self.consumer, charge.cap
        lister = None if self.is_standalone else self.usage_lister
        required = lister.get_required_revisions(cap) if lister else _NO_REQUIREMENT
        return ReservationRequest(
            consumer.uid,
            consumer.namespace,
            consumer.name,
            charge.current,
            charge.requested,
            consumer.attempt,
            consumer.operation,
            cap.hard,
            charge.may_exceed,
            membership.revision if membership else 0,
            membership.hash if membership else "",
            cap.definition.shared and not self.is_standalone,
            required.pods,
            # a standalone replica never recounts, so it cannot limit the number of reservations
            None if self.is_standalone else MAX_RESERVATIONS,
            self._create_device_terms(charge, required, covered) if cap.has_sources else NO_DEVICES,
            consumer.workload if cap.definition.admits_whole else NO_WORKLOAD,
            charge.surge_terms if charge.rolls_at else NO_TERMS,
            self.is_cap_new,
            guarantees=cap.resolve_guarantees(membership.names) if membership else NOTHING_GUARANTEED,
        )

    def _create_device_terms(self, charge: CapCharge, required: CountedRevisions, covered: Amounts) -> DeviceTerms:
        consumer = self.consumer
        return DeviceTerms(
            consumer.kind,
            charge.cap.list_sources(charge.current.keys() | charge.requested.keys()),
            required.claims,
            0 if self.is_standalone else consumer.allocates_at,
            consumer.pod_uid,
            covered,
            consumer.pod_name,
        )


class ReleaseTransition(msgspec.Struct, frozen=True):
    """A transition that releases the reservation of an attempt, if only that attempt wrote it (rule 3)."""

    consumer: ChargedConsumer

    def __call__(self, stored: Ledger | None) -> TransitionResult[None]:
        """Return the ledger without the reservation."""
        if stored is None:
            return TransitionResult(None)
        ledger = release(stored, self.consumer.uid, self.consumer.attempt)
        return TransitionResult(None, None if ledger is stored else ledger)

    def is_stored_in(self, _: Ledger) -> bool:
        """Return False: a release leaves no mark in the ledger, and a second release changes nothing."""
        return False


class ReadTransition(msgspec.Struct, frozen=True):
    """A transition that returns the cached ledger, for callers that base no decision on it."""

    def __call__(self, ledger: Ledger | None) -> TransitionResult[Ledger | None]:
        """Return the ledger, and write nothing."""
        return TransitionResult(ledger, accepts_cached=True)

    def is_stored_in(self, _: Ledger) -> bool:
        """Return False: nothing is written."""
        return False
