"""Everything in turn: what must be looked at now and then, spread evenly over the time."""

import math
from collections.abc import Callable, Iterable, Sequence

from webhook.admission.capping import Counted
from webhook.state.ports import LedgerKey


class Round:
    """Takes everything in turn, evenly, so that each has its turn once in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._left: list[tuple[LedgerKey, Counted]] = []
        self._begun = -math.inf
        self._length = 0

    def turn(
        self, now: float, every: Callable[[], Iterable[tuple[LedgerKey, Counted]]]
    ) -> Sequence[tuple[LedgerKey, Counted]]:
        """Those whose turn has come by `now`; `every` is asked when a round begins."""
        if now - self._begun >= self._seconds and not self._left:
            self._left, self._begun = list(every()), now
            self._length = len(self._left)
        share = min((now - self._begun) / self._seconds, 1.0)
        late = len(self._left) - math.floor(self._length * (1.0 - share))
        return [self._left.pop() for _ in range(max(late, 0))]
