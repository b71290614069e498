"""The devices of nodes in columns, one index per device: which nodes have enough for claims, without a search.

Columns have the devices of slices for one node each. A node with any other device is left to the search: one that
several nodes or claims share, a partition, or a device of a pool that is incomplete or invalid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tallygate.accounting.allocation.allocator import Allocator
from tallygate.accounting.allocation.planned_requests import AllocationError, PlannedRequest, UndecidedAllocationError
from tallygate.accounting.allocation.pools import NamedNode, Pool
from tallygate.accounting.allocation.published_devices import AllocatableDevice, DeviceContent
from tallygate.accounting.cluster.columns import Mask
from tallygate.accounting.devices.consumed_capacity import CapacityRequestError
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.objects.devices import ResourceClaim

_NODE: Final = 20  # the work for one node whose slices have changed
_EXAMPLE: Final = 2  # the work for one content besides the evaluation of expressions
_ROWS_OF_WORK: Final = 200
_MIN_ROWS: Final = 64
_MAX_KINDS: Final = 6  # of requests: their combinations are counted
_MAX_MASKS: Final = 64

_Requests = Sequence[tuple[ResourceClaim, PlannedRequest]]
IntegerMask = NDArray[np.int8]
T = TypeVar("T", bound=np.generic)


class NodesWithDevices(NamedTuple):
    """The nodes that are decided: `has_enough` and `is_decided` have an element for each node of the columns."""

    has_enough: Mask
    is_decided: Mask


class DeviceColumns:
    """The devices of one allocator; for one thread at a time.

    Each device of one node has a row, with the number of its content. Devices with the same JSON have one content.
    `positions` are the nodes. Nodes whose slices change are read again before the next search.
    """

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self.positions: dict[str, int] = {}
        self._stale = dict.fromkeys(allocator.slices.list_nodes())
        self._is_plain = np.ones(0, dtype=np.bool_)
        self._rows_of_node: list[list[DeviceId]] = []
        self._rows: dict[DeviceId, int] = {}
        self._nodes = np.zeros(0, dtype=np.intp)
        self._content_of_row = np.zeros(0, dtype=np.intp)
        self._is_used = np.zeros(0, dtype=np.bool_)
        self._is_free = np.zeros(0, dtype=np.bool_)
        self._unused_rows: list[int] = []
        self._contents = _Contents()
        self._masks: dict[object, IntegerMask] = {}

    def mark_stale(self, nodes: Iterable[str]) -> None:
        """Mark nodes whose slices have changed."""
        self._stale |= dict.fromkeys(nodes)

    def refresh(self) -> None:
        """Read the changes of claims and slices; without slices for several nodes, that is before each search.

        Raises:
            UndecidedAllocationError: if that takes more work than is allowed.
        """
        self._read_changes()
        for name in () if self._allocator.slices.shared_count else list(self._stale):
            self._allocator.spend(_NODE)
            del self._stale[name]
            self._read_node(name)

    def find_nodes(self, claims: Sequence[ResourceClaim], *, is_idle: bool = False) -> NodesWithDevices | None:
        """Return which nodes have enough free devices for claims; None if only a search can find that out.

        If `is_idle`, all devices are free and without taints. By Hall's theorem there are enough for all requests if
        there are for each set of them.
        """
        requests = () if self._allocator.slices.shared_count else self._plan(claims)
        if not requests:  # claims without requests fit nodes without devices, too
            return None
        try:
            self.refresh()
            counts = self._count_by_kind(requests, is_idle=is_idle)
            if counts is None:
                return None
            self._allocator.spend((1 << len(counts)) * (1 + len(self._nodes) // _ROWS_OF_WORK))
        except UndecidedAllocationError:
            return None
        is_available = self._is_used if is_idle else self._is_free
        has_enough = np.ones(len(self.positions), dtype=np.bool_)
        for size in range(1, len(counts) + 1):
            for kinds in combinations(counts, size):
                is_wanted = np.logical_or.reduce([self._masks[kind] == 1 for kind in kinds])
                rows = is_wanted[self._content_of_row] & is_available
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

    def _count_by_kind(self, requests: _Requests, *, is_idle: bool) -> dict[object, int] | None:
        """Return the number of devices by kind of request, with a mask for each; None if an expression fails.

        If `is_idle`, no device has a taint.

        Raises:
            UndecidedAllocationError: if an expression has no result here.
        """
        counts: dict[object, int] = {}
        for claim, request in requests:
            kind = (
                request.class_name,
                request.class_selectors,
                request.selectors,
                is_idle
                or tuple(
                    (toleration.key, toleration.operator, toleration.value, toleration.effect)
                    for toleration in request.tolerations
                ),
                tuple((name, amount.text) for name, amount in sorted(request.requested.items())),
            )
            if kind not in self._masks:
                if len(self._masks) >= _MAX_MASKS:
                    self._masks = {known: mask for known, mask in self._masks.items() if known in counts}
                self._masks[kind] = np.zeros(0, dtype=np.int8)
            try:
                self._complete_mask(kind, claim, request, is_idle=is_idle)
            except (AllocationError, CapacityRequestError):
                return None
            counts[kind] = counts.get(kind, 0) + request.number
            if len(counts) > _MAX_KINDS:
                return None
        return counts

    def _complete_mask(self, kind: object, claim: ResourceClaim, request: PlannedRequest, *, is_idle: bool) -> None:
        """Decide the contents that are undecided (-1) in the mask of a kind of request: 1 for one that suits.

        Raises:
            AllocationError, UndecidedAllocationError, CapacityRequestError: if there is no answer; the mask has the
                contents that are decided.
        """
        examples = self._contents.examples
        mask = self._masks[kind] = _grow(self._masks[kind], len(examples), -1)
        for index in np.flatnonzero(mask < 0).tolist():
            example = examples[index]
            self._allocator.spend(_EXAMPLE + request.selector_count)
            mask[index] = example is not None and self._allocator.suits(claim, request, example, ignores_taints=is_idle)

    def _read_changes(self) -> None:
        state = self._allocator.state
        for device in state.changed:
            row = self._rows.get(device)
            if row is not None:
                self._is_free[row] = not state.has(device)
        state.changed.clear()

    def _read_node(self, name: str) -> None:
        position = self.positions.setdefault(name, len(self.positions))
        if position == len(self._rows_of_node):
            self._rows_of_node.append([])
            self._is_plain = _grow(self._is_plain, position + 1, fill=True)
        for device_id in self._rows_of_node[position]:
            self._remove_row(device_id)
        self._rows_of_node[position] = []
        pools = self._allocator.slices.gather_pools(NamedNode(name))
        is_plain = all(map(_is_plain, pools))
        for device in (device for pool in pools for resource_slice in pool.slices for device in resource_slice.devices):
            known = self._rows.get(device.id)
            if known is None:
                self._add_row(position, device)
            elif self._nodes[known] != position:  # slices for two nodes publish one device
                is_plain = self._is_plain[self._nodes[known]] = False
        self._is_plain[position] = is_plain

    def _add_row(self, position: int, device: AllocatableDevice) -> None:
        if not self._unused_rows:
            size = len(self._nodes)
            grown = max(2 * size, _MIN_ROWS)
            self._nodes, self._content_of_row = _grow(self._nodes, grown, 0), _grow(self._content_of_row, grown, 0)
            self._is_used, self._is_free = _grow(self._is_used, grown, 0), _grow(self._is_free, grown, 0)
            self._unused_rows = list(range(grown - 1, size - 1, -1))
        row = self._unused_rows.pop()
        content, is_new = self._contents.add(device)
        if is_new:
            for mask in self._masks.values():
                mask[content : content + 1] = -1
        self._rows[device.id] = row
        self._rows_of_node[position].append(device.id)
        self._nodes[row], self._content_of_row[row] = position, content
        self._is_used[row], self._is_free[row] = True, not self._allocator.state.has(device.id)

    def _remove_row(self, device_id: DeviceId) -> None:
        row = self._rows.pop(device_id)
        self._is_used[row] = self._is_free[row] = False
        self._contents.remove(int(self._content_of_row[row]))
        self._content_of_row[row] = 0
        self._unused_rows.append(row)


class _Contents:
    """Numbers of the contents of devices, with an example of each; a number is used again after the last device."""

    def __init__(self) -> None:
        self.examples: list[AllocatableDevice | None] = []
        self._numbers: dict[DeviceContent, int] = {}
        self._devices: list[int] = []
        self._unused: list[int] = []

    def add(self, device: AllocatableDevice) -> tuple[int, bool]:
        number = self._numbers.get(device.content)
        if number is not None:
            self._devices[number] += 1
            return number, False
        if self._unused:
            number = self._unused.pop()
            self.examples[number], self._devices[number] = device, 1
        else:
            number = len(self.examples)
            self.examples.append(device)
            self._devices.append(1)
        self._numbers[device.content] = number
        return number, True

    def remove(self, number: int) -> None:
        self._devices[number] -= 1
        example = self.examples[number]
        if not self._devices[number] and example is not None:
            del self._numbers[example.content]
            self.examples[number] = None
            self._unused.append(number)


def _grow(array: NDArray[T], size: int, fill: object) -> NDArray[T]:
    """Return an array of at least a size, with the same values first."""
    if len(array) >= size:
        return array
    grown = np.full(size, fill, dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def _is_plain(pool: Pool) -> bool:
    """Return whether the devices of a pool count one each."""
    return pool.is_usable and not any(
        resource_slice.has_nodes_by_device or device.content.is_shared or device.content.consumed_counters
        for resource_slice in pool.slices
        for device in resource_slice.devices
    )
