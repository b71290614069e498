"""Top consumers of an exceeded cap, and the time until unused reservations expire, for the message of a rejection.

The sums need every pod under the ledger, so they are cached for ten times as long as their computation took. A full cap
of a hundred thousand pods is summed about once a second, a small one at each rejection.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from tallygate.accounting.charge import ConsumerKind
from tallygate.cluster import consumer_sums
from tallygate.cluster.consumers import list_reserved
from tallygate.cluster.usage_lister import UsageLister, get_ledger_key
from tallygate.gate.ledger_reconciler import IN_FLIGHT_BOUND_SECONDS
from tallygate.review.cap_charge import CapChargeResult
from tallygate.review.cap_messages import ExcessDetails
from tallygate.state.informers.consumer_store import NotSyncedError
from tallygate.state.informers.usage_sums import GroupUsage
from tallygate.state.ledger.expire import GANG_BOUND_SECONDS, ReservationAges
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

_CACHE_FACTOR = 10.0  # the cache time by the computation time
_MAX_CACHED_LEDGERS = 1000
_EVERYTHING = 2**63
_RECONCILE_SECONDS = 3.0  # after the bound a reservation expires by one write and one read, in two reconciliations
_ROUNDING_SECONDS = 5  # the message rounds up to it: an exact figure would be a new text at each retry of a controller


@dataclass(frozen=True, slots=True)
class _CachedSums:
    """The sums of one ledger, and the time until which they are used."""

    sums: consumer_sums.ConsumerSums
    expires_at: float


class TopConsumers:
    """A finder of top consumers, for any thread; while one thread computes the sums again, others use the cached ones.

    `usage_lister` shows the stored pods, where they are watched: otherwise only reservations are known, and those never
    expire. The ledger reconciler fills `ages`. `in_flight_bound` is B in seconds. Under `lock` the first sums of a
    ledger are computed once, and all threads that need them wait; without it each of them computes them.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        usage_lister: UsageLister | None,
        in_flight_bound: float = IN_FLIGHT_BOUND_SECONDS,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self._monotonic = monotonic
        self._usage_lister = usage_lister
        self._in_flight_bound = in_flight_bound
        self._owners = consumer_sums.PodOwners()
        self._cache: dict[LedgerKey, _CachedSums] = {}
        self._in_progress: set[LedgerKey] = set()
        self._lock = lock or nullcontext()
        self.ages: dict[LedgerKey, ReservationAges] = {}

    def describe(
        self, namespace: str, result: CapChargeResult, name: str, *, allocated_claim: str = "", created_pod: str = ""
    ) -> ExcessDetails:
        """Return the top consumers of an exceeded resource and the time until unused reservations expire.

        `allocated_claim` is the name of the claim whose allocation is rejected: only others are consumers.
        `created_pod` is the name of the pod whose creation is rejected.
        """
        definition, key = result.charge.cap.definition, get_ledger_key(result.charge.cap, namespace)
        own = None
        if allocated_claim and definition.shared:
            own = consumer_sums.Consumer(f"namespace {namespace}", result.charge.current.get(name, 0))
        elif allocated_claim:
            own = consumer_sums.Consumer(
                f"{consumer_sums.KIND_NAMES[ConsumerKind.CLAIM]} {allocated_claim}", _EVERYTHING
            )
        consumers = self._get_sums(key, result).list_top(name, own) if definition.shows_top_consumers else ()
        if self._usage_lister is None:
            return ExcessDetails(consumers)
        exists = bool(created_pod) and self._usage_lister.has_running_pod(namespace, created_pod)
        return ExcessDetails(consumers, self._estimate_expiry(key, result.before, name), exists)

    def _get_sums(self, key: LedgerKey, result: CapChargeResult) -> consumer_sums.ConsumerSums:
        if (cached := self._cache.get(key)) is None:
            with self._lock:
                return ready.sums if (ready := self._cache.get(key)) is not None else self._compute_sums(key, result)
        if self._monotonic() < cached.expires_at or key in self._in_progress:
            return cached.sums
        return self._compute_sums(key, result)

    def _compute_sums(self, key: LedgerKey, result: CapChargeResult) -> consumer_sums.ConsumerSums:
        started_at = self._monotonic()
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

    def _sum_usage(self, key: LedgerKey, result: CapChargeResult) -> consumer_sums.ConsumerSums:
        cap, usage_lister = result.charge.cap, self._usage_lister
        if usage_lister is None:
            consumers, list_names = list_reserved(result.before), _list_no_names
        else:
            consumers, list_names = usage_lister.list_consumers(cap, key, result.before), usage_lister.list_pod_names
        try:
            return consumer_sums.sum_consumers(cap, consumers, self._owners, list_names)
        except NotSyncedError:
            return consumer_sums.ConsumerSums()

    def _estimate_expiry(self, key: LedgerKey, ledger: Ledger, name: str) -> int | None:
        """Return the seconds until the last of these reservations expires, by the ages known to this process."""
        now, ages = self._monotonic(), self.ages.get(key)
        by_attempt = ages.by_attempt if ages else {}
        ends = [
            (by_attempt[uid, reservation.attempt].first_seen if (uid, reservation.attempt) in by_attempt else now)
            + self._in_flight_bound
            + (GANG_BOUND_SECONDS if reservation.kind is ConsumerKind.WORKLOAD else 0.0)
            for uid, reservation in ledger.reservations.items()
            if reservation.requested.get(name, 0) > reservation.counted.get(name, 0)
        ]
        if not ends:
            return None
        remaining = max(max(ends) - now, 0.0) + _RECONCILE_SECONDS
        return math.ceil(remaining / _ROUNDING_SECONDS) * _ROUNDING_SECONDS


def _list_no_names(group: GroupUsage, max_names: int) -> list[str]:  # noqa: ARG001  # the names of a heap's pods, where none are known
    return []
