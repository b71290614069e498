"""What replicas have seen of the nodes, and the limits that follow from it by plain arithmetic (rule 8)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.gate.simulation.percent_policies import SETTLE_SECONDS

_SKEW = 2.5
"""The seconds by which the wall clocks of two replicas differ at most, and a margin: they age what is recorded."""
_TICK = 0.5


class SeenCapacity(NamedTuple):
    """A capacity that a replica measured until `end`, None if that is not over; `slack` is how wrong the end may be.

    It `is_certain` unless it comes from a record that may have been too old for a replica that started.
    """

    amount: int
    end: float | None = None
    slack: float = _TICK
    is_certain: bool = True


class RecordedView(NamedTuple):
    """What the leader had measured at a time of the world, as it recorded it."""

    at: float
    seen: Sequence[SeenCapacity]


class NodeView:
    """The capacities that one replica has measured, and those that it takes from a record; `now` is that of the world.

    A capacity counts for the time of `settle` after its end.
    """

    def __init__(self, now: Callable[[], float], recorded: RecordedView | None) -> None:
        self._now = now
        self._measured_at = self._started_at = now()
        self._inherited: list[SeenCapacity] = []
        age = 0.0 if recorded is None else self._started_at - recorded.at
        if recorded is not None and age <= SETTLE_SECONDS + _SKEW:
            is_recent = age <= SETTLE_SECONDS - _SKEW
            ended = (_end(each, self._started_at) for each in recorded.seen)
            self._inherited = [each._replace(is_certain=each.is_certain and is_recent) for each in ended]
        self._seen: list[SeenCapacity] = []

    def measure(self, amount: int) -> None:
        """Take the capacity that is measured now."""
        self._measured_at = self._now()
        if self._seen and self._seen[-1].amount == amount:
            return
        if self._seen:
            self._seen[-1] = self._seen[-1]._replace(end=self._measured_at)
        self._seen.append(SeenCapacity(amount))

    def find_bounds(self) -> tuple[int, int] | None:
        """Return the least and the most that the settled capacity may be, None before the first measurement."""
        if not self._seen:
            return None
        most = [*self._inherited, *self._seen]
        return self._find_largest([each for each in most if each.is_certain], 1), self._find_largest(most, -1)

    def _find_largest(self, seen: Sequence[SeenCapacity], sign: int) -> int:
        begin = self._measured_at - SETTLE_SECONDS
        return max(each.amount for each in seen if each.end is None or each.end > begin + sign * each.slack)

    def record(self) -> RecordedView:
        """Return what it records now."""
        return RecordedView(self._now(), [*self._inherited, *self._seen])


def _end(seen: SeenCapacity, started_at: float) -> SeenCapacity:
    """Return what another replica had measured: what had not ended does so at the start of this one."""
    return seen._replace(end=started_at, slack=_TICK) if seen.end is None else seen._replace(slack=seen.slack + _SKEW)
