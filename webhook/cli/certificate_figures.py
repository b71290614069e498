"""What metrics say of the certificates that are kept in a Secret."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.succession import What

_RESULTS: Final = ("success", "failure")


class CertificateMetrics:
    """Every series is there from the beginning, so that nothing has to have happened before it can be asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps = Counter(
            "tallygate_certificate_steps",
            "Steps that this replica has taken to keep the Secret's certificates.",
            ("step",),
            registry=registry,
        )
        self._reconciles = Counter(
            "tallygate_certificate_looks",
            "Looks at the Secret of certificates and at what is published.",
            ("result",),
            registry=registry,
        )
        self._last_success = Gauge(
            "tallygate_certificate_last_look_timestamp_seconds",
            "When the Secret of certificates and what is published could last be looked at (Unix time).",
            registry=registry,
        )
        for result in _RESULTS:
            self._reconciles.labels(result)
        for action in What:
            self._steps.labels(action)

    def count_action(self, action: What) -> None:
        """Count a step."""
        self._steps.labels(action).inc()

    def count_reconcile(self, *, success: bool) -> None:
        """Count a look."""
        self._reconciles.labels("success" if success else "failure").inc()
        if success:
            self._last_success.set_to_current_time()
