"""Caps that stand together: two on each pod, one of them shared by twenty namespaces; others who refuse after us."""

import time
from uuid import uuid4

from e2e.errors import ClusterError
from e2e.storm.clients import Storm, ask
from e2e.storm.filling import SLACK, closed, emptied, filled_up, in_namespace
from e2e.storm.ground import Ground
from e2e.storm.holding import Holding, Limit
from e2e.storm.objects import GPU, cap, creates, quota
from e2e.storm.outcome import Outcome, outcome
from e2e.storm.watcher import Watcher

_BOUND = 8.0  # seconds: the shared ledger has an unknown past, and opens after that
_TOGETHER, _EACH, _NAMESPACES, _PODS, _CLIENTS = 300, 20, 20, 30, 16
_EVERYWHERE = "everywhere"
_PAUSE = 0.25


def two_caps(ground: Ground) -> Outcome:
    """Pods of twenty namespaces, each with a cap of its own, and all with one that they share.

    Raises:
        ClusterError: something does not come about in time.
    """
    caps = [
        cap("each", {GPU: str(_EACH)}, ["storm-*"]),
        cap("together", {GPU: str(_TOGETHER)}, ["storm-*"], shared=True),
    ]
    with ground.gates(3, caps, "kubernetes", _BOUND), ground.namespaces(_NAMESPACES) as names:
        ours = frozenset(names)
        together = Holding(Limit(_TOGETHER, GPU, lambda namespace, _: _EVERYWHERE if namespace in ours else None))
        each = Holding(Limit(_EACH, GPU, lambda namespace, _: namespace if namespace in ours else None))
        with Watcher(ground.access, [together, each]) as watcher:
            ask(ground.access, 1, creates(names[0], ["first"]))
            requests = [
                request for number in range(_PODS) for name in names for request in creates(name, [f"{name}-{number}"])
            ]
            with Storm(ground.access, _CLIENTS, requests) as storm:
                pass
            watcher.until_current()
            title = f"{len(requests):,} creates by {_CLIENTS} clients, two caps on each pod: {_EACH} for each of "
            found = outcome(f"{title}{_NAMESPACES} namespaces, and one they share", storm.attempts, together)
            if each.is_over:
                found.unmet.append(f"OVER: a namespace held {each.most:g} of {_EACH}")
            room = _rest(ground, names, together, each)
            watcher.until_current()
    return closed(found, together, f"{room:.1f} s (promised)")


def refused_after_us(ground: Ground) -> Outcome:
    """A quota refuses most of what the gate has promised room to; that room comes back.

    Raises:
        ClusterError: something does not come about in time.
    """
    hard, quota_hard, pods = 100, 20, 300
    caps = [cap("gpus", {GPU: str(hard)}, ["storm-*"])]
    with (
        ground.gates(3, caps, "kubernetes", _BOUND),
        ground.namespaces(1, quota(quota_hard)) as (namespace,),
    ):
        holding = in_namespace(namespace, hard)
        with Watcher(ground.access, [holding]) as watcher:
            attempts = ask(ground.access, _CLIENTS, creates(namespace, (f"pod-{number}" for number in range(pods))))
            ground.kubectl("delete", "resourcequota", "gpus", f"--namespace={namespace}")
            watcher.until_current()
            title = f"{pods} creates by {_CLIENTS} clients, all but {quota_hard} refused by a quota after the gate"
            found = outcome(title, attempts, holding)
            promises = filled_up(ground, namespace, holding, _BOUND + SLACK)
            emptied(ground, namespace, holding, hard // 10)
            deletions = filled_up(ground, namespace, holding, SLACK)
            watcher.until_current()
    return closed(found, holding, f"{promises:.1f} s (promised, bound {_BOUND:g} s), {deletions:.1f} s (deleted)")


def _rest(ground: Ground, names: list[str], together: Holding, each: Holding) -> float:
    """Fill up what is still free under the shared cap, wherever there is room; the seconds that took.

    Raises:
        ClusterError: it is not full in time.
    """
    begun = time.monotonic()
    while together.now(_EVERYWHERE) < _TOGETHER:
        if time.monotonic() > begun + _BOUND + SLACK:
            raise ClusterError(f"all hold {together.now(_EVERYWHERE):g} of {_TOGETHER} after {_BOUND + SLACK:.0f} s")
        free = [name for name in names if each.now(name) < _EACH]
        ask(
            ground.access,
            _CLIENTS,
            [request for name in free for request in creates(name, [f"rest-{uuid4().hex[:8]}"])],
        )
        time.sleep(_PAUSE)
    return time.monotonic() - begun
