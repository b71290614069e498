"""Drift: pods that came under a cap past the gate, as recounts find them."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from webhook.accounting.amounts import format_amount, is_milli
from webhook.admission.capping import cap_of
from webhook.server.caps.names import CapLabels
from webhook.server.reporting.logs import Logger
from webhook.state.ledger.ledger import compute_drift
from webhook.state.ports import LedgerWrite, WriteResult


class DriftMetrics:
    """A `WriteObserver` that compares each recount with what was charged before."""

    def __init__(self, registry: CollectorRegistry, log: Logger) -> None:
        self._log = log
        self._cap_labels = CapLabels()
        self._drifts = Counter(
            "tallygate_ledger_drifts",
            "Recounts that found more than was ever promised: pods that came past the gate.",
            ("cap",),
            registry=registry,
        )
        self._last_amounts = Gauge(
            "tallygate_ledger_drift_last",
            "By how much the last such recount was over what was charged; cpu in cores.",
            ("cap", "resource"),
            registry=registry,
        )

    def register_cap(self, cap: str) -> None:
        """A cap is in force: told of from 0 on, since Prometheus sees no increase in what begins with 1."""
        self._drifts.labels(self._cap_labels.get_label(cap))

    def record_write(self, write: LedgerWrite) -> None:
        """Count it where the write carries such a recount, and log whose pods they are."""
        if write.before is None or write.result is not WriteResult.STORED:
            return
        if not (excess := compute_drift(write.before, write.ledger)):
            return
        cap = cap_of(write.key.cap)
        label = self._cap_labels.get_label(cap)
        self._drifts.labels(label).inc()
        for name, amount in excess.items():
            self._last_amounts.labels(label, name).set(amount / 1000 if is_milli(name) else amount)
        amounts = {name: format_amount(name, amount) for name, amount in excess.items()}
        self._log.warning("ledger-drift", cap=cap, namespace=write.key.namespace, amounts=amounts)
