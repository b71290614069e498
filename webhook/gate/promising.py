"""The attempts of charging, as the ledgers carry them out: promise a pod room under one cap, and take that back."""

from dataclasses import replace
from enum import Enum, auto

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.admission.capping import Counted
from webhook.gate.sight import Membership, UsageLister
from webhook.state.ledger import (
    MAX_RESERVATIONS,
    Deferred,
    Exceeded,
    Ledger,
    Operation,
    Prerequisite,
    ReservationRequest,
    Reserved,
    recount,
    release,
    reserve,
)
from webhook.state.ports import LedgerKey, TransitionResult

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

    cap: Counted
    current: Amounts
    requested: Amounts
    may_exceed: bool

    def ledger_key(self, namespace: str) -> LedgerKey:
        """The ledger that counts it."""
        return LedgerKey(self.cap.key, "" if self.cap.cap.shared else namespace)


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
        hard, resources = self.charge.cap.hard, self.charge.cap.names
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
            is_shared=charge.cap.cap.shared and not self.is_standalone,
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
