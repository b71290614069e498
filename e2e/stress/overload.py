"""Far more creates at once than a cap allows: with the gate, during a fault, and by a quota without the gate."""

from dataclasses import dataclass

from e2e.stress.clients import RequestLoad, send_requests
from e2e.stress.environment import StressEnvironment
from e2e.stress.faults import Fault
from e2e.stress.filling import SLACK, complete_outcome, delete_pods, fill_namespace, track_namespace
from e2e.stress.objects import GPU, cap, creates, quota
from e2e.stress.outcome import Outcome, compute_outcome, find_unfounded
from e2e.stress.watcher import Watcher

BOUND = 40.0
"""Seconds of the in-flight bound, as in production."""

_VISITS = 3.0  # seconds, for the leader to reconcile after that


@dataclass(frozen=True, slots=True)
class Size:
    """The number of pods, the number that the cap allows, and the number of clients."""

    pods: int = 1000
    hard: int = 500
    clients: int = 32


@dataclass(frozen=True, slots=True)
class Gates:
    """The number of gates, the place of their ledgers, their in-flight bound in seconds, and a fault."""

    count: int = 3
    ledgers: str = "kubernetes"
    bound: float = BOUND
    fault: Fault | None = None


def overload_cap(environment: StressEnvironment, size: Size, gates: Gates) -> Outcome:
    """Create one-GPU pods of one namespace: in the end exactly those are stored that the cap allows.

    Raises:
        ClusterError: if something takes too long.
    """
    caps = [cap("gpus", {GPU: str(size.hard)}, ["stress-*"])]
    with (
        environment.gates(gates.count, caps, gates.ledgers, gates.bound) as replicas,
        environment.namespaces() as (namespace,),
    ):
        usage = track_namespace(namespace, size.hard)
        with Watcher(environment.access, [usage]) as watcher:
            requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
            with RequestLoad(environment.access, size.clients, requests) as load:
                if gates.fault is not None:
                    load.until_final(size.pods // 5)
                    gates.fault.happens(environment, replicas)
            watcher.until_current()
            found = compute_outcome(_title(size, gates), load.attempts, usage)
            late = gates.fault.late if gates.fault else 0.0
            if unfounded := find_unfounded(load.attempts, size.hard, gates.bound + late + _VISITS):
                found.unmet.append(
                    f"{len(unfounded)} rejected though the cap was not exhausted, the first: {unfounded[0].message}"
                )
            reservation_seconds = fill_namespace(environment, namespace, usage, gates.bound + SLACK)
            delete_pods(environment, namespace, usage, size.hard // 10)
            deletion_seconds = fill_namespace(environment, namespace, usage, SLACK)
            watcher.until_current()
    return complete_outcome(found, usage, f"{reservation_seconds:.1f} s (reserved), {deletion_seconds:.1f} s (deleted)")


def overload_quota(environment: StressEnvironment, size: Size) -> Outcome:
    """Create the same pods with no gate, under a ResourceQuota."""
    with environment.namespaces(1, quota(size.hard)) as (namespace,):
        usage = track_namespace(namespace, size.hard)
        with Watcher(environment.access, [usage]) as watcher:
            requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
            attempts = send_requests(environment.access, size.clients, requests)
            watcher.until_current()
            found = compute_outcome(f"{_counts(size)}, ResourceQuota, no gate", attempts, usage)
            fill_namespace(environment, namespace, usage, SLACK)
    return complete_outcome(found, usage)


def _counts(size: Size) -> str:
    return f"{size.pods:,} creates by {size.clients} clients"


def _title(size: Size, gates: Gates) -> str:
    place = "in the cluster" if gates.ledgers == "kubernetes" else "in memory"
    replicas = f"{gates.count} replicas" if gates.count > 1 else "1 replica"
    parts = [_counts(size), replicas, f"ledgers {place}"]
    if gates.fault is not None:
        parts.append(gates.fault.title)
    return ", ".join(parts)
