"""The whole server, put together: policies, namespaces, ledgers, the gate, and what serves it."""

import gc
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
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn, Protocol

from webhook.gate import Gate
from webhook.gate.keeping import Keeper
from webhook.gate.leading import Leading
from webhook.gate.telling import Telling
from webhook.server.auditing.figures import AuditFigures
from webhook.server.auditing.rounds import Audits, Order
from webhook.server.caps.metrics import CapMetrics
from webhook.server.events.telling import OwnerEvents
from webhook.server.events.writing import KubernetesEvents
from webhook.server.following.cluster import Cluster, connection
from webhook.server.following.figures import Figures
from webhook.server.following.keeping import LedgerKeeping
from webhook.server.following.leading import LedgerLeading
from webhook.server.following.namespaces import AwaitedNamespaces
from webhook.server.following.placing import NoPlacing
from webhook.server.life import Life, ServeError, Voice
from webhook.server.policies import LivePolicies
from webhook.server.ports import Admit, Beside, Check, Readiness
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


def _nothing_beside(settings: Settings, _: Voice) -> AbstractContextManager[Beside]:
    return nullcontext(Beside(settings))


def serve(
    settings: Settings, beside: Callable[[Settings, Voice], AbstractContextManager[Beside]] = _nothing_beside
) -> int:
    """Serve the gate until SIGTERM or SIGINT; the exit code: 0, or 1 when requests had to be given up.

    Must be called in the main thread, where signals arrive. `beside` runs from before the server starts until it has
    ended, and may change what it runs with.

    Raises:
        webhook.errors.TallygateError: it cannot start; the text says why, and what would help.
    """
    lines = Lines(sys.stderr.buffer)
    voice = Voice(new_logger(settings.log_level, lines=lines), Metrics(Build(_version())))
    try:
        with beside(settings, voice) as wanted:
            return _serve(wanted, voice)
    finally:
        lines.flush()


def _serve(wanted: Beside, voice: Voice) -> int:
    settings = wanted.settings
    policies = LivePolicies(settings.policies, voice)
    access = connection(settings)
    caps = CapMetrics(voice.metrics.registry, voice.metrics.refusals, voice.log)
    parts = (
        _alone(settings, policies, voice, caps) if access is None else _beside(access, settings, policies, voice, caps)
    )
    life = Life(parts.admit, settings, voice, [policies.check, *parts.checks, *wanted.checks])
    forward_library_logs(voice.log)
    policies.store.start()
    gc.collect()
    gc.freeze()  # what there is now stays: to look through all of it again takes 15 ms in which nobody is answered
    try:
        with parts.running():
            return life.run()
    finally:
        policies.store.stop()


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
    if settings.audit_every:
        raise ServeError("what is stored can be audited only where there is a cluster: name it by --cluster")
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
    leases = LedgerLeading(leading, voice.log) if leading is not None else None
    events = _events(access, settings, voice)
    audits = _audits(access, cluster, settings, policies, keeper, voice)
    threads: list[_Running] = [each for each in (cluster, keeping, leases, events, audits) if each is not None]
    admit = gate.admit if events is None else events.heard_by(gate.admit)
    return _Parts(admit, [each.check for each in threads], partial(_running, threads))


@contextmanager
def _running(threads: Sequence[_Running]) -> Iterator[None]:
    """All of them run for as long as the block does; who was started last ends first."""
    with ExitStack() as ends:
        for each in threads:
            ends.callback(each.stop)
            each.start()
        yield


def _events(access: Connection, settings: Settings, voice: Voice) -> OwnerEvents | None:
    """What tells the owners of pods; None where nobody wants that."""
    if settings.events == "off":
        return None
    writer = KubernetesEvents(access, socket.gethostname())
    return OwnerEvents(writer, secrets.token_hex(8), voice.metrics.registry, voice.log)


def _audits(  # noqa: PLR0913, PLR0917  # what it judges, by what, and who says how it goes
    access: Connection, cluster: Cluster, settings: Settings, policies: LivePolicies, keeper: Keeper, voice: Voice
) -> Audits | None:
    """What judges what is stored already; None where nobody wants that."""
    if not settings.audit_every:
        return None
    order = Order(settings.audit_every, policies.store.current, keeper.leads, settings.namespace)
    figures = AuditFigures(voice.metrics.registry, keeper.leads, settings.audit_every)
    return Audits(access, cluster, order, voice.log, figures)


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
