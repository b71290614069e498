"""What the scheduler believes: its cache and queue, as it dumps them into its log when asked to.

Source: scheduler/backend/cache/debugger/dumper.go, v1.36.
"""

import re
import time
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from e2e.errors import ClusterError
from e2e.scheduling.plane import Plane

_WITHIN = 30.0  # seconds
_PAUSE = 0.002  # seconds
_NODE = re.compile(r"^\tNode name: (\S+)$", re.MULTILINE)
_POD = re.compile(r"^\tname: \S+, namespace: \S+, uid: (\S+), phase: ", re.MULTILINE)
_DUMP = re.compile(
    r'"Dump of cached NodeInfo" nodes=(?P<cache>""|<\n.*?\n >)\n'
    r'.*"Dump of scheduling queue" summary="activeQ:(?P<active>\d+); backoffQ:(?P<backoff>\d+); .*'
    r' pods=(?P<queue>""|<\n.*?\n >)\n',
    re.DOTALL,
)
_BOUND = '"Successfully bound pod to node" pod="{}" node="{}" evaluatedNodes='
_FEASIBLE = r"\d+ feasibleNodes=(\d+)\n"


@dataclass(frozen=True)
class Belief:
    """The names of the nodes, the UIDs of the pods on them or nominated, and in the queue, and whether all is tried."""

    nodes: frozenset[str]
    pods: frozenset[str]
    waiting: frozenset[str] = frozenset()
    idle: bool = True


class Mind:
    """The scheduler's belief."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def until_knows(
        self, nodes: AbstractSet[str], pods: AbstractSet[str], kept_back: AbstractSet[str] = frozenset()
    ) -> None:
        """Wait until it believes in exactly these nodes, pods on nodes or nominated, pods behind gates (UIDs).

        Raises:
            ClusterError: it does not in time.
        """
        wanted = Belief(frozenset(nodes), frozenset(pods), frozenset(kept_back))
        deadline = time.monotonic() + _WITHIN
        while (now := self.belief()) != wanted:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"after {_WITHIN:.0f} s the scheduler still believes otherwise: {_apart(now, wanted)}"
                )
            time.sleep(_PAUSE)

    def belief(self) -> Belief:
        """What it dumps now; a pod that it works on is neither on a node nor in the queue.

        Raises:
            ClusterError: it does not answer in time.
        """
        begun = self.now()
        self._plane.ask_for_dump()
        dump = self._until_said(_DUMP, begun)
        cache, queue = dump["cache"], dump["queue"]
        idle = dump["active"] == dump["backoff"] == "0"
        nodes, pods, waiting = (
            frozenset(each) for each in (_NODE.findall(cache), _POD.findall(cache), _POD.findall(queue))
        )
        return Belief(nodes, pods, waiting, idle)

    def now(self) -> int:
        """The present, as a position in its log."""
        return self._plane.scheduler.log.stat().st_size

    def feasible(self, pod: str, node: str, since: int) -> int:
        """How many nodes would have done for a pod (`namespace/name`) that was bound to this node since then.

        Raises:
            ClusterError: it does not say so in time.
        """
        bound = re.compile(re.escape(_BOUND.format(pod, node)) + _FEASIBLE)
        return int(self._until_said(bound, since)[1])

    def _until_said(self, what: re.Pattern[str], since: int) -> re.Match[str]:
        deadline = time.monotonic() + _WITHIN
        while (found := what.search(_from(self._plane.scheduler.log, since))) is None:
            self._plane.check()
            if time.monotonic() > deadline:
                raise ClusterError(f"the scheduler does not say {what.pattern!r} in {_WITHIN:.0f} s")
            time.sleep(_PAUSE)
        return found


def _apart(now: Belief, wanted: Belief) -> str:
    pairs = {
        "nodes": (now.nodes, wanted.nodes),
        "pods": (now.pods, wanted.pods),
        "queue": (now.waiting, wanted.waiting),
    }
    return ", ".join(f"{name} {sorted(one ^ other)}" for name, (one, other) in pairs.items()) + f", idle {now.idle}"


def _from(log: Path, position: int) -> str:
    with log.open("rb") as file:
        file.seek(position)
        return file.read().decode(errors="replace")
