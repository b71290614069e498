"""The gate beside a cluster that is followed: what is seen of it, the ledgers kept true by that, and what is told."""

import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from webhook.gate.gate import Gate
from webhook.gate.leader_election import LeaderElector
from webhook.gate.ledger_reconciler import LedgerReconciler
from webhook.gate.top_consumers import TopConsumers
from webhook.server.auditing.figures import AuditFigures
from webhook.server.auditing.rounds import Audits, Order
from webhook.server.caps.metrics import CapMetrics
from webhook.server.composing.parts import Parts, new_nonces
from webhook.server.events.telling import OwnerEvents
from webhook.server.events.writing import KubernetesEvents
from webhook.server.following.cluster import Cluster, connection
from webhook.server.following.figures import Figures
from webhook.server.following.keeping import LedgerKeeping
from webhook.server.following.leading import LedgerLeading
from webhook.server.following.namespaces import AwaitedNamespaces
from webhook.server.policies import LivePolicies
from webhook.server.ports import Check
from webhook.server.serving.turns import held_up
from webhook.server.settings.table import Settings
from webhook.server.voice import Voice
from webhook.state.batched_ledgers import BatchedLedgers
from webhook.state.in_memory import MemoryLedgers
from webhook.state.kubernetes import KubernetesLeases, KubernetesLedgers
from webhook.state.ports import Ledgers
from webhook.state.watch.connect import Connection

_LEAST_BOUND_SECONDS = 34.0  # a create or update has so long in the API server (apiserver config.go, RequestTimeout)


def beside_cluster(settings: Settings, policies: LivePolicies, voice: Voice, caps: CapMetrics) -> Parts:
    """A gate that follows the cluster of the settings.

    Raises:
        ConnectError: nothing says where that is.
    """
    access = connection(settings)
    cluster = Cluster(access, voice.log)
    _warn_of_bound(settings.in_flight_bound, voice)
    nonces, ledgers = new_nonces(), _ledgers(access, settings, caps)
    telling = TopConsumers(time.monotonic, cluster.sight, settings.in_flight_bound)
    gate = Gate(
        policies=policies.store.current,
        namespaces=AwaitedNamespaces(cluster.namespaces),
        ledgers=caps.counted(ledgers),
        monotonic=time.monotonic,
        nonce=nonces,
        usage_lister=cluster.sight,
        top_consumers=telling,
        quotas=cluster.quotas,
        snapshots=cluster.placing,
        workload_reader=cluster.reader,
    )
    leading = _leading(access, settings, gate)
    keeper = LedgerReconciler(
        caps=gate.get_active_caps,
        usage_lister=cluster.sight,
        ledgers=ledgers,
        reader=cluster.reader,
        monotonic=time.monotonic,
        nonce=nonces,
        in_flight_bound=settings.in_flight_bound,
        ages=telling.ages,
        leadership=leading,
    )
    caps.tell(gate.get_active_caps, alone=False)
    figures = Figures(voice.metrics.registry, cluster.followed, caps.seen, keeper.is_leader)
    keeping = LedgerKeeping(cluster, keeper, gate.get_active_caps, voice.log, figures)
    leases = LedgerLeading(leading, voice.log) if leading is not None else None
    events = _events(access, settings, voice)
    audits = _audits(access, cluster, settings, policies, keeper, voice)
    threads: list[_Running] = [each for each in (cluster, keeping, leases, events, audits) if each is not None]
    admit = gate.admit if events is None else events.heard_by(gate.admit)
    return Parts(admit, [each.check for each in threads], partial(_running, threads))


def _warn_of_bound(seconds: float, voice: Voice) -> None:
    if seconds < _LEAST_BOUND_SECONDS:
        voice.log.warning("in-flight-bound-too-short", seconds=seconds, least=_LEAST_BOUND_SECONDS)


class _Running(Protocol):
    """Something with threads of its own."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def check(self) -> Check: ...


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
    access: Connection,
    cluster: Cluster,
    settings: Settings,
    policies: LivePolicies,
    keeper: LedgerReconciler,
    voice: Voice,
) -> Audits | None:
    """What judges what is stored already; None where nobody wants that."""
    if not settings.audit_every:
        return None
    order = Order(settings.audit_every, policies.store.current, keeper.is_leader, settings.namespace)
    figures = AuditFigures(voice.metrics.registry, keeper.is_leader, settings.audit_every)
    return Audits(access, cluster, order, voice.log, figures)


def _leading(access: Connection, settings: Settings, gate: Gate) -> LeaderElector | None:
    """Who of several keeps their ledgers; None where there can be but one."""
    if settings.ledgers == "memory":
        return None
    store = KubernetesLeases(access, settings.namespace, lambda: datetime.now(UTC))
    identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
    return LeaderElector(
        store, identity, lambda: [counted.key for counted in gate.get_active_caps().all()], time.monotonic
    )


def _ledgers(access: Connection, settings: Settings, caps: CapMetrics) -> Ledgers:
    """Where ledgers are kept beside a cluster."""
    if settings.ledgers == "memory":
        return MemoryLedgers(is_standalone=False, observer=caps.in_memory)
    store = KubernetesLedgers(access, settings.namespace, lambda: datetime.now(UTC))
    return BatchedLedgers(store, time.monotonic, caps.in_cluster, held_up)
