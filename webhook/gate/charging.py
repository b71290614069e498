"""Charging: one pod under all its caps, all or nothing.

Check all first, or a full cap would starve its neighbour with promises; write in the order of their keys, so that
nobody waits for nobody; take back what was written when a later one has no room any more.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from webhook.gate.promising import (
    CapCharge,
    CapChargeResult,
    ChargedPod,
    ChargeMode,
    ReleaseTransition,
    ReserveTransition,
)
from webhook.gate.sight import UsageLister
from webhook.state.ledger import Deferred, Ledger, Prerequisite
from webhook.state.ports import LedgerKey, Ledgers, RetryLaterError, StoreUnavailableError, TransitionResult

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
            raise RetryLaterError(f"cap {charge.cap.cap.name}: {outcome.prerequisite}")
    return ChargeResult(reserved=results)
