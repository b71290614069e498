"""The devices of nodes in columns, one index per device: which nodes have enough for claims, without a search.

Columns have the devices of slices for one node each. A node with any other device is left to the search: one that
several nodes or claims share, a partition, or a device of a pool that is incomplete or invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from tallygate.webhook.accounting.allocation.allocator import Allocator
from tallygate.webhook.accounting.allocation.planned_requests import (
    AllocationError,
    PlannedRequest,
    UndecidedAllocationError,
)
from tallygate.webhook.accounting.allocation.pools import NamedNode, Pool
from tallygate.webhook.accounting.allocation.published_devices import AllocatableDevice, DeviceContent
from tallygate.webhook.accounting.cluster.columns import Mask
from tallygate.webhook.accounting.devices.consumed_capacity import CapacityRequestError
from tallygate.webhook.accounting.devices.device_meter import DeviceId
from tallygate.webhook.objects.devices import ResourceClaim

_MAX_KINDS: Final = 6  # of requests: their combinations are counted
_MAX_MASKS: Final = 64

_Requests = Sequence[tuple[ResourceClaim, PlannedRequest]]


class NodesWithDevices(NamedTuple):
    """The nodes that are decided: `has_enough` and `is_decided` have an element for each node of the columns."""

    has_enough: Mask
    is_decided: Mask


class DeviceColumns:
    """The devices of one allocator; for one thread at a time. The allocator's slices do not change."""

    def __init__(self, allocator: Allocator) -> None:
        """Read the devices of all nodes that have slices of their own."""
        self._allocator = allocator
        names = allocator.slices.list_node_names()
        self.positions = {name: position for position, name in enumerate(names or ())}
        self._covers_every_slice = names is not None
        self._is_plain = np.ones(len(self.positions), dtype=np.bool_)
        self._rows: dict[DeviceId, int] = {}
        self._contents: dict[DeviceContent, int] = {}
        self._examples: list[AllocatableDevice] = []
        nodes: list[int] = []
        contents: list[int] = []
        for name, position in self.positions.items():
            for pool in allocator.slices.gather_pools(NamedNode(name)):
                self._is_plain[position] &= _is_plain(pool)
                for device in (device for each in pool.slices for device in each.devices):
                    known = self._rows.get(device.id)
                    if known is not None:  # slices for two nodes have one pool
                        self._is_plain[[nodes[known], position]] = False
                        continue
                    self._rows[device.id] = len(nodes)
                    nodes.append(position)
                    contents.append(self._intern(device))
        self._nodes = np.array(nodes, dtype=np.intp)
        self._content_of_row = np.array(contents, dtype=np.intp)
        self._is_free = np.array([not allocator.state.has(each) for each in self._rows], dtype=np.bool_)
        self._masks: dict[object, Mask] = {}
        allocator.state.changed.clear()

    def find_nodes(self, claims: Sequence[ResourceClaim]) -> NodesWithDevices | None:
        """Return which nodes have enough free devices for claims; None if only a search can find that out.

        By Hall's theorem there are enough for all requests if there are for each set of them.
        """
        requests = self._plan(claims) if self._covers_every_slice else None
        if not requests:  # claims without requests fit nodes without devices, too
            return None
        counts = self._count_by_kind(requests)
        if counts is None or len(counts) > _MAX_KINDS:
            return None
        self._read_changes()
        has_enough = np.ones(len(self.positions), dtype=np.bool_)
        for size in range(1, len(counts) + 1):
            for kinds in combinations(counts, size):
                is_wanted = np.logical_or.reduce([self._masks[kind] for kind in kinds])
                rows = is_wanted[self._content_of_row] & self._is_free
                found = np.bincount(self._nodes[rows], minlength=len(self.positions))
                has_enough &= found >= sum(counts[kind] for kind in kinds)
        return NodesWithDevices(has_enough, self._is_plain)

    def _plan(self, claims: Sequence[ResourceClaim]) -> _Requests | None:
        """Return the requests of claims; None for those that depend on more than a number of free devices."""
        requests = []
        for claim in claims:
            devices = claim.spec.devices if claim.spec else None
            if devices is not None and devices.constraints:
                return None
            try:
                planned = self._allocator.plan(claim)
            except AllocationError:
                return None
            for alternatives in planned:
                (request, *others) = alternatives
                if others or request.parent or request.is_all or request.has_admin_access:
                    return None
                requests.append((claim, request))
        return requests

    def _count_by_kind(self, requests: _Requests) -> dict[object, int] | None:
        """Return the number of devices by kind of request, with a mask for each; None if an expression fails."""
        counts: dict[object, int] = {}
        for claim, request in requests:
            kind = (
                request.class_name,
                request.class_selectors,
                request.selectors,
                tuple((each.key, each.operator, each.value, each.effect) for each in request.tolerations),
                tuple((name, str(amount)) for name, amount in sorted(request.requested.items())),
            )
            if kind not in self._masks:
                if len(self._masks) >= _MAX_MASKS:
                    self._masks = {known: mask for known, mask in self._masks.items() if known in counts}
                try:
                    suits = [self._allocator.suits(claim, request, each) for each in self._examples]
                except (AllocationError, UndecidedAllocationError, CapacityRequestError):
                    return None
                self._masks[kind] = np.array(suits, dtype=np.bool_)
            counts[kind] = counts.get(kind, 0) + request.number
        return counts

    def _read_changes(self) -> None:
        state = self._allocator.state
        for device in state.changed:
            row = self._rows.get(device)
            if row is not None:
                self._is_free[row] = not state.has(device)
        state.changed.clear()

    def _intern(self, device: AllocatableDevice) -> int:
        index = self._contents.setdefault(device.content, len(self._contents))
        if index == len(self._examples):
            self._examples.append(device)
        return index


def _is_plain(pool: Pool) -> bool:
    """Return whether the devices of a pool count one each."""
    return pool.is_usable and not any(
        each.has_nodes_by_device or device.content.is_shared or device.content.consumed_counters
        for each in pool.slices
        for device in each.devices
    )
