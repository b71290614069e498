"""What a refusal tells beside its arithmetic: who holds most, and when what is only promised is free again.

It takes a look at every pod under the ledger, so what it finds is remembered for ten times as long as that took: a
full cap of a hundred thousand pods is looked at about once a second, a small one each time.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from webhook.gate.holders import Consumer, ConsumerSums, PodOwners, sum_by_namespace, sum_by_workload
from webhook.gate.keeping import IN_FLIGHT_BOUND_SECONDS
from webhook.gate.promising import CapChargeResult
from webhook.gate.sight import UsageLister
from webhook.state.ledger import Ledger, ReservationAges
from webhook.state.ports import LedgerKey
from webhook.state.watch.view import Heap, NotListedError

_CACHE_FACTOR = 10.0  # times as long as it took
_MAX_CACHED_LEDGERS = 1000
_RECONCILE_SECONDS = 3.0  # behind the bound a promise goes by one write and one read, of two visits of the keeper
_ROUNDING_SECONDS = 5  # what is said is rounded up to that: more would be a new text each time somebody tries again


@dataclass(frozen=True, slots=True)
class ExcessDetails:
    """What is told of one name: who holds most, and within how many seconds all is free that no pod comes for."""

    consumers: tuple[Consumer, ...] = ()
    expires_within: int | None = None


@dataclass(frozen=True, slots=True)
class _CachedSums:
    """What a look found, and until when that is good enough."""

    sums: ConsumerSums
    expires_at: float


_NO_SUMS = _CachedSums(ConsumerSums(), -math.inf)


class TopConsumers:
    """Looks for what is worth telling. Any thread may ask; while one looks, others make do with what was found before.

    `sight` shows the pods that are there, where they are watched: else nothing but promises is known, and those never
    come back. `ages` are kept by who keeps the ledgers, with the bound B in seconds.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        usage_lister: UsageLister | None,
        in_flight_bound: float = IN_FLIGHT_BOUND_SECONDS,
    ) -> None:
        self._monotonic = monotonic
        self._usage_lister = usage_lister
        self._in_flight_bound = in_flight_bound
        self._owners = PodOwners()
        self._cache: dict[LedgerKey, _CachedSums] = {}
        self._in_progress: set[LedgerKey] = set()
        self.ages: dict[LedgerKey, ReservationAges] = {}

    def describe(self, namespace: str, result: CapChargeResult, name: str) -> ExcessDetails:
        """What to tell of a name that goes over, to who asks in this namespace."""
        key = result.charge.ledger_key(namespace)
        consumers = self._get_sums(key, result).list_top(name) if result.charge.cap.cap.names_holders else ()
        return ExcessDetails(consumers, self._estimate_expiry(key, result.before, name) if self._usage_lister else None)

    def _get_sums(self, key: LedgerKey, result: CapChargeResult) -> ConsumerSums:
        cached = self._cache.get(key, _NO_SUMS)
        started_at = self._monotonic()
        if started_at < cached.expires_at or key in self._in_progress:
            return cached.sums
        self._in_progress.add(key)
        try:
            sums = self._sum_usage(key, result)
        finally:
            self._in_progress.discard(key)
        ended_at = self._monotonic()
        if len(self._cache) >= _MAX_CACHED_LEDGERS:
            self._cache.clear()
        self._cache[key] = _CachedSums(sums, ended_at + _CACHE_FACTOR * (ended_at - started_at))
        return sums

    def _sum_usage(self, key: LedgerKey, result: CapChargeResult) -> ConsumerSums:
        cap, usage_lister = result.charge.cap, self._usage_lister
        groups = () if usage_lister is None else usage_lister.list_groups(cap, key)
        list_names = _list_no_names if usage_lister is None else usage_lister.list_pod_names
        try:
            if cap.cap.shared:
                return sum_by_namespace(groups, result.before)
            return sum_by_workload(groups, result.before, self._owners, list_names)
        except NotListedError:
            return ConsumerSums()

    def _estimate_expiry(self, key: LedgerKey, ledger: Ledger, name: str) -> int | None:
        """The last of these promises is free then, by the age that this process knows it to have."""
        now, ages = self._monotonic(), self.ages.get(key)
        by_attempt = ages.by_attempt if ages else {}
        first_seen = [
            by_attempt[uid, reservation.attempt].first_seen if (uid, reservation.attempt) in by_attempt else now
            for uid, reservation in ledger.reservations.items()
            if reservation.requested.get(name, 0) > reservation.counted.get(name, 0)
        ]
        if not first_seen:
            return None
        remaining = max(max(first_seen) + self._in_flight_bound - now, 0.0) + _RECONCILE_SECONDS
        return math.ceil(remaining / _ROUNDING_SECONDS) * _ROUNDING_SECONDS


def _list_no_names(group: Heap, max_names: int) -> list[str]:  # noqa: ARG001  # the names of a heap's pods, where none are known
    return []
