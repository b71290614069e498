"""The whole server, put together: policies, namespaces, ledgers, the gate, and what serves it."""

import itertools
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn, Protocol

from webhook.gate import Gate
from webhook.gate.keeping import Keeper
from webhook.gate.leading import Leading
from webhook.gate.telling import Telling
from webhook.server.caps.metrics import CapMetrics
from webhook.server.following.cluster import Cluster, connection
from webhook.server.following.figures import Figures
from webhook.server.following.keeping import LedgerKeeping
from webhook.server.following.leading import LedgerLeading
from webhook.server.following.namespaces import AwaitedNamespaces
from webhook.server.following.placing import NoPlacing
from webhook.server.life import Life, ServeError, Voice
from webhook.server.policies import LivePolicies
from webhook.server.ports import Admit, Check, Readiness
from webhook.server.reporting.lines import Lines
from webhook.server.reporting.logs import forward_library_logs, new_logger
from webhook.server.reporting.metrics import Build, Metrics
from webhook.server.serving.turns import held_up
from webhook.server.settings.table import Settings
from webhook.state import namespaces
from webhook.state.batching import BatchedLedgers
from webhook.state.kubernetes import KubernetesLeases, KubernetesLedgers
from webhook.state.memory import MemoryLedgers
from webhook.state.ports import Ledgers
from webhook.state.watch.connect import Connection

_LEAST_BOUND_SECONDS = 34.0  # a create or update has so long in the API server (apiserver config.go, RequestTimeout)


def serve(settings: Settings) -> int:
    """Serve the gate until SIGTERM or SIGINT; the exit code: 0, or 1 when requests had to be given up.

    Must be called in the main thread, where signals arrive.

    Raises:
        webhook.errors.TallygateError: it cannot start; the text says why, and what would help.
    """
    lines = Lines(sys.stderr.buffer)
    voice = Voice(new_logger(settings.log_level, lines=lines), Metrics(Build(_version())))
    policies = LivePolicies(settings.policies, voice)
    access = connection(settings)
    caps = CapMetrics(voice.metrics.registry, voice.metrics.refusals, voice.log)
    parts = (
        _alone(settings, policies, voice, caps) if access is None else _beside(access, settings, policies, voice, caps)
    )
    life = Life(parts.admit, settings, voice, [policies.check, *parts.checks])
    forward_library_logs(voice.log)
    policies.store.start()
    try:
        with parts.running():
            return life.run()
    finally:
        policies.store.stop()
        lines.flush()


def leave(code: int) -> NoReturn:
    """End this process at once, with this exit code, after it has served.

    granian's threads outlive its workers by a moment. The interpreter's own end would take its lock from them while
    they are in Rust, which aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Running(Protocol):
    """Something with threads of its own."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def check(self) -> Check: ...


@dataclass(frozen=True, slots=True)
class _Parts:
    """What decides, what more there is to ask when ready is asked, and what runs beside it."""

    admit: Admit
    checks: Sequence[Readiness] = ()
    running: Callable[[], AbstractContextManager[object]] = nullcontext


def _alone(settings: Settings, policies: LivePolicies, voice: Voice, caps: CapMetrics) -> _Parts:
    """The gate without a cluster: labels from a file, and promises that nothing settles."""
    if settings.ledgers == "kubernetes":
        raise ServeError("ledgers can be kept in a cluster only where there is one: name it by --cluster")
    path = settings.namespaces_file
    gate = Gate(
        policies=policies.store.current,
        namespaces=namespaces.read(path) if path else namespaces.UnknownNamespaces(),
        ledgers=caps.counted(MemoryLedgers(observer=caps.in_memory)),
        monotonic=time.monotonic,
        nonce=_nonces(),
        placing=NoPlacing(voice.log),
    )
    caps.tell(gate.caps, alone=True)
    return _Parts(gate.admit)


def _beside(access: Connection, settings: Settings, policies: LivePolicies, voice: Voice, caps: CapMetrics) -> _Parts:
    """The gate beside a cluster that is followed."""
    cluster = Cluster(access, voice.log)
    if settings.in_flight_bound < _LEAST_BOUND_SECONDS:
        voice.log.warning("in-flight-bound-too-short", seconds=settings.in_flight_bound, least=_LEAST_BOUND_SECONDS)
    nonces, ledgers = _nonces(), _ledgers(access, settings, caps)
    telling = Telling(time.monotonic, cluster.sight, settings.in_flight_bound)
    gate = Gate(
        policies=policies.store.current,
        namespaces=AwaitedNamespaces(cluster.namespaces),
        ledgers=caps.counted(ledgers),
        monotonic=time.monotonic,
        nonce=nonces,
        sight=cluster.sight,
        telling=telling,
        quotas=cluster.quotas,
        placing=cluster.placing,
        workloads=cluster.reader,
    )
    leading = _leading(access, settings, gate)
    keeper = Keeper(
        caps=gate.caps,
        sight=cluster.sight,
        ledgers=ledgers,
        reader=cluster.reader,
        monotonic=time.monotonic,
        maker=nonces,
        bound=settings.in_flight_bound,
        ages=telling.ages,
        role=leading,
    )
    caps.tell(gate.caps, alone=False)
    figures = Figures(voice.metrics.registry, cluster.followed, caps.seen, keeper.leads)
    keeping = LedgerKeeping(cluster, keeper, gate.caps, voice.log, figures)
    threads: list[_Running] = [cluster, keeping]
    if leading is not None:
        threads.append(LedgerLeading(leading, voice.log))

    @contextmanager
    def running() -> Iterator[None]:
        with ExitStack() as ends:
            for each in threads:
                ends.callback(each.stop)
                each.start()
            yield

    return _Parts(gate.admit, [each.check for each in threads], running)


def _leading(access: Connection, settings: Settings, gate: Gate) -> Leading | None:
    """Who of several keeps their ledgers; None where there can be but one."""
    if settings.ledgers == "memory":
        return None
    store = KubernetesLeases(access, settings.namespace, lambda: datetime.now(UTC))
    identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
    return Leading(store, identity, lambda: [counted.key for counted in gate.caps().all()], time.monotonic)


def _ledgers(access: Connection, settings: Settings, caps: CapMetrics) -> Ledgers:
    """Where ledgers are kept beside a cluster."""
    if settings.ledgers == "memory":
        return MemoryLedgers(alone=False, observer=caps.in_memory)
    store = KubernetesLedgers(access, settings.namespace, lambda: datetime.now(UTC))
    return BatchedLedgers(store, time.monotonic, caps.in_cluster, held_up)


def _nonces() -> Callable[[], str]:
    """Texts that no other attempt of any process has: random for this process, then counted."""
    process, numbers = secrets.token_hex(8), itertools.count()
    return lambda: f"{process}-{next(numbers):x}"


def _version() -> str:
    try:
        return version("tallygate")
    except PackageNotFoundError:
        return "unknown"
