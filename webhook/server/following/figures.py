"""Metrics of what is seen of the cluster, and of the ledgers that are kept by it."""

from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterator, Sequence
from threading import Lock

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from webhook.accounting.amounts import Amounts, is_milli
from webhook.state.ledger import Ledger
from webhook.state.ports import LedgerKey
from webhook.state.watch.runner import Followed

_PARTS: tuple[tuple[str, str, Callable[[Ledger], Amounts]], ...] = (
    ("hard", "What the cap's ledgers allow together; cpu in cores.", lambda ledger: ledger.hard),
    ("held", "What the pods under them hold.", lambda ledger: ledger.tally),
    ("promised", "What is promised to pods that are not counted yet.", lambda ledger: ledger.promised),
)


class Figures(Collector):
    """Counts visits, remembers what ledgers said then, and asks how following goes when metrics are read."""

    def __init__(self, registry: CollectorRegistry, followed: Callable[[], Sequence[Followed]]) -> None:
        self._followed = followed
        self._lock = Lock()
        self._ledgers: dict[LedgerKey, tuple[str, Ledger]] = {}
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

    def saw(self, key: LedgerKey, cap: str, ledger: Ledger) -> None:
        """A ledger of this cap is so now."""
        with self._lock:
            self._ledgers[key] = cap, ledger

    def keep_only(self, caps: Collection[str]) -> None:
        """Ledgers of all but these caps' keys are in force no more."""
        with self._lock:
            self._ledgers = {key: each for key, each in self._ledgers.items() if key.cap in caps}

    def collect(self) -> Iterator[Metric]:
        """How following goes now, by resource; and the sums of each cap's ledgers when they were last visited."""
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
        yield from (objects, age, restarts, *self._sums())

    def _sums(self) -> Iterator[Metric]:
        """Caps and the names they count are bounded by the policies; namespaces are not, so they are added up."""
        with self._lock:
            ledgers = list(self._ledgers.values())
        for name, meaning, part in _PARTS:
            family = GaugeMetricFamily(f"tallygate_cap_{name}", meaning, labels=["cap", "resource"])
            totals: Counts[tuple[str, str]] = Counts()
            for cap, ledger in ledgers:
                for resource, amount in part(ledger).items():
                    totals[cap, resource] += amount
            for labels, amount in totals.items():
                family.add_metric(labels, amount / 1000 if is_milli(labels[1]) else amount)
            yield family
