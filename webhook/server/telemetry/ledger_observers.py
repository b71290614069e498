"""Metrics of ledger writes: drift, durations, results and batch sizes; and `CapMetrics`, all cap metrics of a server.

Drift is the amount of pods that came under a cap without passing the gate. A recount finds it.
"""

import math
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook.accounting.amounts import format_amount, is_milli
from webhook.admission.cap_index import CapIndex, get_cap_name
from webhook.server.telemetry.json_log import Logger
from webhook.server.telemetry.labels import CapLabels
from webhook.server.telemetry.ledger_metrics import LedgerMetrics, ObservedLedgers
from webhook.state.ledger.ledger import compute_drift
from webhook.state.ledger.reserve import MAX_RESERVATIONS
from webhook.state.ports import LedgerWrite, WriteObserver, WriteResult


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
        self._last_amounts = Gauge(
            "tallygate_ledger_drift_last",
            "Excess of the last such recount over the charged amount; cpu in cores.",
            ("cap", "resource"),
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
        cap = get_cap_name(write.key.cap)
        label = self._cap_labels.get_label(cap)
        self._drifts.labels(label).inc()
        for name, amount in excess.items():
            self._last_amounts.labels(label, name).set(amount / 1000 if is_milli(name) else amount)
        amounts = {name: format_amount(name, amount) for name, amount in excess.items()}
        self._log.warning("ledger-drift", cap=cap, namespace=write.key.namespace, amounts=amounts)


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
        """Pass a write to each observer."""
        for observer in self._observers:
            observer.record_write(write)


class CapMetrics:
    """All metrics of the caps of one server.

    `memory_observer` is for `MemoryLedgers`, `cluster_observer` for ledgers in a cluster. `monotonic` returns seconds.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        log: Logger,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self.observed_ledgers = ObservedLedgers(monotonic)
        self._drifts = DriftMetrics(registry, log)
        self.memory_observer: WriteObserver = _WriteObservers(self.observed_ledgers, self._drifts)
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
