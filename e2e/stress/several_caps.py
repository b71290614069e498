"""Several caps on each pod: two, one of them shared by twenty namespaces; and a quota that rejects after the gate."""

import time
from uuid import uuid4

from e2e.errors import ClusterError
from e2e.stress.clients import RequestLoad, send_requests
from e2e.stress.environment import StressEnvironment
from e2e.stress.filling import SLACK, complete_outcome, delete_pods, fill_namespace, track_namespace
from e2e.stress.objects import GPU, cap, creates, quota
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.pod_usage import Limit, PodUsage
from e2e.stress.watcher import Watcher

_BOUND = 8.0  # seconds: the shared ledger has an unknown past, and is active after that
_TOGETHER, _EACH, _NAMESPACES, _PODS, _CLIENTS = 300, 20, 20, 30, 16
_EVERYWHERE = "everywhere"
_PAUSE = 0.25


def fill_two_caps(environment: StressEnvironment) -> Outcome:
    """Create pods of twenty namespaces, each with a cap of its own, and all with one that they share.

    Raises:
        ClusterError: if something takes too long.
    """
    caps = [
        cap("each", {GPU: str(_EACH)}, ["stress-*"]),
        cap("together", {GPU: str(_TOGETHER)}, ["stress-*"], shared=True),
    ]
    with environment.gates(3, caps, "kubernetes", _BOUND), environment.namespaces(_NAMESPACES) as names:
        ours = frozenset(names)
        together = PodUsage(Limit(_TOGETHER, GPU, lambda namespace, _: _EVERYWHERE if namespace in ours else None))
        each = PodUsage(Limit(_EACH, GPU, lambda namespace, _: namespace if namespace in ours else None))
        with Watcher(environment.access, [together, each]) as watcher:
            send_requests(environment.access, 1, creates(names[0], ["first"]))
            requests = [
                request for number in range(_PODS) for name in names for request in creates(name, [f"{name}-{number}"])
            ]
            with RequestLoad(environment.access, _CLIENTS, requests) as load:
                pass
            watcher.until_current()
            title = f"{len(requests):,} creates by {_CLIENTS} clients, two caps on each pod: {_EACH} for each of "
            found = compute_outcome(f"{title}{_NAMESPACES} namespaces, and one they share", load.attempts, together)
            if each.is_over:
                found.unmet.append(f"OVER: a namespace used {each.peak:g} of {_EACH}")
            room = _rest(environment, names, together, each)
            watcher.until_current()
    return complete_outcome(found, together, f"{room:.1f} s (reserved)")


def reject_after_gate(environment: StressEnvironment) -> Outcome:
    """Let a quota reject most of what the gate has reserved; the reservations expire.

    Raises:
        ClusterError: if something takes too long.
    """
    hard, quota_hard, pods = 100, 20, 300
    caps = [cap("gpus", {GPU: str(hard)}, ["stress-*"])]
    with (
        environment.gates(3, caps, "kubernetes", _BOUND),
        environment.namespaces(1, quota(quota_hard)) as (namespace,),
    ):
        usage = track_namespace(namespace, hard)
        with Watcher(environment.access, [usage]) as watcher:
            attempts = send_requests(
                environment.access, _CLIENTS, creates(namespace, (f"pod-{number}" for number in range(pods)))
            )
            environment.kubectl("delete", "resourcequota", "gpus", f"--namespace={namespace}")
            watcher.until_current()
            title = f"{pods} creates by {_CLIENTS} clients, all but {quota_hard} refused by a quota after the gate"
            found = compute_outcome(title, attempts, usage)
            reservation_seconds = fill_namespace(environment, namespace, usage, _BOUND + SLACK)
            delete_pods(environment, namespace, usage, hard // 10)
            deletion_seconds = fill_namespace(environment, namespace, usage, SLACK)
            watcher.until_current()
    return complete_outcome(
        found, usage, f"{reservation_seconds:.1f} s (reserved, bound {_BOUND:g} s), {deletion_seconds:.1f} s (deleted)"
    )


def _rest(environment: StressEnvironment, names: list[str], together: PodUsage, each: PodUsage) -> float:
    """Fill up the shared cap wherever a namespace has free amounts; return the seconds.

    Raises:
        ClusterError: if it is not full in time.
    """
    begun = time.monotonic()
    while together.now(_EVERYWHERE) < _TOGETHER:
        if time.monotonic() > begun + _BOUND + SLACK:
            raise ClusterError(f"all use {together.now(_EVERYWHERE):g} of {_TOGETHER} after {_BOUND + SLACK:.0f} s")
        free = [name for name in names if each.now(name) < _EACH]
        send_requests(
            environment.access,
            _CLIENTS,
            [request for name in free for request in creates(name, [f"rest-{uuid4().hex[:8]}"])],
        )
        time.sleep(_PAUSE)
    return time.monotonic() - begun
