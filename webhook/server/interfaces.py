"""The interfaces between the server and the parts that it is built from."""

import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tallygate.webhook.admission.request import Phase
from tallygate.webhook.gate.decisions import Decision
from tallygate.webhook.server.settings.table import Settings

if TYPE_CHECKING:  # a gate without a cluster does not load it
    from tallygate.webhook.kube.client import ClientConfig

Admit = Callable[[bytes, Phase, float], Decision]
"""`Gate.admit`: the bytes of a review, the phase, and a deadline in monotonic seconds; it raises the same errors."""


@dataclass(frozen=True, slots=True)
class ReadinessStatus:
    """The status of one readiness check, with details for the user."""

    name: str
    ready: bool
    detail: Mapping[str, Any] = field(default_factory=dict)


SERVING = "serving"
"""The name of the check that fails once the server drains; it still answers reviews then."""

ReadinessCheck = Callable[[], ReadinessStatus]
"""A function that returns the current status of one part; it is fast and never raises."""


@dataclass(frozen=True, slots=True)
class RegistrationAccess:
    """The API server at which the gate registers itself, and the CAs that sign its certificate.

    `read_bundle` returns their PEM, b"" if there are none, and `missing_bundle_remedy` is the remedy then.
    """

    client_config: "ClientConfig"
    read_bundle: Callable[[], bytes]
    missing_bundle_remedy: str


@dataclass(frozen=True, slots=True)
class ServerSetup:
    """The settings, additional readiness checks and registration of a server, from the code that runs beside it."""

    settings: Settings
    checks: Sequence[ReadinessCheck] = ()
    registration: RegistrationAccess | None = None


class BackgroundPart(Protocol):
    """A part with threads of its own, and one readiness check."""

    def start(self) -> None:
        """Start the threads; call once only."""
        ...

    def stop(self) -> None:
        """Stop the threads, within some seconds."""
        ...

    def check(self) -> ReadinessStatus:
        """Return the current status, fast and without an exception."""
        ...


@dataclass(frozen=True, slots=True)
class GateParts:
    """The `admit` of a gate, its background parts, whether it leads, and its own access for the registration."""

    admit: Admit
    background: Sequence[BackgroundPart] = ()
    is_leader: Callable[[], bool] = lambda: True
    registration: RegistrationAccess | None = None

    @contextmanager
    def run_background(self) -> Iterator[None]:
        """Start all background parts, and stop them in reverse order when the block ends."""
        with ExitStack() as stack:
            for part in self.background:
                stack.callback(part.stop)
                part.start()
            yield


def create_nonce_source() -> Callable[[], str]:
    """Return a source of texts that no other attempt of any process has: a random prefix per process, and a counter."""
    prefix, counter = secrets.token_hex(8), itertools.count()
    return lambda: f"{prefix}-{next(counter):x}"
