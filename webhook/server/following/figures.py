"""Metrics of what is seen of the cluster, and of the visits to the ledgers that are kept by it."""

from collections.abc import Callable, Collection, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from webhook.server.caps.seen import SeenLedgers
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey
from webhook.state.watch.runner import Followed


class Figures(Collector):
    """Counts visits, passes on what ledgers said then, and asks how following goes when metrics are read.

    `leads` says whether this replica is the one that keeps ledgers.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        followed: Callable[[], Sequence[Followed]],
        seen: SeenLedgers,
        leads: Callable[[], bool],
    ) -> None:
        self._followed = followed
        self._seen = seen
        self._leads = leads
        self._visits = Counter(
            "tallygate_ledger_visits",
            "Visits of ledgers by their keeper, by what came of it.",
            ("result",),
            registry=registry,
        )
        self._expired = Counter(
            "tallygate_promises_expired", "Promises that were dropped because their pod never came.", registry=registry
        )
        registry.register(self)

    def visited(self, result: str) -> None:
        """Count a visit that was `written`, `unchanged` or `failed`."""
        self._visits.labels(result).inc()

    def expired(self, promises: int) -> None:
        """Count promises that came to nothing."""
        self._expired.inc(promises)

    def saw(self, key: LedgerKey, ledger: Ledger) -> None:
        """A ledger is so now."""
        self._seen.saw(key, ledger)

    def unsettled(self) -> Collection[LedgerKey]:
        """The ledgers that promise something, or nothing yet, as far as this process has seen."""
        return self._seen.unsettled()

    def collect(self) -> Iterator[Metric]:
        """How following goes now, by resource."""
        objects = GaugeMetricFamily("tallygate_watch_objects", "Objects that are known.", labels=["resource"])
        age = GaugeMetricFamily(
            "tallygate_watch_age_seconds", "Time since the view was last known to be current.", labels=["resource"]
        )
        restarts = CounterMetricFamily(
            "tallygate_watch_restarts", "Lists and watches begun again, by the reason why.", labels=["resource", "why"]
        )
        for each in self._followed():
            objects.add_metric([each.name], each.objects)
            if each.age is not None:
                age.add_metric([each.name], each.age)
            for why, times in each.restarts.items():
                restarts.add_metric([each.name, why], times)
        keeper = GaugeMetricFamily("tallygate_ledger_keeper", "1 while this replica is the one that keeps ledgers.")
        keeper.add_metric([], self._leads())
        yield from (objects, age, restarts, keeper)
