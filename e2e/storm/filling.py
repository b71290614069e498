"""Filling a namespace up: how long it takes until there is all the room that a cap has, and no more than that."""

import json
import time
from dataclasses import replace
from uuid import uuid4

from e2e.errors import ClusterError
from e2e.storm.clients import ask
from e2e.storm.ground import Ground
from e2e.storm.holding import Holding, Limit
from e2e.storm.objects import GPU, creates, delete
from e2e.storm.outcome import Outcome
from e2e.waiting import until

SLACK = 30.0
"""Seconds on a busy machine, beyond what a bound says."""

_PAUSE = 0.25  # seconds between two tries
_CLIENTS = 8
_PROBES = 8  # pods that a full cap must refuse


def in_namespace(name: str, hard: int) -> Holding:
    """What a namespace holds of GPUs."""
    return Holding(Limit(hard, GPU, lambda namespace, _: namespace if namespace == name else None))


def filled_up(ground: Ground, namespace: str, holding: Holding, within: float, scope: str = "") -> float:
    """Create pods until their scope (else their namespace) is full; the seconds that took. After it no more may fit.

    Raises:
        ClusterError: it is not full in time, or takes more.
    """
    begun, hard, scope = time.monotonic(), holding.limit.hard, scope or namespace
    while (room := hard - int(holding.now(scope))) > 0:
        if time.monotonic() > begun + within:
            raise ClusterError(f"{room} of {hard} are still free after {within:.0f} s")
        if any(each.is_done for each in ask(ground.access, _CLIENTS, creates(namespace, _names(room)))):
            until("the watch has seen more pods", lambda: hard - holding.now(scope) < room, SLACK)
        else:
            time.sleep(_PAUSE)
    filled = time.monotonic() - begun
    if any(each.is_done for each in ask(ground.access, _CLIENTS, creates(namespace, _names(_PROBES)))):
        raise ClusterError("a full cap takes more")
    return filled


def emptied(ground: Ground, namespace: str, holding: Holding, how_many: int) -> None:
    """Delete so many of the namespace's pods, and wait until that is seen.

    Raises:
        ClusterError: it is not seen in time.
    """
    left = holding.now(namespace) - how_many
    stored = json.loads(ground.kubectl("get", "pods", f"--namespace={namespace}", "--output=json"))["items"]
    names = [each["metadata"]["name"] for each in stored[:how_many]]
    ask(ground.access, _CLIENTS, [delete(namespace, name) for name in names])
    until("the watch has seen the deletions", lambda: holding.now(namespace) <= left, SLACK)


def closed(found: Outcome, holding: Holding, room: str = "") -> Outcome:
    """With what was held at most until now, and in what time there was `room` again."""
    return replace(found, most=max(found.most, holding.most), room=room)


def _names(how_many: int) -> list[str]:
    return [f"more-{uuid4().hex[:8]}" for _ in range(how_many)]
