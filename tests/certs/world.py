"""A small world for keepers: a Secret, two webhook configurations, API servers that are late, replicas that are killed.

The keepers are the real ones with real certificates. Each of their calls happens by itself, so that anything may come
between two of them; an API server may trust what was published some time ago, but never longer than `LATEST`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from certs.certificate_names import CertificateNames, parse_names
from certs.certificate_reconciler import (
    PROPAGATION_DELAY_SECONDS,
    CertificateReconciler,
    ChangedError,
    StoredSecret,
    Timing,
    WebhookTrust,
)
from certs.secret_state import SecretState, ServingCertificate, parse_ca_certificates

START = datetime(2026, 1, 1, tzinfo=UTC)
LATEST = PROPAGATION_DELAY_SECONDS * 0.9
"""Seconds by which an API server may be behind."""

NAMES = parse_names(["gate.tally.svc"])
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_SKEWS = (timedelta(hours=-1), timedelta(hours=1))


@dataclass
class Configuration:
    """What a configuration trusts, and has trusted: when, and what; the last one is in force."""

    history: list[tuple[float, bytes]] = field(default_factory=lambda: [(0.0, b"")])

    @property
    def version(self) -> str:
        """Changes with every write."""
        return str(len(self.history))


class World:
    """What all replicas share, and the time."""

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
        """Let it pass; API servers take up what they must have taken up by then."""
        self.seconds += seconds
        for view in self.views:
            for kind, configuration in self.configurations.items():
                due = [at for at, (when, _) in enumerate(configuration.history) if when <= self.seconds - LATEST]
                view[kind] = max([view[kind], *due])

    def take_up(self, server: int, kind: str) -> None:
        """One API server takes up the next version of one configuration."""
        self.views[server][kind] = min(self.views[server][kind] + 1, len(self.configurations[kind].history) - 1)

    def unregister(self) -> None:
        """Both configurations are deleted; when they come back, they trust nobody."""
        self.is_registered = False
        for view in self.views:
            for kind, configuration in self.configurations.items():
                configuration.history.append((self.seconds, b""))
                view[kind] = len(configuration.history) - 1

    def overwrite(self, kept: SecretState | None) -> None:
        """Somebody writes the Secret by hand, or deletes it."""
        self.writes += 1
        self.secret = StoredSecret(str(self.writes), kept) if kept else None

    def trusted(self) -> Iterator[bytes]:
        """What each API server trusts by each configuration."""
        for view in self.views:
            for kind, at in view.items():
                yield self.configurations[kind].history[at][1]

    def read_webhook_trust(self) -> tuple[WebhookTrust, ...]:
        """Those configurations that there are."""
        if not self.is_registered:
            return ()
        return tuple(
            WebhookTrust(kind, each.version, (each.history[-1][1],)) for kind, each in self.configurations.items()
        )

    def read_secret(self) -> StoredSecret | None:
        """The Secret."""
        return self.secret

    def write_secret(self, state: SecretState, expected: StoredSecret | None) -> None:
        """Write it, if it is as it was."""
        if (expected.version if expected else None) != (self.secret.version if self.secret else None):
            raise ChangedError
        self.overwrite(state)

    def publish_bundle(self, expected: WebhookTrust, bundle: bytes) -> None:
        """Write what a configuration trusts, if it is as it was."""
        configuration = self.configurations[expected.kind]
        if configuration.version != expected.version:
            raise ChangedError
        configuration.history.append((self.seconds, bundle))


NewKeeper = Callable[..., CertificateReconciler]


class Replica:
    """One gate: its keeper, how far its round is, and how it stands with what it serves.

    `is_new` is so from a start until what it serves is trusted, `was_late` from when that expires until then.
    """

    def __init__(self, world: World, number: int, new: NewKeeper = CertificateReconciler) -> None:
        self._world = world
        self._new = new
        self._number = number
        self.start()

    def start(self, served: ServingCertificate | None = None, names: CertificateNames = NAMES) -> None:
        """Begin anew, with what was served before or nothing."""
        skew = _SKEWS[self._number]
        timing = Timing(lambda: self._world.now + skew, lambda: self._world.seconds)
        if served is None:
            self.is_new, self.was_late = True, False
        self.keeper = self._new(self._world, names, lambda _: None, timing, served)
        self._round = self._steps()

    def step(self) -> None:
        """Make the next call of a round, or the last; one that comes too late ends it."""
        try:
            next(self._round)
        except (StopIteration, ChangedError):
            self._round = self._steps()

    def round(self) -> None:
        """A whole round, from its beginning."""
        self._round = self._steps()
        for _ in range(3):
            self.step()

    def _steps(self) -> Iterator[None]:
        self.keeper.observe_configurations()
        yield
        self.keeper.observe_secret()
        yield
        self.keeper.take_action()

    def is_trusted(self) -> bool:
        """Whether every API server takes what is served, as far as it has taken up anything at all."""
        leaf = self.keeper.served
        if leaf is None:
            return True
        if leaf.certificate.not_valid_after_utc <= self._world.now:
            self.was_late = True
            return True
        trusted = all(
            leaf.is_trusted_by(parse_ca_certificates(text), self._world.now) for text in self._world.trusted() if text
        )
        if trusted:
            self.is_new = self.was_late = False
        return trusted


def ask(world: World, what: str) -> None:
    """Somebody asks for a renewal by the annotation."""
    if world.secret:
        world.overwrite(replace(world.secret.state, requested=what))
