"""Metrics of what is seen of the cluster, and of the visits to the ledgers that are kept by it."""

from collections.abc import Callable, Collection, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from webhook.server.caps.seen import ObservedLedgers
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey
from webhook.state.watch.runner import Followed


class LedgerControllerMetrics(Collector):
    """Counts visits, passes on what ledgers said then, and asks how following goes when metrics are read.

    `leads` says whether this replica is the one that keeps ledgers.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        list_statuses: Callable[[], Sequence[Followed]],
        observed_ledgers: ObservedLedgers,
        is_leader: Callable[[], bool],
    ) -> None:
        self._list_statuses = list_statuses
        self._observed_ledgers = observed_ledgers
        self._is_leader = is_leader
        self._reconciles = Counter(
            "tallygate_ledger_visits",
            "Visits of ledgers by their keeper, by what came of it.",
            ("result",),
            registry=registry,
        )
        self._expired = Counter(
            "tallygate_promises_expired", "Promises that were dropped because their pod never came.", registry=registry
        )
        registry.register(self)

    def count_reconcile(self, result: str) -> None:
        """Count a visit that was `written`, `unchanged` or `failed`."""
        self._reconciles.labels(result).inc()

    def count_expired(self, count: int) -> None:
        """Count promises that came to nothing."""
        self._expired.inc(count)

    def record_ledger(self, key: LedgerKey, ledger: Ledger) -> None:
        """A ledger is so now."""
        self._observed_ledgers.record(key, ledger)

    def list_pending(self) -> Collection[LedgerKey]:
        """The ledgers that promise something, or nothing yet, as far as this process has seen."""
        return self._observed_ledgers.list_pending()

    def collect(self) -> Iterator[Metric]:
        """How following goes now, by resource."""
        objects = GaugeMetricFamily("tallygate_watch_objects", "Objects that are known.", labels=["resource"])
        age = GaugeMetricFamily(
            "tallygate_watch_age_seconds", "Time since the view was last known to be current.", labels=["resource"]
        )
        restarts = CounterMetricFamily(
            "tallygate_watch_restarts", "Lists and watches begun again, by the reason why.", labels=["resource", "why"]
        )
        for status in self._list_statuses():
            objects.add_metric([status.name], status.objects)
            if status.age is not None:
                age.add_metric([status.name], status.age)
            for reason, count in status.restarts.items():
                restarts.add_metric([status.name, reason], count)
        leader = GaugeMetricFamily("tallygate_ledger_keeper", "1 while this replica is the one that keeps ledgers.")
        leader.add_metric([], self._is_leader())
        yield from (objects, age, restarts, leader)
