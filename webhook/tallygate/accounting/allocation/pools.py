"""The pools of devices that a node can reach (pools_incubating.go).

A pool is the slices of one driver and one name with the newest generation. It is complete if all its slices are there.
Nothing is allocated from an incomplete pool, nor from an invalid one: one that names a device twice, or counts with
counters that no slice defines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tallygate.accounting.allocation.published_devices import (
    AllocatableDevice,
    AllocatableSlice,
    CounterSets,
    NodeChoice,
)
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.quantity import Quantity
from tallygate.objects.meta import NodeSelector


class TargetNode(Protocol):
    """A node that devices are allocated for."""

    @property
    def name(self) -> str:
        """The name of the node."""
        ...

    def matches(self, selector: NodeSelector) -> bool:
        """Return whether a node selector matches the node."""
        ...


class NamedNode(NamedTuple):
    """A node of which only the name is known: it reaches its own devices, and no shared ones by a selector."""

    name: str

    def matches(self, _: NodeSelector) -> bool:
        """Return False."""
        return False


class PoolId(NamedTuple):
    """The name of a pool, which is unique for a driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return "/".join(self)


class Pool(NamedTuple):
    """A pool as one node sees it.

    `slices` have devices that the node may reach, `other_slices` have others of the same counters. `invalid_reason` is
    empty for a valid pool.
    """

    id: PoolId
    is_complete: bool = True
    invalid_reason: str = ""
    slices: tuple[AllocatableSlice, ...] = ()
    other_slices: tuple[AllocatableSlice, ...] = ()
    counter_sets: CounterSets = MappingProxyType({})

    @property
    def is_usable(self) -> bool:
        """Whether devices may be allocated from the pool."""
        return self.is_complete and not self.invalid_reason


class SliceIndex:
    """The slices of a cluster, by the nodes that they are for, and by pool."""

    def __init__(self, slices: Iterable[AllocatableSlice], version: KubernetesVersion) -> None:
        self._places_counters = version.has(Switch.PLACES_COUNTER_SLICES)
        self._leaves_out_groups = version.has(Switch.LEAVES_OUT_COMPATIBILITY_GROUPS)
        self._by_node: dict[str, list[AllocatableSlice]] = defaultdict(list)
        self._shared: list[AllocatableSlice] = []
        self._by_pool: dict[PoolId, list[AllocatableSlice]] = defaultdict(list)
        self._incomplete: set[PoolId] = set()
        for resource_slice in slices:
            self.add(resource_slice)

    def add(self, published: AllocatableSlice) -> None:
        self._list_beside(published).append(published)
        pool = PoolId(published.driver, published.pool)
        self._by_pool[pool].append(published)
        self._count_slices(pool)

    def remove(self, published: AllocatableSlice) -> None:
        """Remove a slice that was added."""
        pool = PoolId(published.driver, published.pool)
        _remove_same(self._list_beside(published), published)
        _remove_same(self._by_pool[pool], published)
        self._count_slices(pool)
        if not self._by_pool[pool]:
            del self._by_pool[pool]
        if published.nodes.name in self._by_node and not self._by_node[published.nodes.name]:
            del self._by_node[published.nodes.name]

    def _count_slices(self, pool: PoolId) -> None:
        slices = self._by_pool[pool]
        generation = max((resource_slice.generation for resource_slice in slices), default=0)
        newest = [resource_slice for resource_slice in slices if resource_slice.generation == generation]
        if all(resource_slice.slice_count == len(newest) for resource_slice in newest):
            self._incomplete.discard(pool)
        else:
            self._incomplete.add(pool)

    def find_incomplete_nodes(self) -> Collection[str] | None:
        """Return the nodes with slices in pools that lack a slice; None if that may be any node."""
        slices = [listed_slice for pool in self._incomplete for listed_slice in self._by_pool[pool]]
        names = {resource_slice.nodes.name for resource_slice in slices}
        return None if "" in names else names

    def _list_beside(self, published: AllocatableSlice) -> list[AllocatableSlice]:
        """Return the slices of the same node, or those for several nodes."""
        is_of_node = published.nodes.name and (self._places_counters or not published.counter_sets)
        return self._by_node[published.nodes.name] if is_of_node else self._shared

    @property
    def shared_count(self) -> int:
        """The number of slices for several nodes, each of which is compared with every node."""
        return len(self._shared)

    def list_slices(self) -> Iterator[AllocatableSlice]:
        return (resource_slice for slices in self._by_pool.values() for resource_slice in slices)

    def list_nodes(self) -> Collection[str]:
        return self._by_node.keys()

    def list_nodes_of_pool(self, published: AllocatableSlice) -> Iterator[str]:
        for resource_slice in (published, *self._by_pool.get(PoolId(published.driver, published.pool), ())):
            if resource_slice.nodes.name:
                yield resource_slice.nodes.name

    def gather_pools(self, node: TargetNode) -> list[Pool]:
        """Return the pools that a node can reach, in the order in which the scheduler tries their devices."""
        by_pool: dict[PoolId, list[AllocatableSlice]] = {}
        for resource_slice in (*self._by_node.get(node.name, ()), *self._shared):
            if self._is_read(resource_slice) and self._is_relevant(resource_slice, node):
                _add_newest(by_pool.setdefault(PoolId(resource_slice.driver, resource_slice.pool), []), resource_slice)
        pools = [pool for pool_id, slices in by_pool.items() if (pool := self._build_pool(pool_id, slices)) is not None]
        return sorted(pools, key=lambda pool: (_has_binding_conditions(pool), pool.id))

    def _is_read(self, published: AllocatableSlice) -> bool:
        return not (self._leaves_out_groups and published.has_groups)

    def _is_relevant(self, published: AllocatableSlice, node: TargetNode) -> bool:
        if published.counter_sets and not self._places_counters:
            return True
        nodes = published.nodes
        if nodes.name or nodes.is_all or nodes.selector is not None:
            return reaches(nodes, node)
        return published.has_nodes_by_device and any(
            reaches(device.content.nodes, node) for device in published.devices
        )

    def _build_pool(self, pool_id: PoolId, slices: list[AllocatableSlice]) -> Pool | None:
        """Return a pool; None if slices for other nodes are newer, so that the driver is replacing the pool."""
        generation, count = slices[0].generation, slices[0].slice_count
        every = slices
        if len(slices) != count:
            in_pool = self._by_pool[pool_id]
            if any(member.generation > generation for member in in_pool):
                return None
            every = [member for member in in_pool if member.generation == generation and self._is_read(member)]
            if len(every) != count:
                return Pool(pool_id, is_complete=False)
        near = sorted(slices, key=lambda each: each.name)
        names = {resource_slice.name for resource_slice in near}
        far = tuple(resource_slice for resource_slice in every if resource_slice.name not in names)
        return self._create_pool(pool_id, near, far)

    def _create_pool(
        self, pool_id: PoolId, near: Sequence[AllocatableSlice], far: tuple[AllocatableSlice, ...]
    ) -> Pool:
        devices = tuple(resource_slice for resource_slice in near if not resource_slice.counter_sets)
        other = far
        counting = [resource_slice for resource_slice in near if resource_slice.counter_sets]
        if self._places_counters:
            counting += [resource_slice for resource_slice in far if resource_slice.counter_sets]
            other = tuple(resource_slice for resource_slice in far if not resource_slice.counter_sets)
        reason = _find_duplicate_device(devices)
        counter_sets, counter_reason = _collect_counters(counting)
        reason = reason or counter_reason or _find_unknown_counter(counter_sets, (*devices, *other))
        if reason:
            return Pool(pool_id, invalid_reason=reason)
        return Pool(pool_id, slices=devices, other_slices=other, counter_sets=counter_sets)


def _remove_same(slices: list[AllocatableSlice], removed: AllocatableSlice) -> None:
    """Remove a slice by its identity: the comparison of two slices takes long."""
    for position, resource_slice in enumerate(slices):
        if resource_slice is removed:
            del slices[position]
            return


def reaches(nodes: NodeChoice, node: TargetNode) -> bool:
    """Return whether a node is one of those that devices can be reached from (NodeMatches)."""
    if nodes.name:
        return nodes.name == node.name
    return nodes.is_all or (nodes.selector is not None and node.matches(nodes.selector))


def _add_newest(slices: list[AllocatableSlice], published: AllocatableSlice) -> None:
    """Add a slice to those of its pool, unless it is outdated; a newer one replaces them."""
    if slices and published.generation < slices[0].generation:
        return
    if slices and published.generation > slices[0].generation:
        slices.clear()
    slices.append(published)


def _has_binding_conditions(pool: Pool) -> bool:
    return any(device.content.has_binding_conditions for device in list_devices(pool.slices))


def list_devices(slices: Iterable[AllocatableSlice]) -> Iterator[AllocatableDevice]:
    """Return an iterator over the devices of slices, in order."""
    for resource_slice in slices:
        yield from resource_slice.devices


def _find_duplicate_device(slices: Iterable[AllocatableSlice]) -> str:
    names = set()
    for device in list_devices(slices):
        if device.id.device in names:
            return f"duplicate device name {device.id.device}"
        names.add(device.id.device)
    return ""


def _collect_counters(slices: Iterable[AllocatableSlice]) -> tuple[CounterSets, str]:
    counter_sets: dict[str, Mapping[str, Quantity]] = {}
    for name, counters in (counter_set for resource_slice in slices for counter_set in resource_slice.counter_sets):
        if name in counter_sets:
            return {}, f"duplicate counter set name {name}"
        counter_sets[name] = counters
    return counter_sets, ""


def _find_unknown_counter(counter_sets: CounterSets, slices: Iterable[AllocatableSlice]) -> str:
    for device in list_devices(slices):
        for set_name, consumed in device.content.consumed_counters:
            if set_name not in counter_sets:
                return f"counter set {set_name} not found"
            for name in consumed:
                if name not in counter_sets[set_name]:
                    return f"counter {name} not found in counter set {set_name}"
    return ""
