"""Charging of one pod or claim under all its caps, all or nothing.

Check all caps first: otherwise a full cap would starve the other caps with reservations. Then write in the order of the
ledger keys, so that no replica waits in a cycle. If a later cap rejects the consumer, release the earlier reservations.

A cap without a hard limit on anything of the consumer does not reject it, whatever the state of its ledger. It comes
last, so that it delays no other cap. Only a hard limit that the ledger has already, and this replica's policy not yet,
rejects there (rule 8).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from tallygate.webhook.gate.charge_transitions import (
    CapCharge,
    CapChargeResult,
    ChargedConsumer,
    ChargeMode,
    ReleaseTransition,
    ReserveTransition,
)
from tallygate.webhook.gate.usage_lister import UsageLister
from tallygate.webhook.state.ledger.reserve import Deferred, Prerequisite
from tallygate.webhook.state.ports import Ledgers, RetryLaterError, StoreUnavailableError

_GRACE_SECONDS = 1.0  # after the deadline, to release a reservation that would otherwise block others until it expires


class CapObstacle(msgspec.Struct, frozen=True):
    """The reason why there is no result under one cap: a prerequisite of the ledger, or the error of a store."""

    cap: str
    cause: Prerequisite | RetryLaterError | StoreUnavailableError


class ChargeResult(msgspec.Struct, frozen=True):
    """The results under all caps: `reserved` under every cap, or nothing is reserved.

    One cap in `exceeded` rejects the consumer. Otherwise one of `obstacles` leaves it undecided. `unevaluated` are
    caps that gave no result and cannot reject the consumer: nothing is known to be reserved under them.
    """

    reserved: tuple[CapChargeResult, ...] = ()
    exceeded: tuple[CapChargeResult, ...] = ()
    obstacles: tuple[CapObstacle, ...] = ()
    unevaluated: tuple[CapObstacle, ...] = ()

    @property
    def is_final(self) -> bool:
        """True if a cap rejects the consumer or leaves it undecided."""
        return bool(self.exceeded or self.obstacles)


def charge_consumer(
    ledgers: Ledgers,
    consumer: ChargedConsumer,
    charges: Sequence[CapCharge],
    deadline: float,
    usage_lister: UsageLister | None = None,
) -> ChargeResult:
    """Charge one consumer under all its caps before `deadline` (seconds of the monotonic clock), in one attempt.

    Check several caps first, then reserve under each in turn. A dry run only checks. `usage_lister` shows the stored
    pods and claims, where they are watched.
    """
    transact = partial(_transact, ledgers, deadline, usage_lister)
    create = partial(ReserveTransition, consumer, is_standalone=ledgers.is_standalone, usage_lister=usage_lister)
    limited_first = sorted(charges, key=lambda charge: not charge.is_limited)
    if consumer.is_dry_run:
        return _combine(transact, [create(charge, ChargeMode.DRY_RUN) for charge in limited_first], ends_early=False)
    if len(charges) > 1:
        limited = [create(charge, ChargeMode.CHECK) for charge in limited_first if charge.is_limited]
        checked = _combine(transact, limited, ends_early=False)
        if checked.is_final:
            return checked
    transitions = [create(charge, ChargeMode.RESERVE) for charge in limited_first]
    result = _combine(transact, transitions, ends_early=True)
    if result.is_final:
        for transition in transitions:
            if transition.may_be_stored:
                # An unavailable ledger keeps its reservation until it expires; the other ledgers are still released.
                with suppress(StoreUnavailableError, RetryLaterError):
                    ledgers.transact(transition.key, ReleaseTransition(consumer), deadline + _GRACE_SECONDS)
    return result


_CapOutcome = CapChargeResult | CapObstacle


def _transact(
    ledgers: Ledgers, deadline: float, usage_lister: UsageLister | None, transition: ReserveTransition
) -> _CapOutcome:
    """Apply the transition, and request a fresh revision where a newer state of the cluster may change its outcome."""
    cap = transition.charge.cap.definition.name
    try:
        outcome = ledgers.transact(transition.key, transition, deadline)
    except (RetryLaterError, StoreUnavailableError) as error:
        return CapObstacle(cap, error)
    if isinstance(outcome, Deferred):
        if usage_lister is not None and outcome.prerequisite in {Prerequisite.CATCH_UP, Prerequisite.COUNT_CLAIM}:
            usage_lister.request_progress()
        return CapObstacle(cap, outcome.prerequisite)
    if usage_lister is not None and outcome.excess:
        usage_lister.request_progress_if_silent()
    return outcome


def _combine(
    transact: Callable[[ReserveTransition], _CapOutcome], transitions: Sequence[ReserveTransition], *, ends_early: bool
) -> ChargeResult:
    """Apply the transitions in turn, up to the first error of a store, and return the result of all.

    With `ends_early`, apply them up to the first that does not reserve. A cap that cannot reject ends nothing.
    """
    reserved: list[CapChargeResult] = []
    exceeded: list[CapChargeResult] = []
    obstacles: list[CapObstacle] = []
    unevaluated: list[CapObstacle] = []
    for transition in transitions:
        outcome = transact(transition)
        if isinstance(outcome, CapObstacle) and not transition.charge.is_limited:
            unevaluated.append(outcome)
        elif isinstance(outcome, CapObstacle):
            obstacles.append(outcome)
            if ends_early or not isinstance(outcome.cause, Prerequisite):
                break
        elif not outcome.excess:
            reserved.append(outcome)
        else:
            exceeded.append(outcome)
            if ends_early:
                break
    return ChargeResult(
        () if exceeded or obstacles else tuple(reserved), tuple(exceeded), tuple(obstacles), tuple(unevaluated)
    )
