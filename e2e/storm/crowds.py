"""Far more creates at once than a cap has room for: with the gate, one replica of which is killed, and by a quota."""

import json
import time
from dataclasses import dataclass, replace
from uuid import uuid4

from e2e.errors import ClusterError
from e2e.storm.clients import Storm, ask
from e2e.storm.ground import Ground
from e2e.storm.holding import Holding, Limit
from e2e.storm.objects import GPU, cap, creates, delete, quota
from e2e.storm.outcome import Outcome, outcome, unfounded
from e2e.storm.watcher import Watcher
from e2e.waiting import until

BOUND = 40.0
"""Seconds of the in-flight bound, as in production."""

_PAUSE = 0.25  # seconds between two tries to fill up
_SLACK = 30.0  # seconds beyond the bound, for room to be back


@dataclass(frozen=True, slots=True)
class Size:
    """How many pods come at once, for how many there is room, and how many clients bring them."""

    pods: int = 1000
    hard: int = 500
    clients: int = 32


@dataclass(frozen=True, slots=True)
class Gates:
    """How many gates there are, and where they keep ledgers; `killed`: one dies in mid-storm, and comes again."""

    count: int = 3
    ledgers: str = "kubernetes"
    killed: bool = True
    bound: float = BOUND


def in_namespace(name: str, hard: int) -> Holding:
    """What a namespace holds of GPUs."""
    return Holding(Limit(hard, GPU, lambda namespace, _: namespace if namespace == name else None))


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
                if gates.killed:
                    storm.until_final(size.pods // 5)
                    replicas.each[0].kill()
                    replicas.each[0].start()
            watcher.until_current()
            found = outcome(_title(size, gates), storm.attempts, holding)
            false = unfounded(storm.attempts, size.hard, gates.bound)
            found.unmet.extend(f"refused though there was room: {each.message}" for each in false)
            promises = filled_up(ground, namespace, holding, gates.bound + _SLACK)
            deletions = _made_room(ground, namespace, holding, size)
            watcher.until_current()
    found.room = f"{promises:.1f} s (promised), {deletions:.1f} s (deleted)"
    return closed(found, holding)


def quota_crowd(ground: Ground, size: Size) -> Outcome:
    """The same pods with no gate, under a ResourceQuota."""
    holding_of = "ResourceQuota, no gate"
    with ground.namespaces(1, quota(size.hard)) as (namespace,):
        holding = in_namespace(namespace, size.hard)
        with Watcher(ground.access, [holding]) as watcher:
            requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
            attempts = ask(ground.access, size.clients, requests)
            watcher.until_current()
            found = outcome(f"{_counts(size)}, {holding_of}", attempts, holding)
            filled_up(ground, namespace, holding, _SLACK)
    return closed(found, holding)


def filled_up(ground: Ground, namespace: str, holding: Holding, within: float) -> float:
    """Create pods until the namespace is full; the seconds that took. After it the cap must refuse.

    Raises:
        ClusterError: it is not full in time, or takes more.
    """
    begun, hard = time.monotonic(), holding.limit.hard
    while (room := hard - int(holding.now(namespace))) > 0:
        if time.monotonic() > begun + within:
            raise ClusterError(f"{room} of {hard} are still free after {within:.0f} s")
        if any(each.is_done for each in ask(ground.access, 8, creates(namespace, _names(room)))):
            until("the watch has seen more pods", lambda: hard - holding.now(namespace) < room, _SLACK)
        else:
            time.sleep(_PAUSE)
    filled = time.monotonic() - begun
    more = ask(ground.access, 8, creates(namespace, _names(8)))
    if any(each.is_done for each in more):
        raise ClusterError("a full cap takes more")
    return filled


def closed(found: Outcome, holding: Holding) -> Outcome:
    """With what was held at most until now."""
    return replace(found, most=max(found.most, holding.most))


def _made_room(ground: Ground, namespace: str, holding: Holding, size: Size) -> float:
    """Delete a tenth of the pods that were stored, and fill up again; the seconds that took."""
    stored = json.loads(ground.kubectl("get", "pods", f"--namespace={namespace}", "--output=json"))["items"]
    names = [each["metadata"]["name"] for each in stored[: size.hard // 10]]
    ask(ground.access, 8, [delete(namespace, name) for name in names])
    until("the watch has seen the deletions", lambda: holding.now(namespace) == size.hard - len(names), _SLACK)
    return filled_up(ground, namespace, holding, _SLACK)


def _names(how_many: int) -> list[str]:
    return [f"more-{uuid4().hex[:8]}" for _ in range(how_many)]


def _counts(size: Size) -> str:
    return f"{size.pods:,} creates by {size.clients} clients"


def _title(size: Size, gates: Gates) -> str:
    kept = "in the cluster" if gates.ledgers == "kubernetes" else "in memory"
    replicas = f"{gates.count} replicas" if gates.count > 1 else "1 replica"
    return f"{_counts(size)}, {replicas}, ledgers {kept}" + (", one killed and started again" if gates.killed else "")
