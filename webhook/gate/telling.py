"""What a refusal tells beside its arithmetic: who holds most, and when what is only promised is free again.

It takes a look at every pod under the ledger, so what it finds is remembered for ten times as long as that took: a
full cap of a hundred thousand pods is looked at about once a second, a small one each time.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from webhook.gate.holders import Holder, Owners, Sums, by_namespace, by_workload
from webhook.gate.keeping import BOUND_SECONDS
from webhook.gate.promising import Booked
from webhook.gate.sight import Sight
from webhook.state.ledger import Ages, Ledger
from webhook.state.ports import LedgerKey
from webhook.state.watch.view import Heap, NotListedError

_REMEMBERED = 10.0  # times as long as it took
_MOST_REMEMBERED = 1000
_KEEPING_SECONDS = 3.0  # behind the bound a promise goes by one write and one read, of two visits of the keeper
_STEP_SECONDS = 5  # what is said is rounded up to that: more would be a new text each time somebody tries again


@dataclass(frozen=True, slots=True)
class Beside:
    """What is told of one name: who holds most, and within how many seconds all is free that no pod comes for."""

    holders: tuple[Holder, ...] = ()
    back: int | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """What a look found, and until when that is good enough."""

    sums: Sums
    until: float


_NOTHING_FOUND = _Found(Sums(), -math.inf)


class Telling:
    """Looks for what is worth telling. Any thread may ask; while one looks, others make do with what was found before.

    `sight` shows the pods that are there, where they are watched: else nothing but promises is known, and those never
    come back. `ages` are kept by who keeps the ledgers, with the bound B in seconds.
    """

    def __init__(self, monotonic: Callable[[], float], sight: Sight | None, bound: float = BOUND_SECONDS) -> None:
        self._monotonic = monotonic
        self._sight = sight
        self._bound = bound
        self._owners = Owners()
        self._known: dict[LedgerKey, _Found] = {}
        self._looking: set[LedgerKey] = set()
        self.ages: dict[LedgerKey, Ages] = {}

    def beside(self, namespace: str, booked: Booked, name: str) -> Beside:
        """What to tell of a name that goes over, to who asks in this namespace."""
        key = booked.asked.key(namespace)
        holders = self._sums(key, booked).most(name) if booked.asked.counted.cap.names_holders else ()
        return Beside(holders, self._back(key, booked.before, name) if self._sight else None)

    def _sums(self, key: LedgerKey, booked: Booked) -> Sums:
        found = self._known.get(key, _NOTHING_FOUND)
        begun = self._monotonic()
        if begun < found.until or key in self._looking:
            return found.sums
        self._looking.add(key)
        try:
            sums = self._look(key, booked)
        finally:
            self._looking.discard(key)
        ended = self._monotonic()
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[key] = _Found(sums, ended + _REMEMBERED * (ended - begun))
        return sums

    def _look(self, key: LedgerKey, booked: Booked) -> Sums:
        counted, sight = booked.asked.counted, self._sight
        heaps = () if sight is None else sight.heaps(counted, key)
        named = _nobody if sight is None else sight.named
        try:
            if counted.cap.shared:
                return by_namespace(heaps, booked.before)
            return by_workload(heaps, booked.before, self._owners, named)
        except NotListedError:
            return Sums()

    def _back(self, key: LedgerKey, ledger: Ledger, name: str) -> int | None:
        """The last of these promises is free then, by the age that this process knows it to have."""
        now, ages = self._monotonic(), self.ages.get(key)
        known = ages.known if ages else {}
        since = [
            known[uid, row.by].since if (uid, row.by) in known else now
            for uid, row in ledger.rows.items()
            if row.to.get(name, 0) > row.base.get(name, 0)
        ]
        if not since:
            return None
        left = max(max(since) + self._bound - now, 0.0) + _KEEPING_SECONDS
        return math.ceil(left / _STEP_SECONDS) * _STEP_SECONDS


def _nobody(heap: Heap, most: int) -> list[str]:  # noqa: ARG001  # the names of a heap's pods, where none are known
    return []
