"""Writes of ledgers to their store: how long they take, how they end, and how many callers share one."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from webhook.state.ports import LedgerWrite, WriteResult

_DURATION_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BATCH_SIZE_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class WriteMetrics:
    """A `WriteObserver`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        durations = Histogram(
            "tallygate_ledger_write_seconds",
            "Time that one write of a ledger took, in seconds, by how it ended.",
            ("end",),
            registry=registry,
            buckets=_DURATION_BUCKETS,
        )
        self._durations = {end: durations.labels(end.value) for end in WriteResult}
        self._batch_sizes = Histogram(
            "tallygate_ledger_batch_size",
            "Callers that shared one write of a ledger.",
            registry=registry,
            buckets=_BATCH_SIZE_BUCKETS,
        )

    def record_write(self, write: LedgerWrite) -> None:
        """Count it."""
        self._durations[write.result].observe(write.duration_seconds)
        self._batch_sizes.observe(write.callers)
