"""The interfaces between the server and the parts that it is built from."""

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tallygate.admission.request import Phase
from tallygate.gate.asked_policies import AskedPolicies
from tallygate.gate.decisions import Decision
from tallygate.policy.workload_kinds import WorkloadKind
from tallygate.server.settings.table import Settings
from tallygate.server.telemetry.json_log import Logger

Admit = Callable[[bytes, Phase, float], Decision]
"""`Gate.admit`: the bytes of a review, the phase, and a deadline in monotonic seconds; it raises the same errors."""


@dataclass(frozen=True, slots=True)
class ReadinessStatus:
    """The status of one readiness check, with details for the user."""

    name: str
    ready: bool
    detail: Mapping[str, Any] = field(default_factory=dict)


CLIENT_CERTIFICATE = "tallygate.client_certificate"
"""The key of a WSGI environment with the certificate (DER) of a user, which was verified; absent without one."""

PROXY_REQUEST = "tallygate.proxy_request"
"""The key of a WSGI environment with the `ProxyRequest` of a front proxy; then `CLIENT_CERTIFICATE` is absent."""


class ProxyRequest(NamedTuple):
    """A request of a front proxy: its verified certificate (DER), and all headers, with names in lower case."""

    certificate: bytes
    headers: Sequence[tuple[bytes, bytes]]


SERVING = "serving"
"""The name of the check that fails once the server drains; it still answers reviews then."""

ReadinessCheck = Callable[[], ReadinessStatus]
"""A function that returns the current status of one part; it is fast and never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationParts:
    """The parts of the gate that the registration needs.

    Args:
        namespace: the gate's own namespace.
        get_tokens: returns the tokens in paths of reviews, the first of which is registered; none without a token.
        find_trust_problem: returns why a client that trusts a CA bundle (PEM) refuses the certificate for a host.
        is_leader: returns whether this replica writes.
        list_statuses: returns the results of all readiness checks.
        list_workload_kinds: returns the kinds of other projects that are registered if they are served.
        asked: the policies that the registration asks about.
        gives_devices: returns whether pods may get a resource with a domain that they do not write.
        has_foreign_record: returns whether a cap was active that this replica does not have.
    """

    namespace: str
    get_tokens: Callable[[], tuple[bytes, ...]]
    find_trust_problem: Callable[[bytes, str], str]
    is_leader: Callable[[], bool]
    list_statuses: Callable[[], Iterable[ReadinessStatus]]
    list_workload_kinds: Callable[[], Sequence[WorkloadKind]]
    asked: AskedPolicies
    gives_devices: Callable[[], bool] = lambda: True
    has_foreign_record: Callable[[], bool] = lambda: False


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


class Registration(Protocol):
    """The part that registers the gate with an API server."""

    @property
    def worker(self) -> BackgroundPart:
        """The background part."""
        ...

    def withdraw(self) -> None:
        """End the registration if the gate is being removed; called in a thread at SIGTERM."""
        ...


RegistrationFactory = Callable[[RegistrationParts, Logger], Registration]
"""A function that creates the registration with the API server and the CAs of a gate."""


NotificationFactory = Callable[[Callable[[], Iterable[ReadinessStatus]]], BackgroundPart]
"""A function that creates the part that sends messages; it takes what returns the results of all readiness checks."""


@dataclass(frozen=True, slots=True)
class ServerSetup:
    """The settings, additional readiness checks and registration of a server, from the code that runs beside it.

    `read_ca_bundle` returns the CAs of the serving certificate in PEM, b"" while none is known; without it they are in
    `ca.crt` beside the certificate.
    """

    settings: Settings
    checks: Sequence[ReadinessCheck] = ()
    create_registration: RegistrationFactory | None = None
    read_ca_bundle: Callable[[], bytes] | None = None


@dataclass(frozen=True, slots=True)
class GateParts:
    """The `admit` of a gate, its background parts, whether it leads, and its registration.

    `gives_devices` returns whether pods may get a resource with a domain that they do not write, `has_foreign_record`
    whether a cap was active that this replica does not have. Without receivers there is no `create_notifications`.
    """

    admit: Admit
    background: Sequence[BackgroundPart] = ()
    is_leader: Callable[[], bool] = lambda: True
    create_registration: RegistrationFactory | None = None
    gives_devices: Callable[[], bool] = lambda: True
    has_foreign_record: Callable[[], bool] = lambda: False
    create_notifications: NotificationFactory | None = None

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


class ObjectStore(Protocol):
    """A set of objects that the leader keeps in a cluster. Each method raises TallygateError."""

    def list_objects(self) -> list[dict[str, Any]]:
        """Return the objects with the label of the set."""
        ...

    def read_owner(self) -> dict[str, str] | None:
        """Return the reference to the owner of the objects; None if it is not known."""
        ...

    def apply(self, content: dict[str, Any], owner: dict[str, str] | None) -> dict[str, Any] | None:
        """Write an object with an owner, and return it as it is stored; None if its namespace ends or is missing."""
        ...

    def delete(self, content: dict[str, Any]) -> None:
        """Delete an object as it was listed."""
        ...

    def close(self) -> None:
        """Break a request in progress."""
        ...
