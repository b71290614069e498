"""Filling a namespace up: the time until all of a cap can be used, and no more than that."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from uuid import uuid4

from e2e.errors import ClusterError
from e2e.stress.clients import Request, send_requests
from e2e.stress.environment import StressEnvironment
from e2e.stress.objects import GPU, creates, delete
from e2e.stress.outcome import Outcome
from e2e.stress.pod_usage import Limit, PodUsage, Usage
from e2e.waiting import until

SLACK = 30.0
"""Seconds on a busy machine, beyond what a bound says."""

_PAUSE = 0.25  # seconds between two tries
_CLIENTS = 8
_PROBES = 8  # pods that a full cap must reject


def track_namespace(name: str, hard: int) -> PodUsage:
    """Return the GPU use of a namespace under a limit."""
    return PodUsage(Limit(hard, GPU, lambda namespace, _: namespace if namespace == name else None))


def fill_namespace(  # noqa: PLR0913  # the parts of a test
    environment: StressEnvironment,
    namespace: str,
    usage: Usage,
    within: float,
    *,
    scope: str = "",
    make: Callable[[str, Iterable[str]], list[Request]] = creates,
) -> float:
    """Create pods until their scope (else their namespace) is full; return the seconds. After it no more may fit.

    `make` returns the requests of other objects of these names, of one unit each.

    Raises:
        ClusterError: if it is not full in time, or takes more.
    """
    begun, hard, scope = time.monotonic(), usage.limit.hard, scope or namespace
    while (room := hard - int(usage.now(scope))) > 0:
        if time.monotonic() > begun + within:
            raise ClusterError(f"{room} of {hard} are still free after {within:.0f} s")
        if any(each.is_done for each in send_requests(environment.access, _CLIENTS, make(namespace, _names(room)))):
            until("the watch has seen more pods", lambda: hard - usage.now(scope) < room, SLACK)
        else:
            time.sleep(_PAUSE)
    filled = time.monotonic() - begun
    if any(each.is_done for each in send_requests(environment.access, _CLIENTS, make(namespace, _names(_PROBES)))):
        raise ClusterError("a full cap takes more")
    return filled


def delete_pods(environment: StressEnvironment, namespace: str, usage: Usage, how_many: int) -> None:
    """Delete `how_many` of the namespace's pods, and wait until that is seen.

    Raises:
        ClusterError: if it is not seen in time.
    """
    left = usage.now(namespace) - how_many
    stored = json.loads(environment.kubectl("get", "pods", f"--namespace={namespace}", "--output=json"))["items"]
    names = [each["metadata"]["name"] for each in stored[:how_many]]
    send_requests(environment.access, _CLIENTS, [delete(namespace, name) for name in names])
    until("the watch has seen the deletions", lambda: usage.now(namespace) <= left, SLACK)


def complete_outcome(found: Outcome, usage: Usage, room: str = "") -> Outcome:
    """Return the outcome with the peak until now, and the time after which the cap was free again."""
    return replace(found, peak=max(found.peak, usage.peak), room=room)


def _names(how_many: int) -> list[str]:
    return [f"more-{uuid4().hex[:8]}" for _ in range(how_many)]
