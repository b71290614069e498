"""The replica that keeps the ledgers, by its Lease, dies in mid-storm, and leaves promises that come to nothing."""

import time

from e2e.gates.process import GateProcess
from e2e.storm.clients import Storm
from e2e.storm.crowds import Size
from e2e.storm.filling import SLACK, closed, emptied, filled_up, in_namespace
from e2e.storm.ground import Ground
from e2e.storm.objects import GPU, cap, creates, quota
from e2e.storm.outcome import Outcome, outcome
from e2e.storm.replicas import Replicas
from e2e.storm.watcher import Watcher
from e2e.waiting import until

_BOUND = 8.0  # seconds
_GATES = 3
_LEASE = 18.0  # seconds that a lease lasts, and the pause between two looks at it (webhook/gate/leader_election.py)
_ALL_KNOW = 30.0  # seconds until each of those that start has seen the others
_QUOTA_SHARE = 4


def leader_killed(ground: Ground, size: Size) -> Outcome:
    """A quota refuses most of what the gates promise; the one that keeps the ledgers is killed, and not started again.

    Raises:
        ClusterError: something does not come about in time.
    """
    caps, stored = [cap("gpus", {GPU: str(size.hard)}, ["storm-*"])], size.hard // _QUOTA_SHARE
    with (
        ground.gates(_GATES, caps, "kubernetes", _BOUND) as replicas,
        ground.namespaces(1, quota(stored)) as (namespace,),
    ):
        holding = in_namespace(namespace, size.hard)
        leader = _leader(replicas)
        with Watcher(ground.access, [holding]) as watcher:
            requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
            with Storm(ground.access, size.clients, requests) as storm:
                storm.until_final(size.pods // 5)
                leader.kill()
                killed = time.monotonic()
                until("another keeps", lambda: len(replicas.leaders()) == 1, _LEASE + SLACK)
                another = time.monotonic() - killed
            last = max(each.ended for each in storm.attempts)
            ground.kubectl("delete", "resourcequota", "gpus", f"--namespace={namespace}")
            watcher.until_current()
            title = f"{size.pods:,} creates by {size.clients} clients, {_GATES} replicas, all but {stored} refused by a"
            found = outcome(f"{title} quota after the gate, the leader killed", storm.attempts, holding)
            filled_up(ground, namespace, holding, _BOUND + _LEASE + SLACK)
            promises = time.monotonic() - last
            emptied(ground, namespace, holding, size.hard // 10)
            deletions = filled_up(ground, namespace, holding, SLACK)
            watcher.until_current()
    kept = f"another keeps after {another:.1f} s"
    return closed(
        found, holding, f"{promises:.1f} s (promised, bound {_BOUND:g} s; {kept}), {deletions:.1f} s (deleted)"
    )


def _leader(replicas: Replicas) -> GateProcess:
    """The one that keeps, once no other does."""
    until("one of them keeps", lambda: len(replicas.leaders()) == 1, _ALL_KNOW)
    return replicas.leaders()[0]
