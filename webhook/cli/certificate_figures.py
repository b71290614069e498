"""What metrics say of the certificates that are kept in a Secret."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.succession import What

_RESULTS: Final = ("success", "failure")


class CertificateFigures:
    """Every series is there from the beginning, so that nothing has to have happened before it can be asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps = Counter(
            "tallygate_certificate_steps",
            "Steps that this replica has taken to keep the Secret's certificates.",
            ("step",),
            registry=registry,
        )
        self._looks = Counter(
            "tallygate_certificate_looks",
            "Looks at the Secret of certificates and at what is published.",
            ("result",),
            registry=registry,
        )
        self._right = Gauge(
            "tallygate_certificate_last_look_timestamp_seconds",
            "When the Secret of certificates and what is published could last be looked at (Unix time).",
            registry=registry,
        )
        for result in _RESULTS:
            self._looks.labels(result)
        for what in What:
            self._steps.labels(what)

    def stepped(self, what: What) -> None:
        """Count a step."""
        self._steps.labels(what).inc()

    def looked(self, *, success: bool) -> None:
        """Count a look."""
        self._looks.labels("success" if success else "failure").inc()
        if success:
            self._right.set_to_current_time()
