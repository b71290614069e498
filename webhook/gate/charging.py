"""The attempts of charging, as the ledgers carry them out: promise a pod room under one cap, and take that back.

Charging: one pod under all its caps, all or nothing.

Check all first, or a full cap would starve its neighbour with promises; write in the order of their keys, so that
nobody waits for nobody; take back what was written when a later one has no room any more.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum, auto

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.admission.cap_index import ActiveCap
from webhook.gate.usage_lister import Membership, UsageLister
from webhook.state.ledger.ledger import Ledger, Operation
from webhook.state.ledger.recount import recount
from webhook.state.ledger.reserve import (
    MAX_RESERVATIONS,
    Deferred,
    Exceeded,
    Prerequisite,
    ReservationRequest,
    Reserved,
    release,
    reserve,
)
from webhook.state.ports import LedgerKey, Ledgers, RetryLaterError, StoreUnavailableError, TransitionResult

_NO_EXCESS = Amounts()
_MANY_RESERVATIONS = 8


class ChargedPod(msgspec.Struct, frozen=True):
    """The pod that asks, and the nonce of this attempt."""

    uid: str
    namespace: str
    name: str
    attempt: str
    operation: Operation


class CapCharge(msgspec.Struct, frozen=True):
    """What a pod holds (`old`) and asks for (`new`) under one cap; `exceeds` when this user may go over it."""

    cap: ActiveCap
    current: Amounts
    requested: Amounts
    may_exceed: bool

    def ledger_key(self, namespace: str) -> LedgerKey:
        """The ledger that counts it."""
        return LedgerKey(self.cap.key, "" if self.cap.definition.shared else namespace)


class CapChargeResult(msgspec.Struct, frozen=True):
    """How one cap answers: the ledger as it is (refused) or will be (granted), and by how much the ask goes over."""

    charge: CapCharge
    before: Ledger
    ledger: Ledger
    excess: Amounts


class ChargeMode(Enum):
    """Promise; or see whether there is room, to promise next; or only look, and leave no trace."""

    RESERVE = auto()
    CHECK = auto()
    DRY_RUN = auto()


class ReserveTransition(msgspec.Struct, frozen=True):
    """Asks one ledger. `alone` is that of the `Ledgers` that carry it out; `sight` None where no pods are watched."""

    pod: ChargedPod
    charge: CapCharge
    mode: ChargeMode
    is_standalone: bool
    usage_lister: UsageLister | None = None

    def __call__(self, stored: Ledger | None) -> TransitionResult[CapChargeResult | Deferred]:
        """The cap's answer, and the ledger with the promise."""
        ledger = self._recount_if_large(
            self._prepare_standalone(stored) if self.is_standalone else self._prepare_shared(stored)
        )
        membership = (
            self.usage_lister.find_membership(self.charge.cap, self._ledger_key)
            if self.usage_lister and not self.is_standalone
            else None
        )
        request = self._create_request(membership)
        outcome = reserve(ledger, request)
        if (
            isinstance(outcome, Reserved)
            and not outcome.needs_no_write
            and membership
            and ledger.namespaces_revision < membership.last_change
        ):
            outcome = Deferred(ledger, Prerequisite.COUNT_NAMESPACES)
        if not isinstance(outcome, Reserved) and (recounted := self._recount(ledger)) is not None:
            # A recount in the same write: what was deleted makes room, and what is new to the ledger is counted.
            ledger, outcome = recounted, reserve(recounted, request)
        match outcome:
            case Deferred():
                return TransitionResult(
                    outcome, None if stored is not None or self.mode is ChargeMode.DRY_RUN else ledger
                )
            case Exceeded(excess=excess):
                increase = self.charge.requested.find_shortfall(self.charge.current)
                rejected_amounts = Amounts({name: increase[name] for name in excess})
                return TransitionResult(
                    CapChargeResult(self.charge, ledger, outcome.ledger, excess), rejected_amounts=rejected_amounts
                )
            case Reserved(needs_no_write=needs_no_write):
                result = CapChargeResult(self.charge, ledger, outcome.ledger, _NO_EXCESS)
                if self.mode is ChargeMode.RESERVE and not needs_no_write:
                    return TransitionResult(result, outcome.ledger)
                return TransitionResult(result, accepts_cached=self.mode is ChargeMode.CHECK)

    def is_stored_in(self, ledger: Ledger) -> bool:
        """Whether the pod's row was last written by this attempt."""
        reservation = ledger.reservations.get(self.pod.uid)
        return reservation is not None and reservation.attempt == self.pod.attempt

    def _prepare_standalone(self, stored: Ledger | None) -> Ledger:
        """The ledger under this policy, where nobody else keeps it and no pods are watched.

        What the policy says holds, and a name that is new to the ledger counts from here on.
        """
        hard, resources = self.charge.cap.hard, self.charge.cap.resources
        if stored is None:
            return Ledger(hard, resources=resources)
        if stored.hard is hard and stored.resources >= resources:
            return stored
        return replace(stored, hard=hard, resources=stored.resources | resources)

    def _prepare_shared(self, stored: Ledger | None) -> Ledger:
        """The ledger as replicas share it; one that is not there may have been, and what it promised is not known.

        Only where the namespace itself is new, and nobody has met it, there was none.
        """
        if stored is not None:
            return stored
        is_new = self.usage_lister is not None and self.usage_lister.is_new_ledger(self._ledger_key)
        return Ledger(self.charge.cap.hard, initializer="" if is_new else self.pod.attempt)

    def _recount_if_large(self, ledger: Ledger) -> Ledger:
        """Promises that the watch shows kept go in the same write (rule 4), so that no keeper need write for them.

        Not at every write: each row that is left costs some microseconds, and so does a recount.
        """
        if self.mode is not ChargeMode.RESERVE or len(ledger.reservations) < _MANY_RESERVATIONS:
            return ledger
        if self.usage_lister is None or not self.usage_lister.is_newer_than(ledger):
            return ledger
        return self._recount(ledger) or ledger

    def _recount(self, ledger: Ledger) -> Ledger | None:
        """The ledger counted anew, where a newer view is there."""
        if self.is_standalone or self.usage_lister is None or ledger.initializer:
            return None
        snapshot = self.usage_lister.take_snapshot(self.charge.cap, self._ledger_key, ledger)
        recounted = None if snapshot is None else recount(ledger, snapshot)
        return recounted if isinstance(recounted, Ledger) else None

    @property
    def _ledger_key(self) -> LedgerKey:
        return self.charge.ledger_key(self.pod.namespace)

    def _create_request(self, membership: Membership | None) -> ReservationRequest:
        pod, charge = self.pod, self.charge
        return ReservationRequest(
            pod.uid,
            pod.namespace,
            pod.name,
            current=charge.current,
            requested=charge.requested,
            attempt=pod.attempt,
            operation=pod.operation,
            hard=charge.cap.hard,
            may_exceed=charge.may_exceed,
            is_shared=charge.cap.definition.shared and not self.is_standalone,
            max_reservations=None
            if self.is_standalone
            else MAX_RESERVATIONS,  # alone nothing settles promises, so they are not bounded
            namespaces_revision=membership.revision if membership else 0,
            namespaces_hash=membership.hash if membership else "",
            min_pods_revision=self.usage_lister.get_required_revision(charge.cap.key)
            if self.usage_lister and not self.is_standalone
            else 0,
        )


class ReleaseTransition(msgspec.Struct, frozen=True):
    """Takes back what an attempt has promised, if it is that attempt's alone (rule 3)."""

    pod: ChargedPod

    def __call__(self, stored: Ledger | None) -> TransitionResult[None]:
        """The ledger without the promise."""
        if stored is None:
            return TransitionResult(None)
        ledger = release(stored, self.pod.uid, self.pod.attempt)
        return TransitionResult(None, None if ledger is stored else ledger)

    def is_stored_in(self, _: Ledger) -> bool:
        """It leaves nothing to be known by: where it is done already, it finds nothing to do."""
        return False


class ReadTransition(msgspec.Struct, frozen=True):
    """The ledger as it is known, for who decides nothing by it."""

    def __call__(self, ledger: Ledger | None) -> TransitionResult[Ledger | None]:
        """Nothing is written."""
        return TransitionResult(ledger, accepts_cached=True)

    def is_stored_in(self, _: Ledger) -> bool:
        """Nothing is written."""
        return False


_GRACE_SECONDS = 1.0  # to take a promise back in, after the deadline: else it stands in others' way until it expires


class ChargeResult(msgspec.Struct, frozen=True):
    """Granted under every cap, or `refused` by some: then nothing is promised anywhere."""

    reserved: tuple[CapChargeResult, ...] = ()
    exceeded: tuple[CapChargeResult, ...] = ()


class TrackedReservation(msgspec.Struct):
    """An attempt, and whether anything was to be stored for it: only then something may have to be taken back."""

    transition: ReserveTransition
    may_be_stored: bool = False

    @property
    def mode(self) -> ChargeMode:
        """What the attempt is for."""
        return self.transition.mode

    def __call__(self, ledger: Ledger | None) -> TransitionResult[CapChargeResult | Deferred]:
        """What the attempt makes of the ledger."""
        result = self.transition(ledger)
        self.may_be_stored |= result.ledger is not None
        return result

    def is_stored_in(self, ledger: Ledger) -> bool:
        """Whether what it wrote is stored."""
        return self.transition.is_stored_in(ledger)


class PodCharger:
    """One attempt to charge one pod, before `deadline` (seconds of the monotonic clock).

    `sight` shows the pods that are there, where they are watched.
    """

    def __init__(
        self, ledgers: Ledgers, pod: ChargedPod, deadline: float, usage_lister: UsageLister | None = None
    ) -> None:
        self._ledgers = ledgers
        self._usage_lister = usage_lister
        self._pod = pod
        self._deadline = deadline
        self._tracked: list[tuple[LedgerKey, TrackedReservation]] = []

    def check(self, charges: Sequence[CapCharge]) -> ChargeResult:
        """What the caps say now; nothing is written.

        Raises:
            BusyError: a ledger cannot promise now.
            StoreUnavailableError: a ledger could not be read.
        """
        return _combine_outcomes(charges, [self._transact(each, ChargeMode.DRY_RUN) for each in charges])

    def charge(self, charges: Sequence[CapCharge]) -> ChargeResult:
        """Check all, then promise under each in turn.

        Raises:
            BusyError: others kept writing until the deadline, or a ledger cannot promise now.
            StoreUnavailableError: a ledger could not be read or written.
        """
        if len(charges) > 1:
            check_result = _combine_outcomes(charges, [self._transact(each, ChargeMode.CHECK) for each in charges])
            if check_result.exceeded:
                return check_result
        try:
            result = self._reserve_all(charges)
        except (RetryLaterError, StoreUnavailableError):
            self._release_all()
            raise
        if result.exceeded:
            self._release_all()
        return result

    def _reserve_all(self, charges: Sequence[CapCharge]) -> ChargeResult:
        outcomes: list[CapChargeResult | Deferred] = []
        for charge in charges:
            outcomes.append(self._transact(charge, ChargeMode.RESERVE))
            if not isinstance(outcomes[-1], CapChargeResult) or outcomes[-1].excess:
                break
        return _combine_outcomes(charges, outcomes)

    def _transact(self, charge: CapCharge, mode: ChargeMode) -> CapChargeResult | Deferred:
        transition = TrackedReservation(
            ReserveTransition(
                self._pod, charge, mode, is_standalone=self._ledgers.is_standalone, usage_lister=self._usage_lister
            )
        )
        key = charge.ledger_key(self._pod.namespace)
        if mode is ChargeMode.RESERVE:
            self._tracked.append((key, transition))  # before it is: a lost answer may have been written
        outcome = self._ledgers.transact(key, transition, self._deadline)
        if (
            self._usage_lister is not None
            and isinstance(outcome, Deferred)
            and outcome.prerequisite is Prerequisite.CATCH_UP
        ):
            self._usage_lister.request_progress()
        if self._usage_lister is not None and isinstance(outcome, CapChargeResult) and outcome.excess:
            self._usage_lister.request_progress_if_silent()
        return outcome

    def _release_all(self) -> None:
        for key in [key for key, transition in self._tracked if transition.may_be_stored]:
            # A ledger out of reach keeps its promise until it expires; that is no reason to keep those of the others.
            with suppress(StoreUnavailableError, RetryLaterError):
                self._ledgers.transact(key, ReleaseTransition(self._pod), self._deadline + _GRACE_SECONDS)


def _combine_outcomes(charges: Sequence[CapCharge], outcomes: Sequence[CapChargeResult | Deferred]) -> ChargeResult:
    """All together: a refusal is one whatever else must happen first.

    Raises:
        BusyError: none refuses, and one must be asked again later.
    """
    results = tuple([each for each in outcomes if isinstance(each, CapChargeResult)])
    if exceeded := tuple([each for each in results if each.excess]):
        return ChargeResult(exceeded=exceeded)
    if len(results) == len(outcomes):
        return ChargeResult(reserved=results)
    for charge, outcome in zip(
        charges, outcomes, strict=False
    ):  # where one must be asked again, none after it was asked
        if isinstance(outcome, Deferred):
            raise RetryLaterError(f"cap {charge.cap.definition.name}: {outcome.prerequisite}")
    return ChargeResult(reserved=results)
