"""Metrics of ledgers for Prometheus: sums by cap, the fullest namespaces by name, and the writes.

`ObservedLedgers` has the newest version of every ledger that this process has written or read. `LedgerMetrics` collects
the metrics from it. Writes have a duration, a result and a batch size. `CapMetrics` has all of these for one server.

Drift is the amount of pods that came under a cap without passing the gate. A recount finds it.

Sums of ledgers by cap, and the fullest of them: pure, for the metrics.
"""

import heapq
import math
import time
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tallygate.accounting.amounts import Amounts, format_amount, is_milli
from tallygate.admission.cap_index import CapIndex, find_key_value, get_cap_name, get_policy_key
from tallygate.server.telemetry.json_log import Logger
from tallygate.server.telemetry.metrics import OTHER, CapLabels
from tallygate.state.ledger.ledger import Ledger, compute_drift
from tallygate.state.ledger.reserve import MAX_RESERVATIONS
from tallygate.state.ports import LedgerKey, LedgerWrite, WriteObserver, WriteResult

AMOUNT_GETTERS: Final[Mapping[str, Callable[[Ledger], Amounts]]] = {
    "hard": lambda ledger: ledger.hard,
    "used": lambda ledger: ledger.used,
    "reserved": lambda ledger: ledger.reserved,
    "guaranteed_unspent": lambda ledger: Amounts(ledger.guarantees.compute_unspent(ledger.reserved_by_namespace)),
}


class LedgerState(StrEnum):
    """The state of one ledger: free amounts, a full resource, an exceeded one, not active, or that of a new cap."""

    AVAILABLE = "available"
    FULL = "full"
    EXCEEDED = "exceeded"
    INITIALIZING = "initializing"
    NEW = "new"


class LabelledLedger(NamedTuple):
    """A ledger with the label of its cap; `age` is the time since it was observed, in seconds."""

    cap: str
    namespace: str
    ledger: Ledger
    age: float
    group: str = ""


@dataclass(slots=True)
class CapSum:
    """The sum of all ledgers with one label."""

    amounts: dict[str, Counts[str]] = field(default_factory=lambda: {name: Counts() for name in AMOUNT_GETTERS})
    states: Counts[LedgerState] = field(default_factory=Counts)
    max_reservations: int = 0
    max_age: float = 0.0

    def add(self, labelled: LabelledLedger) -> None:
        ledger = labelled.ledger
        for name, get_amounts in AMOUNT_GETTERS.items():
            self.amounts[name].update(get_amounts(ledger))
        self.states[_find_state(ledger)] += 1
        self.max_reservations = max(self.max_reservations, len(ledger.reservations))
        self.max_age = max(self.max_age, labelled.age)


class LedgerUtilization(NamedTuple):
    """The ratio charged / hard of one resource of a ledger: 1 is full."""

    ratio: float
    cap: str
    resource: str
    namespace: str
    group: str


def sum_by_cap(ledgers: Iterable[LabelledLedger]) -> dict[str, CapSum]:
    sums: dict[str, CapSum] = defaultdict(CapSum)
    for labelled in ledgers:
        sums[labelled.cap].add(labelled)
    return dict(sums)


def find_fullest(ledgers: Iterable[LabelledLedger], max_each: int, max_total: int) -> list[LedgerUtilization]:
    """Return the fullest ledgers, at most `max_each` of each cap and resource and `max_total` in all; no empty one."""
    ranked: dict[tuple[str, str], list[LedgerUtilization]] = defaultdict(list)
    for labelled in ledgers:
        for utilization in _list_utilizations(labelled):
            ranked[utilization.cap, utilization.resource].append(utilization)
    return heapq.nlargest(max_total, (full for fulls in ranked.values() for full in heapq.nlargest(max_each, fulls)))


def _list_utilizations(labelled: LabelledLedger) -> Iterator[LedgerUtilization]:
    charged = labelled.ledger.compute_charged()
    for resource, hard in labelled.ledger.hard.items():
        if hard > 0 and charged.get(resource, 0) > 0:
            yield LedgerUtilization(
                charged[resource] / hard, labelled.cap, resource, labelled.namespace, labelled.group
            )


def _find_state(ledger: Ledger) -> LedgerState:
    if ledger.initializer:
        return LedgerState.NEW if ledger.counts_first else LedgerState.INITIALIZING
    charged = ledger.compute_charged()
    if charged.find_excess(ledger.hard):
        return LedgerState.EXCEEDED
    if any(hard > 0 and charged.get(name, 0) >= hard for name, hard in ledger.hard.items()):
        return LedgerState.FULL
    return LedgerState.AVAILABLE


class ObservedLedger(NamedTuple):
    """A ledger and the monotonic time at which this process observed it, in seconds."""

    ledger: Ledger
    observed_at: float


class ObservedLedgers:
    """A `WriteObserver` that stores the newest version of every ledger; `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = Lock()
        self._ledgers: dict[LedgerKey, ObservedLedger] = {}
        self._pending: set[LedgerKey] = set()

    def record_write(self, write: LedgerWrite) -> None:
        """Store the ledger of a write, if the write was stored."""
        if write.result is WriteResult.STORED:
            self.record(write.key, write.ledger)

    def record(self, key: LedgerKey, ledger: Ledger, since: float = math.inf) -> None:
        """Store a ledger as observed now, unless a version was stored at the monotonic time `since` or later.

        A transaction that began at `since` may return an older version than a write that ended meanwhile.
        """
        observed = ObservedLedger(ledger, self._monotonic())
        with self._lock:
            if (stored := self._ledgers.get(key)) is not None and stored.observed_at >= since:
                return
            self._ledgers[key] = observed
            (self._pending.add if ledger.reservations or ledger.initializer else self._pending.discard)(key)

    def retain_caps(self, caps: Collection[str]) -> None:
        """Drop the ledgers of all caps except those with the given keys, and their groups."""
        with self._lock:
            self._ledgers = {key: ledger for key, ledger in self._ledgers.items() if get_policy_key(key.cap) in caps}
            self._pending = {key for key in self._pending if get_policy_key(key.cap) in caps}

    def list_all(self) -> Mapping[LedgerKey, ObservedLedger]:
        with self._lock:
            return dict(self._ledgers)

    def list_pending(self) -> frozenset[LedgerKey]:
        """Return the keys of the ledgers that have reservations or are initializing."""
        with self._lock:
            return frozenset(self._pending)

    def read_clock(self) -> float:
        """Return the current monotonic time, to compare with `observed_at`."""
        return self._monotonic()


MAX_FULLEST_EACH: Final = 3
"""Maximum number of namespaces of one cap and resource with a series of their own."""

MAX_FULLEST_TOTAL: Final = 300
"""Maximum number of namespaces of all caps together with a series of their own."""

_AMOUNT_HELP: Final[Mapping[str, str]] = {
    "hard": "Sum of the hard limits of the cap's ledgers; cpu in cores.",
    "used": "Sum of the amounts that counted pods use; cpu in cores.",
    "reserved": "Sum of the amounts that are reserved for pods not counted yet; cpu in cores.",
    "guaranteed_unspent": "Sum of the guarantees that their namespaces have not spent; cpu in cores.",
}

LabelValues = tuple[str, ...]


class LedgerMetrics(Collector):
    """A collector of the metrics of the observed ledgers of the active caps.

    It calls `register_cap` with the name of each active cap, for counters by cap. `has_age` is true where a controller
    observes every ledger regularly, so that the age of an observation has a meaning.
    """

    def __init__(
        self,
        observed_ledgers: ObservedLedgers,
        caps: Callable[[], CapIndex],
        register_cap: Callable[[str], None],
        *,
        has_age: bool,
    ) -> None:
        self._observed_ledgers = observed_ledgers
        self._caps = caps
        self._register_cap = register_cap
        self._has_age = has_age

    def collect(self) -> Iterator[Metric]:
        """Yield the sums by cap, and the fullest namespaces."""
        ledgers = self._label_ledgers()
        sums = sum_by_cap(ledgers)
        for amount_name, help_text in _AMOUNT_HELP.items():
            yield _create_family(amount_name, help_text, ("cap", "resource"), _list_amounts(sums, amount_name))
        states: dict[LabelValues, float] = {
            (cap, state): sum_.states[state] for cap, sum_ in sums.items() for state in LedgerState
        }
        yield _create_family("ledgers", "Ledgers by their state.", ("cap", "state"), states)
        for name, help_text, count in self._list_counts():
            yield _create_family(name, help_text, ("cap",), {(cap,): count(sum_) for cap, sum_ in sums.items()})
        utilizations = find_fullest(
            (ledger for ledger in ledgers if ledger.cap != OTHER), MAX_FULLEST_EACH, MAX_FULLEST_TOTAL
        )
        ratios: dict[LabelValues, float] = {
            (utilization.cap, utilization.resource, utilization.namespace, utilization.group): utilization.ratio
            for utilization in utilizations
        }
        help_text = "Charged amount of the fullest ledgers, divided by the hard limit: 1 is full."
        yield _create_family("utilization_ratio", help_text, ("cap", "resource", "cap_namespace", "cap_group"), ratios)

    def _label_ledgers(self) -> list[LabelledLedger]:
        """Return every observed ledger of an active cap, with the label of the cap."""
        caps = {active_cap.key: active_cap.definition.name for active_cap in self._caps().list_caps()}
        self._observed_ledgers.retain_caps(caps)
        for cap in sorted(caps.values()):
            self._register_cap(cap)
        cap_labels, now = CapLabels(), self._observed_ledgers.read_clock()
        labels = {key: cap_labels.get_label(caps[key]) for key in sorted(caps)}
        return [
            LabelledLedger(
                label, key.namespace, observed.ledger, now - observed.observed_at, find_key_value(key.cap) or ""
            )
            for key, observed in self._observed_ledgers.list_all().items()
            if (label := labels.get(get_policy_key(key.cap))) is not None
        ]

    def _list_counts(self) -> Iterator[tuple[str, str, Callable[[CapSum], float]]]:
        yield "reservations_max", "Reservations in the ledger that has the most.", lambda sum_: sum_.max_reservations
        if self._has_age:
            help_text = "Age of the oldest ledger in this process: the time since it was last read or written."
            yield "sync_age_seconds", help_text, lambda sum_: sum_.max_age


def _list_amounts(sums: Mapping[str, CapSum], amount_name: str) -> Mapping[LabelValues, float]:
    return {
        (cap, resource): amount / 1000 if is_milli(resource) else amount
        for cap, sum_ in sums.items()
        for resource, amount in sum_.amounts[amount_name].items()
    }


def _create_family(name: str, help_text: str, labels: Sequence[str], values: Mapping[LabelValues, float]) -> Metric:
    family = GaugeMetricFamily(f"tallygate_cap_{name}", help_text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


class DriftMetrics:
    """A `WriteObserver` that compares each recount with the amounts that were charged before."""

    def __init__(self, registry: CollectorRegistry, log: Logger) -> None:
        self._log = log
        self._cap_labels = CapLabels()
        self._drifts = Counter(
            "tallygate_ledger_drift",
            "Recounts that found more than was ever charged: pods that bypassed the gate.",
            ("cap",),
            registry=registry,
        )

    def register_cap(self, cap: str) -> None:
        """Create the series of an active cap at 0, since Prometheus sees no increase in a series that begins with 1."""
        self._drifts.labels(self._cap_labels.get_label(cap))

    def record_write(self, write: LedgerWrite) -> None:
        """Count and log the drift of a stored recount, with its cap and namespace."""
        if write.before is None or write.result is not WriteResult.STORED:
            return
        if not (excess := compute_drift(write.before, write.ledger)):
            return
        self._drifts.labels(self._cap_labels.get_label(get_cap_name(write.key.cap))).inc()
        amounts = {name: format_amount(name, amount) for name, amount in excess.items()}
        self._log.warning("ledger-drift", **_name_ledger(write.key), amounts=amounts)


def _name_ledger(key: LedgerKey) -> dict[str, str]:
    """Return the fields of a log line that name a ledger: the value of the label only for a group."""
    group = find_key_value(key.cap)
    return {"cap": get_cap_name(key.cap), "namespace": key.namespace} | ({} if group is None else {"group": group})


class DeviceLog:
    """A `WriteObserver` that logs, once, what a ledger counts without a ResourceSlice, or cannot count without one."""

    def __init__(self, log: Logger) -> None:
        self._log = log

    def record_write(self, write: LedgerWrite) -> None:
        """Log the claims and the names that a stored recount has added."""
        before, after = write.before, write.ledger
        if before is None or write.result is not WriteResult.STORED or after.used is before.used:
            return
        ledger_fields = _name_ledger(write.key)
        if claims := sorted(after.unpublished.keys() - before.unpublished.keys()):
            self._log.warning("devices-unpublished", **ledger_fields, claims=claims)
        if names := sorted(name for name in after.hard if name in before.resources - after.resources):
            self._log.warning("devices-unknown", **ledger_fields, names=names)


_DURATION_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BATCH_SIZE_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class WriteMetrics:
    """A `WriteObserver` that measures the duration and batch size of writes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        durations = Histogram(
            "tallygate_ledger_write_duration_seconds",
            "Duration of one write of a ledger in seconds, by result.",
            ("result",),
            registry=registry,
            buckets=_DURATION_BUCKETS,
        )
        self._durations = {result: durations.labels(result.value) for result in WriteResult}
        self._batch_sizes = Histogram(
            "tallygate_ledger_batch_size",
            "Callers that shared one write of a ledger.",
            registry=registry,
            buckets=_BATCH_SIZE_BUCKETS,
        )

    def record_write(self, write: LedgerWrite) -> None:
        """Record the duration of a write by its result, and the number of callers that shared it."""
        self._durations[write.result].observe(write.duration_seconds)
        self._batch_sizes.observe(write.callers)


class _WriteObservers:
    """A `WriteObserver` that calls several others."""

    def __init__(self, *observers: WriteObserver) -> None:
        self._observers = observers

    def record_write(self, write: LedgerWrite) -> None:
        for observer in self._observers:
            observer.record_write(write)


class CapMetrics:
    """All metrics of the caps of one server.

    `memory_observer` is for `MemoryLedgers`, `cluster_observer` for ledgers in a cluster. `monotonic` returns seconds.
    """

    def __init__(
        self, registry: CollectorRegistry, log: Logger, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = registry
        self.observed_ledgers = ObservedLedgers(monotonic)
        self._drifts = DriftMetrics(registry, log)
        self.memory_observer: WriteObserver = _WriteObservers(self.observed_ledgers, self._drifts, DeviceLog(log))
        self.cluster_observer: WriteObserver = _WriteObservers(self.memory_observer, WriteMetrics(registry))

    def register(self, caps: Callable[[], CapIndex], *, is_standalone: bool) -> None:
        """Register the metrics of the ledgers of the active caps; `is_standalone` is that of the ledgers."""
        self._registry.register(
            LedgerMetrics(self.observed_ledgers, caps, self._drifts.register_cap, has_age=not is_standalone)
        )
        limit = Gauge(
            "tallygate_cap_reservations_limit", "Maximum number of reservations in one ledger.", registry=self._registry
        )
        limit.set(math.inf if is_standalone else MAX_RESERVATIONS)
