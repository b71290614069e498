"""Far more creates at once than a cap has room for: with the gate, while something fails, and by a quota without it."""

from dataclasses import dataclass

from e2e.storm.clients import Storm, ask
from e2e.storm.faults import Fault
from e2e.storm.filling import SLACK, closed, emptied, filled_up, in_namespace
from e2e.storm.ground import Ground
from e2e.storm.objects import GPU, cap, creates, quota
from e2e.storm.outcome import Outcome, outcome, unfounded
from e2e.storm.watcher import Watcher

BOUND = 40.0
"""Seconds of the in-flight bound, as in production."""

_VISITS = 3.0  # seconds, for the leaders to come by after that


@dataclass(frozen=True, slots=True)
class Size:
    """How many pods come at once, for how many there is room, and how many clients bring them."""

    pods: int = 1000
    hard: int = 500
    clients: int = 32


@dataclass(frozen=True, slots=True)
class Gates:
    """How many gates there are, where they keep ledgers, their in-flight bound in seconds; and what fails."""

    count: int = 3
    ledgers: str = "kubernetes"
    bound: float = BOUND
    fault: Fault | None = None


def crowd(ground: Ground, size: Size, gates: Gates) -> Outcome:
    """One-GPU pods of one namespace: in the end exactly those are stored that there is room for.

    Raises:
        ClusterError: something does not come about in time.
    """
    caps = [cap("gpus", {GPU: str(size.hard)}, ["storm-*"])]
    with ground.gates(gates.count, caps, gates.ledgers, gates.bound) as replicas, ground.namespaces() as (namespace,):
        holding = in_namespace(namespace, size.hard)
        with Watcher(ground.access, [holding]) as watcher:
            requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
            with Storm(ground.access, size.clients, requests) as storm:
                if gates.fault is not None:
                    storm.until_final(size.pods // 5)
                    gates.fault.happens(ground, replicas)
            watcher.until_current()
            found = outcome(_title(size, gates), storm.attempts, holding)
            late = gates.fault.late if gates.fault else 0.0
            if false := unfounded(storm.attempts, size.hard, gates.bound + late + _VISITS):
                found.unmet.append(f"{len(false)} refused though there was room, the first: {false[0].message}")
            promises = filled_up(ground, namespace, holding, gates.bound + SLACK)
            emptied(ground, namespace, holding, size.hard // 10)
            deletions = filled_up(ground, namespace, holding, SLACK)
            watcher.until_current()
    return closed(found, holding, f"{promises:.1f} s (promised), {deletions:.1f} s (deleted)")


def quota_crowd(ground: Ground, size: Size) -> Outcome:
    """The same pods with no gate, under a ResourceQuota."""
    with ground.namespaces(1, quota(size.hard)) as (namespace,):
        holding = in_namespace(namespace, size.hard)
        with Watcher(ground.access, [holding]) as watcher:
            requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
            attempts = ask(ground.access, size.clients, requests)
            watcher.until_current()
            found = outcome(f"{_counts(size)}, ResourceQuota, no gate", attempts, holding)
            filled_up(ground, namespace, holding, SLACK)
    return closed(found, holding)


def _counts(size: Size) -> str:
    return f"{size.pods:,} creates by {size.clients} clients"


def _title(size: Size, gates: Gates) -> str:
    kept = "in the cluster" if gates.ledgers == "kubernetes" else "in memory"
    replicas = f"{gates.count} replicas" if gates.count > 1 else "1 replica"
    parts = [_counts(size), replicas, f"ledgers {kept}"]
    if gates.fault is not None:
        parts.append(gates.fault.title)
    return ", ".join(parts)
