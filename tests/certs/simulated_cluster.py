"""A simulated cluster for certificate reconcilers: a Secret, two webhook configurations, late API servers, replicas.

The reconcilers and the certificates are real. Each call of a reconciler is a step of its own, so that any event
may come between two of them. An API server may trust a bundle that was replaced, but for at most `MAX_LAG_SECONDS`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tallygate_certs.certificate_names import CertificateNames, parse_names
from tallygate_certs.certificate_reconciler import (
    PROPAGATION_DELAY_SECONDS,
    CertificateReconciler,
    ChangedError,
    StoredSecret,
    Timing,
    WebhookTrust,
)
from tallygate_certs.secret_state import SecretState, ServingCertificate, parse_ca_certificates

START = datetime(2026, 1, 1, tzinfo=UTC)
MAX_LAG_SECONDS = PROPAGATION_DELAY_SECONDS * 0.9
"""Seconds for which an API server may use an older version of a configuration."""

NAMES = parse_names(["gate.tally.svc"])
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_SKEWS = (timedelta(hours=-1), timedelta(hours=1))


@dataclass
class Configuration:
    """A webhook configuration: the time and the CA bundle of every write; the last bundle is the current one."""

    history: list[tuple[float, bytes]] = field(default_factory=lambda: [(0.0, b"")])

    @property
    def version(self) -> str:
        """The resource version, which changes with every write."""
        return str(len(self.history))


class SimulatedCluster:
    """The state that all replicas share, and the clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.secret: StoredSecret | None = None
        self.writes = 0
        self.configurations = {kind: Configuration() for kind in _KINDS}
        self.views = [dict.fromkeys(_KINDS, 0) for _ in range(2)]
        self.is_registered = True

    @property
    def now(self) -> datetime:
        """The true time."""
        return START + timedelta(seconds=self.seconds)

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, and propagate every write that is older than `MAX_LAG_SECONDS`."""
        self.seconds += seconds
        for view in self.views:
            for kind, configuration in self.configurations.items():
                due = [
                    at for at, (when, _) in enumerate(configuration.history) if when <= self.seconds - MAX_LAG_SECONDS
                ]
                view[kind] = max([view[kind], *due])

    def propagate(self, server: int, kind: str) -> None:
        """Let one API server observe the next version of one configuration."""
        self.views[server][kind] = min(self.views[server][kind] + 1, len(self.configurations[kind].history) - 1)

    def unregister(self) -> None:
        """Delete both configurations; when they exist again, their bundles are empty."""
        self.is_registered = False
        for view in self.views:
            for kind, configuration in self.configurations.items():
                configuration.history.append((self.seconds, b""))
                view[kind] = len(configuration.history) - 1

    def overwrite(self, state: SecretState | None) -> None:
        """Replace the Secret without a check of its version, or delete it."""
        self.writes += 1
        self.secret = StoredSecret(str(self.writes), state) if state else None

    def list_observed_bundles(self) -> Iterator[bytes]:
        """Yield the bundle of each configuration as each API server observes it."""
        for view in self.views:
            for kind, at in view.items():
                yield self.configurations[kind].history[at][1]

    def read_webhook_trust(self) -> tuple[WebhookTrust, ...]:
        """Return the bundles of the configurations that exist."""
        if not self.is_registered:
            return ()
        return tuple(
            WebhookTrust(kind, each.version, (each.history[-1][1],)) for kind, each in self.configurations.items()
        )

    def read_secret(self) -> StoredSecret | None:
        """Return the Secret, or None if it is missing."""
        return self.secret

    def write_secret(self, state: SecretState, expected: StoredSecret | None) -> None:
        """Write the Secret if its version is the expected one."""
        if (expected.version if expected else None) != (self.secret.version if self.secret else None):
            raise ChangedError
        self.overwrite(state)

    def publish_bundle(self, expected: WebhookTrust, bundle: bytes) -> None:
        """Write the bundle of a configuration if its version is the expected one."""
        configuration = self.configurations[expected.kind]
        if configuration.version != expected.version:
            raise ChangedError
        configuration.history.append((self.seconds, bundle))


CreateReconciler = Callable[..., CertificateReconciler]


class Replica:
    """One replica: its reconciler, the rest of the current run, and the state of the served certificate.

    `is_new` is true from a start, and `was_late` from an expiry, until the served certificate is trusted.
    """

    def __init__(
        self, cluster: SimulatedCluster, number: int, create_reconciler: CreateReconciler = CertificateReconciler
    ) -> None:
        self._cluster = cluster
        self._create_reconciler = create_reconciler
        self._number = number
        self.start()

    def start(self, served: ServingCertificate | None = None, names: CertificateNames = NAMES) -> None:
        """Start with the certificate that was served before, or with none."""
        skew = _SKEWS[self._number]
        timing = Timing(lambda: self._cluster.now + skew, lambda: self._cluster.seconds)
        if served is None:
            self.is_new, self.was_late = True, False
        self.reconciler = self._create_reconciler(self._cluster, names, lambda _: None, timing, served)
        self._run = self._steps()

    def step(self) -> None:
        """Make the next call of a run; the last call and a conflict end the run."""
        try:
            next(self._run)
        except (StopIteration, ChangedError):
            self._run = self._steps()

    def run_reconciler(self) -> None:
        """Make all calls of a new run."""
        self._run = self._steps()
        for _ in range(3):
            self.step()

    def _steps(self) -> Iterator[None]:
        self.reconciler.observe_configurations()
        yield
        self.reconciler.observe_secret()
        yield
        self.reconciler.take_action()

    def is_trusted(self) -> bool:
        """Return whether every API server that observes a bundle trusts the served certificate."""
        serving_pair = self.reconciler.served
        if serving_pair is None:
            return True
        if serving_pair.certificate.not_valid_after_utc <= self._cluster.now:
            self.was_late = True
            return True
        trusted = all(
            serving_pair.is_trusted_by(parse_ca_certificates(text), self._cluster.now)
            for text in self._cluster.list_observed_bundles()
            if text
        )
        if trusted:
            self.is_new = self.was_late = False
        return trusted


def request_renewal(cluster: SimulatedCluster, target: str) -> None:
    """Request a renewal by the annotation of the Secret."""
    if cluster.secret:
        cluster.overwrite(replace(cluster.secret.state, requested=target))
