"""What the scheduler believes: its cache and queue, as it dumps them into its log when asked to.

Source: scheduler/backend/cache/debugger/dumper.go, v1.36.
"""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from e2e.scheduling.plane import Plane
from e2e.waiting import until

_WITHIN = 60.0  # seconds
_NODE = re.compile(r"Node name: (\S+)\nDeleted: (\w+)\n")
_POD = re.compile(r"^name: \S+, namespace: \S+, uid: (\S+), phase: ", re.MULTILINE)
_CACHE = '"Dump of cached NodeInfo"'
_QUEUE = '"Dump of scheduling queue"'


@dataclass(frozen=True)
class Belief:
    """The names of the nodes, and the UIDs of the pods on them and in the queue."""

    nodes: frozenset[str] = frozenset()
    pods: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()


class Mind:
    """The scheduler's belief, read again and again."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._read = 0

    def until_knows(self, nodes: AbstractSet[str], pods: AbstractSet[str]) -> None:
        """Wait until it believes in exactly these nodes and bound pods (by UID), and has nothing to do.

        Raises:
            ClusterError: it does not in time.
        """
        wanted = Belief(frozenset(nodes), frozenset(pods))
        until("the scheduler knows all and only that", lambda: self._belief() == wanted, _WITHIN, self._difference)

    def _difference(self) -> str:
        return f"it believes in {self._belief()}"

    def _belief(self) -> Belief:
        log = self._plane.scheduler.log
        begun = log.stat().st_size
        self._plane.check()
        self._plane.ask_for_dump()
        said = ""

        def is_whole() -> bool:
            nonlocal said
            with log.open("rb") as file:
                file.seek(begun)
                said = file.read().decode(errors="replace")
            return _QUEUE in said and said.endswith("\n")

        until("the scheduler dumps its cache", is_whole, _WITHIN)
        return _parsed(said)


def _parsed(said: str) -> Belief:
    return Belief()
