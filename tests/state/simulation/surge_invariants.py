"""The invariants of surges: how long one may last, and that its time is removed with it (rule 12)."""

from tallygate.state.ledger.ledger import Ledger
from tests.schedules import ViolationError
from tests.state.simulation.ground_truth import GroundTruth, Key, Reserving, Write


def exceeds_limit(ledger: Ledger) -> bool:
    """Return whether a ledger charges more than its limit of a name that has a surge."""
    charged = ledger.compute_charged()
    return any(charged.get(name, 0) > ledger.hard[name] for name in ledger.surge.amounts if name in ledger.hard)


def may_be_over(truth: GroundTruth, key: Key, attempted_at: int, ticks: int) -> bool:
    """Return whether the surge of a ledger may be over by one of the clocks, for an attempt at a time."""
    began = truth.surges_began.get(key)
    return began is not None and attempted_at - began + truth.scenario.skew >= ticks


class SurgeInvariants:
    """Checks of each stored ledger, by the true times at which the surges of the ledgers began.

    The time is that of the attempt which first took a ledger above its limit, or found it there for another reason. A
    ledger that is deleted has no such time, nor has one that charges no more than its limit after a write that may
    lower the charge.
    """

    def __init__(self, truth: GroundTruth) -> None:
        self._truth = truth

    def check_write(self, write: Write) -> None:
        """Check a ledger that has just been stored."""
        key, ledger, reserving, began = write.key, write.ledger, write.reserving, self._truth.surges_began
        if ledger.initializer:
            began.pop(key, None)
        elif reserving is not None:
            if reserving.is_recounted and not reserving.was_above:
                began.pop(key, None)
            if reserving.needs_surge:
                self._check_time(key, reserving)
        elif not write.is_unchanged and not exceeds_limit(ledger):
            if ledger.surge.since is not None:
                raise ViolationError(f"kept: {key} has a surge since {ledger.surge.since}, and is not above its limit")
            began.pop(key, None)

    def _check_time(self, key: Key, reserving: Reserving) -> None:
        all_began, at = self._truth.surges_began, reserving.attempted_at
        if not reserving.was_above:
            all_began.pop(key, None)
        began = all_began.setdefault(key, at)
        all_began[key] = min(began, at)
        if at - began >= reserving.ticks + self._truth.scenario.skew:
            raise ViolationError(f"late: {key} surges for {at - began}, where {reserving.ticks} is allowed")
