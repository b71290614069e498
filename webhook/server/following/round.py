"""Everything in turn: what must be looked at now and then, spread evenly over the time."""

import math
from collections.abc import Callable, Iterable, Sequence

from webhook.admission.capping import Counted
from webhook.state.ports import LedgerKey


class ReconcileSchedule:
    """Takes everything in turn, evenly, so that each has its turn once in so many seconds."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._remaining: list[tuple[LedgerKey, Counted]] = []
        self._started_at = -math.inf
        self._total = 0

    def take_due(
        self, now: float, list_all: Callable[[], Iterable[tuple[LedgerKey, Counted]]]
    ) -> Sequence[tuple[LedgerKey, Counted]]:
        """Those whose turn has come by `now`; `every` is asked when a round begins."""
        if now - self._started_at >= self._period and not self._remaining:
            self._remaining, self._started_at = list(list_all()), now
            self._total = len(self._remaining)
        elapsed_share = min((now - self._started_at) / self._period, 1.0)
        due_count = len(self._remaining) - math.floor(self._total * (1.0 - elapsed_share))
        return [self._remaining.pop() for _ in range(max(due_count, 0))]
