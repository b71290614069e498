"""Nodes that only the API server knows, with processors that a percentage is of: they come, go, and lose their label.

No kubelet and no simulation reports for them, so they have what a test writes.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from e2e.api import MERGE, Api, api
from e2e.local.cluster import LocalCluster

_NODES = "/api/v1/nodes"
_STRATEGIC = "application/strategic-merge-patch+json"
_POOL = "tallygate-pool"
_HOUR = timedelta(hours=1)
_MEASURED_SECONDS = 2.5  # a gate measures each second; what lasts for less time may not be measured


class CapacityPeriod(NamedTuple):
    """A capacity from a write on, which began and ended at these times (seconds, monotonic)."""

    begun: float
    ended: float
    capacity: int


class PercentNodes:
    """The nodes of a pool, each with a whole number of processors; `selector` selects them.

    `periods` are all capacities that there were, by the writes of this object. One thread uses it.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._api: Api = api(cluster.kubeconfig)
        self._pool = f"pool-{uuid4().hex[:8]}"
        self._counted: dict[str, int] = {}
        self._others: set[str] = set()
        now = time.monotonic()
        self.periods = [CapacityPeriod(now, now, 0)]

    @property
    def selector(self) -> Mapping[str, Any]:
        """The value of `nodeSelector` that selects the nodes that count."""
        return {"matchLabels": {_POOL: self._pool}}

    @property
    def names(self) -> list[str]:
        """The names of the nodes that count."""
        return sorted(self._counted)

    @property
    def capacity(self) -> int:
        """The processors of all nodes that count."""
        return sum(self._counted.values())

    def add(self, name: str, processors: int) -> None:
        """Create a node that is ready."""
        amounts = {"cpu": str(processors), "memory": "64Gi", "pods": "110"}
        condition = {"type": "Ready", "status": "True", "reason": "Test", "lastTransitionTime": _format_time()}
        made = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"{self._pool}-{name}", "labels": {_POOL: self._pool}},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [condition]},
        }
        with self._change({**self._counted, name: processors}):
            self._api.create(_NODES, made)

    def remove(self, name: str) -> None:
        """Delete a node."""
        with self._change({each: size for each, size in self._counted.items() if each != name}):
            self._api.delete(self._get_path(name))

    def relabel(self, name: str) -> int:
        """Take the label from a node, so that it does not count; return its processors."""
        size = self._counted[name]
        self._others.add(name)
        with self._change({each: size for each, size in self._counted.items() if each != name}):
            self._api.patch(self._get_path(name), {"metadata": {"labels": {_POOL: "others"}}}, MERGE)
        return size

    def label(self, name: str, processors: int) -> None:
        """Give a node its label again."""
        self._others.discard(name)
        with self._change({**self._counted, name: processors}):
            self._api.patch(self._get_path(name), {"metadata": {"labels": {_POOL: self._pool}}}, MERGE)

    def resize(self, name: str, processors: int) -> None:
        """Change the processors of a node."""
        amounts = {"cpu": str(processors)}
        with self._change({**self._counted, name: processors}):
            status = {"status": {"capacity": amounts, "allocatable": amounts}}
            self._api.patch(f"{self._get_path(name)}/status", status, MERGE)

    def report_unready(self, name: str) -> None:
        """Let a node report that it has not been ready for an hour.

        A controller finds soon that no kubelet reports, and writes the time of that instead: report it again meanwhile.
        """
        condition = {"type": "Ready", "status": "False", "reason": "Test", "lastTransitionTime": _format_time(_HOUR)}
        self._api.patch(f"{self._get_path(name)}/status", {"status": {"conditions": [condition]}}, _STRATEGIC)

    def remove_all(self) -> None:
        """Delete all nodes."""
        for name in [*self._counted, *self._others]:
            self._api.delete(self._get_path(name))

    def find_most(self, begun: float, ended: float) -> int:
        """Return the largest capacity that there may have been at any time from `begun` to `ended`."""
        ends = [period.ended for period in self.periods[1:]] + [ended]
        pairs = zip(self.periods, ends, strict=True)
        return max(period.capacity for period, until in pairs if period.begun <= ended and until >= begun)

    def find_least(self, begun: float, ended: float) -> int:
        """Return the largest capacity that every gate must have measured from `begun` to `ended`, 0 without one."""
        starts = [begun, *(period.begun for period in self.periods if begun <= period.begun)]
        return max((self._find_smallest(at) for at in starts if at + _MEASURED_SECONDS <= ended), default=0)

    def _find_smallest(self, begun: float) -> int:
        """Return the smallest capacity that there may have been while a gate measures once."""
        ended = begun + _MEASURED_SECONDS
        ends = [period.ended for period in self.periods[1:]] + [ended]
        pairs = zip(self.periods, ends, strict=True)
        return min(period.capacity for period, until in pairs if period.begun <= ended and until >= begun)

    @contextmanager
    def _change(self, counted: dict[str, int]) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._counted = counted
            self.periods.append(CapacityPeriod(begun, time.monotonic(), self.capacity))

    def _get_path(self, name: str) -> str:
        return f"{_NODES}/{self._pool}-{name}"


def _format_time(ago: timedelta = timedelta()) -> str:
    return f"{datetime.now(UTC) - ago:%Y-%m-%dT%H:%M:%SZ}"
