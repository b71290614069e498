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

from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate.cap_activation import CapActivation
from tallygate.gate.charge_transitions import ChargeMode, ReleaseTransition, ReserveTransition
from tallygate.review.cap_charge import CapCharge, CapChargeResult, CapObstacle, ChargedConsumer, ChargeResult
from tallygate.state.ledger.reserve import Deferred, Prerequisite
from tallygate.state.ports import Ledgers, RetryLaterError, StoreUnavailableError

_GRACE_SECONDS = 1.0  # after the deadline, to release a reservation that would otherwise block others until it expires


def charge_consumer(  # noqa: PLR0913  # ports, each by its name
    ledgers: Ledgers,
    consumer: ChargedConsumer,
    charges: Sequence[CapCharge],
    deadline: float,
    usage_lister: UsageLister | None = None,
    *,
    activation: CapActivation | None = None,
) -> ChargeResult:
    """Charge one consumer under all its caps before `deadline` (seconds of the monotonic clock), in one attempt.

    Check several caps first, then reserve under each in turn. A dry run only checks. `usage_lister` shows the stored
    pods and claims, where they are watched. Without an `activation`, no cap is new.
    """
    transact = partial(_transact, ledgers, deadline, usage_lister, activation)
    create = partial(
        ReserveTransition,
        consumer,
        is_standalone=ledgers.is_standalone,
        usage_lister=usage_lister,
        is_cap_new=None if activation is not None else False,
        activation=activation,
    )
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
    ledgers: Ledgers,
    deadline: float,
    usage_lister: UsageLister | None,
    activation: CapActivation | None,
    transition: ReserveTransition,
) -> _CapOutcome:
    """Apply the transition, and request a fresh revision where a newer state of the cluster may change its outcome."""
    cap = transition.charge.cap.definition.name
    try:
        outcome = ledgers.transact(transition.key, transition, deadline)
        if isinstance(outcome, Deferred) and outcome.prerequisite is Prerequisite.READ_RECORD:
            _read_record(transition, activation)
            outcome = ledgers.transact(transition.key, transition, deadline)
    except (RetryLaterError, StoreUnavailableError) as error:
        return CapObstacle(cap, error)
    if isinstance(outcome, Deferred):
        if usage_lister is not None and outcome.prerequisite in {Prerequisite.CATCH_UP, Prerequisite.COUNT_CLAIM}:
            usage_lister.request_progress()
        return CapObstacle(cap, outcome.prerequisite, outcome.ledger.activation)
    if usage_lister is not None and transition.may_be_stored:
        usage_lister.record_existing(transition.key, is_active=not outcome.before.initializer)
    if usage_lister is not None and outcome.excess:
        usage_lister.request_progress_if_silent()
    return outcome


def _read_record(transition: ReserveTransition, activation: CapActivation | None) -> None:
    """Let the transition know whether its cap was never active; if the record cannot be read, it may have been."""
    transition.is_cap_new = False
    if activation is not None:
        with suppress(StoreUnavailableError, RetryLaterError):
            transition.is_cap_new = activation.is_new(transition.charge.cap.policy_key)


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
