"""The death of the leader during the load, which leaves reservations that are never used."""

import time

from e2e.rolling import wait_for_leader
from e2e.stress.clients import RequestLoad
from e2e.stress.environment import StressEnvironment
from e2e.stress.filling import SLACK, complete_outcome, delete_pods, fill_namespace, track_namespace
from e2e.stress.objects import GPU, cap, creates, quota
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.overload import Size
from e2e.stress.watcher import Watcher
from e2e.waiting import until

_BOUND = 8.0  # seconds
_GATES = 3
_LEASE = 18.0  # seconds that a lease lasts, and the pause between two looks at it (gate.leader_election)
_QUOTA_SHARE = 4


def kill_leader(environment: StressEnvironment, size: Size) -> Outcome:
    """Let a quota reject most of what the gates reserve; kill the leader, and do not start it again.

    Raises:
        ClusterError: if something takes too long.
    """
    caps, stored = [cap("gpus", {GPU: str(size.hard)}, ["stress-*"])], size.hard // _QUOTA_SHARE
    with (
        environment.gates(_GATES, caps, "kubernetes", _BOUND) as replicas,
        environment.namespaces(1, quota(stored)) as (namespace,),
    ):
        usage = track_namespace(namespace, size.hard)
        leader = wait_for_leader(replicas)
        with Watcher(environment.access, [usage]) as watcher:
            requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
            with RequestLoad(environment.access, size.clients, requests) as load:
                load.until_final(size.pods // 5)
                leader.kill()
                killed = time.monotonic()
                until("another is the leader", lambda: len(replicas.leaders()) == 1, _LEASE + SLACK)
                another = time.monotonic() - killed
            last = max(each.ended for each in load.attempts)
            environment.kubectl("delete", "resourcequota", "gpus", f"--namespace={namespace}")
            watcher.until_current()
            title = f"{size.pods:,} creates by {size.clients} clients, {_GATES} replicas, all but {stored} refused by a"
            found = compute_outcome(f"{title} quota after the gate, the leader killed", load.attempts, usage)
            fill_namespace(environment, namespace, usage, _BOUND + _LEASE + SLACK)
            reservation_seconds = time.monotonic() - last
            delete_pods(environment, namespace, usage, size.hard // 10)
            deletion_seconds = fill_namespace(environment, namespace, usage, SLACK)
            watcher.until_current()
    successor = f"another leader after {another:.1f} s"
    return complete_outcome(
        found,
        usage,
        f"{reservation_seconds:.1f} s (reserved, bound {_BOUND:g} s; {successor}), {deletion_seconds:.1f} s (deleted)",
    )
