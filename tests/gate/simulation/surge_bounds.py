"""The bounds of every write by attempts that a gate decides: limits, surges and their time (rules 8 and 12).

They are computed by plain arithmetic over stored objects, clocks and views. A ledger charges each pod at least what it
uses, which `invariants` checks: so stored pods are within what a ledger charges.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ports import LedgerKey
from tests.gate.simulation.attempts import Attempt, Attempts
from tests.gate.simulation.ground_truth import GroundTruth
from tests.gate.simulation.surge_policies import SURGE_SECONDS
from tests.state.informers.pods import GPU

_NO_LIMIT = 1_000_000
_MAX_DELAY = 3.0
"""The seconds by which the clocks of replicas differ at most, and the second that whole seconds lose."""


class _Charge(NamedTuple):
    """The GPUs that an attempt reserves in a new version of a ledger, the most that this may charge, and the reason."""

    uid: str
    amount: int
    most: int
    reason: str


class SurgeBounds:
    """The last version of each ledger, and the time at which a surge began in it, by the clock of the world."""

    def __init__(self, truth: GroundTruth, attempts: Attempts) -> None:
        self._truth = truth
        self._attempts = attempts
        self._last: dict[LedgerKey, Ledger] = {}
        self._began_at: dict[LedgerKey, float] = {}

    def list_violations(self, key: LedgerKey, ledger: Ledger) -> Iterator[str]:
        """Yield the attempts that charge more in a version of a ledger than they may.

        Several attempts may be in one write, in any order. So one that may charge least is compared with what the
        ledger charged before, and those that may charge as much at most.
        """
        before = self._last.get(key)
        self._last[key] = ledger
        if ledger is before:
            return
        if before is None or before.initializer or ledger.initializer:
            self._began_at.pop(key, None)
            return
        written = {
            uid: attempt
            for uid, each in ledger.reservations.items()
            if uid not in before.reservations or before.reservations[uid].attempt != each.attempt
            if (attempt := self._attempts.find(each.attempt)) is not None and attempt.request.uid == uid
        }
        for uid, attempt in written.items():
            if attempt.request.is_dry_run:
                yield f"dry: {uid} is reserved for in a dry run"
        yield from _list_lost_times(key, before, ledger, written)
        amounts = {uid: _get_reserved(ledger, uid) for uid in written}
        hard = max(_get_hard(before), _get_hard(ledger))
        charged = _compute_charged(ledger)
        base = charged - sum(amounts.values())
        if base <= hard:
            self._began_at.pop(key, None)
        charges = [
            self._limit(key, before, ledger, uid, attempt)
            for uid, attempt in written.items()
            if attempt.adds and not _takes_all(ledger, uid, attempt)
        ]
        for each in charges:
            total = base + sum(other.amount for other in charges if other.most <= each.most)
            if total > each.most:
                yield f"{each.reason}: {each.uid} makes {total}, where it may make {each.most}"
        if charged <= _get_hard(ledger):
            self._began_at.pop(key, None)
        elif charged > hard and any(written[each.uid].may_surge(self._truth) for each in charges):
            self._began_at.setdefault(key, self._truth.now)

    def _limit(self, key: LedgerKey, before: Ledger, ledger: Ledger, uid: str, attempt: Attempt) -> _Charge:
        """Return the charge of an attempt, with the smaller limit of its replica and of the ledger."""
        amount, cap = _get_reserved(ledger, uid), attempt.find_cap(key.cap)
        assert cap is not None
        own, stored = attempt.compute_hard(self._truth, cap), max(_get_hard(before), _get_hard(ledger))
        if not attempt.may_surge(self._truth):
            reason = "shared" if stored <= own else "limit"
            return _Charge(uid, amount, min(own, stored), reason)
        surge = max(before.surge.amounts.get(GPU, 0), ledger.surge.amounts.get(GPU, 0))
        began_at = self._began_at.get(key)
        if began_at is not None and attempt.started_at - began_at > SURGE_SECONDS + _MAX_DELAY:
            return _Charge(uid, amount, min(own + cap.surge[GPU], stored), "late")
        return _Charge(uid, amount, min(own + cap.surge[GPU], stored + surge), "over")


def _list_lost_times(key: LedgerKey, before: Ledger, ledger: Ledger, written: Mapping[str, Attempt]) -> Iterator[str]:
    """Yield whether a surge has a begin after its end, and whether one has none, or another one while it goes on.

    The attempts `written` may begin a surge, and the smaller limit of a replica may be exceeded within that of the
    ledger. Without them the charge shows whether a surge has ended meanwhile.
    """
    since, charged = before.surge.since, _compute_charged(ledger)
    if charged <= _get_hard(ledger) and ledger.surge.since is not None and not written:
        yield f"kept: the surge of {key} has a begin, although nothing exceeds the limit"
    base, hard = charged - sum(_get_reserved(ledger, uid) for uid in written), max(_get_hard(before), _get_hard(ledger))
    # a change that adds nothing passes no guard, and begins no surge, also where the ledger counts more of its pod
    unguarded = sum(
        max(0, _get_reserved(ledger, uid) - (_get_reserved(before, uid) if uid in before.reservations else 0))
        for uid, attempt in written.items()
        if not attempt.adds
    )
    if ledger.surge.since is None and written and _compute_charged(before) <= hard < charged - unguarded:
        yield f"forgotten: the surge of {key} has no begin"
    if since is None or not ledger.surge.amounts or min(base, _compute_charged(before)) <= hard:
        return
    if ledger.surge.since is None or ledger.surge.since > since:
        yield f"forgotten: the surge of {key} since {since} has no begin, or a later one"


def _get_hard(ledger: Ledger) -> int:
    """Return the limit of a ledger; one that was made while its capacity was not known has none yet."""
    return ledger.hard.get(GPU, _NO_LIMIT)


def _get_reserved(ledger: Ledger, uid: str) -> int:
    return ledger.reservations[uid].compute_reserved().get(GPU, 0)


def _takes_all(ledger: Ledger, uid: str, attempt: Attempt) -> bool:
    """Return whether a new pod takes over all its amounts from its workload, so that no limit decides."""
    taken = ledger.reservations[uid].taken.get(GPU, 0)
    return attempt.request.operation is Operation.CREATE and taken >= attempt.request.size


def _compute_charged(ledger: Ledger) -> int:
    return ledger.compute_charged().get(GPU, 0)
