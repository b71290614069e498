"""The cache and queue of the scheduler, as it dumps them into its log on request.

Source: scheduler/backend/cache/debugger/dumper.go, v1.36.
"""

import json
import re
import time
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from e2e.errors import ClusterError
from e2e.scheduling.plane import Plane

_WITHIN = 30.0  # seconds
_GROUP_WITHIN = 3.0  # seconds
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
_ATTEMPT = '"Attempting to schedule pod" pod="{}"'
_KEPT_OUT = '"Status after running PreEnqueue plugin" pod="{}"'
_PREEMPTED = '"Async Preemption finished completely" preemptor="{}"'
_STATUS = r'plugin="\w+" status=(?P<status>"(?:[^"\\]|\\.)*")'
_GROUP = re.compile(
    r'"Attempting to schedule pod group"|"Error scheduling pod; retrying"|'
    r'(?P<kept_out>"Status after running PreEnqueue plugin" pod="[^"]+" plugin="(?!SchedulingGates)\w+")'
)
_RACES = (
    " got allocated elsewhere in the meantime",
    " is in the process of being allocated",
    ": add reservation to claim ",  # two pods of a PodGroup reserve a claim for it at once
)
_FEASIBLE = r"\d+ feasibleNodes=(\d+)\n"


@dataclass(frozen=True)
class CacheDump:
    """The names of nodes, the UIDs of pods on them or nominated, those in the queue, and whether all were tried."""

    nodes: frozenset[str]
    pods: frozenset[str]
    waiting: frozenset[str] = frozenset()
    idle: bool = True


class SchedulerDumps:
    """A reader of the scheduler's dumps and log."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def wait_until_cached(
        self, nodes: AbstractSet[str], pods: AbstractSet[str], gated: AbstractSet[str] = frozenset()
    ) -> None:
        """Wait until the cache has exactly these nodes, pods on nodes or nominated, and gated pods (UIDs).

        Raises:
            ClusterError: if the cache differs after the timeout.
        """
        wanted = CacheDump(frozenset(nodes), frozenset(pods), frozenset(gated))
        deadline = time.monotonic() + _WITHIN
        while (now := self.read_dump()) != wanted:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"after {_WITHIN:.0f} s the cache of the scheduler still differs: {_compare(now, wanted)}"
                )
            time.sleep(_PAUSE)

    def wait_until_waiting(self, pods: AbstractSet[str]) -> None:
        """Wait until the queue has these pods (UIDs), among others.

        Raises:
            ClusterError: if it does not in time.
        """
        deadline = time.monotonic() + _WITHIN
        while missing := pods - self.read_dump().waiting:
            if time.monotonic() > deadline:
                raise ClusterError(f"after {_WITHIN:.0f} s the queue of the scheduler lacks {sorted(missing)}")
            time.sleep(_PAUSE)

    def read_dump(self) -> CacheDump:
        """Request and return a dump; a pod in a scheduling cycle is neither on a node nor in the queue.

        Raises:
            ClusterError: if no dump is written in time.
        """
        log_position = self.get_log_position()
        self._plane.request_dump()
        dump = self._wait_for_log(_DUMP, log_position)
        cache, queue = dump["cache"], dump["queue"]
        idle = dump["active"] == dump["backoff"] == "0"
        nodes, pods, waiting = (
            frozenset(each) for each in (_NODE.findall(cache), _POD.findall(cache), _POD.findall(queue))
        )
        return CacheDump(nodes, pods, waiting, idle)

    def get_log_position(self) -> int:
        """Return the present length of the log in bytes."""
        return self._plane.scheduler.log.stat().st_size

    def find_feasible_count(self, pod: str, node: str, since: int) -> int:
        """Return the number of feasible nodes of a pod (`namespace/name`) that was bound to this node since then.

        Raises:
            ClusterError: if the scheduler does not log it in time.
        """
        bound = re.compile(re.escape(_BOUND.format(pod, node)) + _FEASIBLE)
        return int(self._wait_for_log(bound, since)[1])

    def find_hold_reason(self, pod: str, since: int) -> str:
        """Return the reason why the scheduler keeps a pod (`namespace/name`) out of its queue; empty once it tries it.

        Raises:
            ClusterError: if the scheduler does not log either in time.
        """
        attempt, hold = re.escape(_ATTEMPT.format(pod)), re.escape(_KEPT_OUT.format(pod))
        found = self._wait_for_log(re.compile(f"{attempt}|{hold} {_STATUS}"), since)
        return str(json.loads(found["status"])) if found["status"] else ""

    def is_group_tried(self, since: int) -> bool:
        """Return whether the scheduler tries a PodGroup since then, and does not keep it out of its queue.

        It logs nothing if a second reason keeps the group out.
        """
        try:
            return self._wait_for_log(_GROUP, since, _GROUP_WITHIN)["kept_out"] is None
        except ClusterError:
            self._plane.check()
            return False

    def has_raced(self, since: int) -> bool:
        """Return whether two pods have changed one claim at once since then, so that one of them tries again."""
        return any(text in _read_from(self._plane.scheduler.log, since) for text in _RACES)

    def has_preempted(self, pod: str, since: int) -> bool:
        """Return whether the scheduler has deleted all victims of a pod (`namespace/name`) since then."""
        return _PREEMPTED.format(pod) in _read_from(self._plane.scheduler.log, since)

    def _wait_for_log(self, pattern: re.Pattern[str], since: int, within: float = _WITHIN) -> re.Match[str]:
        deadline = time.monotonic() + within
        while (found := pattern.search(_read_from(self._plane.scheduler.log, since))) is None:
            self._plane.check()
            if time.monotonic() > deadline:
                raise ClusterError(f"the scheduler does not log {pattern.pattern!r} in {within:.0f} s")
            time.sleep(_PAUSE)
        return found


def _compare(now: CacheDump, wanted: CacheDump) -> str:
    pairs = {
        "nodes": (now.nodes, wanted.nodes),
        "pods": (now.pods, wanted.pods),
        "queue": (now.waiting, wanted.waiting),
    }
    return ", ".join(f"{name} {sorted(one ^ other)}" for name, (one, other) in pairs.items()) + f", idle {now.idle}"


def _read_from(log: Path, position: int) -> str:
    with log.open("rb") as file:
        file.seek(position)
        return file.read().decode(errors="replace")
