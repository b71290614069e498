"""The capacity of which limits of caps are percentages: what nodes have allocatable, and devices that count for a cap.

Of each name it is the sum over the nodes that the cap selects: what is allocatable there, or the devices that drivers
publish there, whichever is more, since a driver may publish both. Devices that several nodes reach count once. A name
has a capacity only if all kinds of objects that decide it are known.

Everything here is pure. What counts over time, such as a fall that does not act yet, is the gate's.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

from msgspec.structs import replace

from tallygate.accounting.claim_charge import NO_CLASSES, find_device_sources, find_named_class
from tallygate.accounting.derived_amounts import WeightedSum, create_weighted_sum
from tallygate.accounting.devices.device_meter import create_meter
from tallygate.accounting.names import LIMITS_PREFIX, is_extended
from tallygate.accounting.node_fit import list_unready, parse_allocatable
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.capacity_limits import NO_CAPACITIES, Capacity, CapCapacities
from tallygate.cluster import kinds
from tallygate.cluster.device_capacities import (
    DeviceAmounts,
    DeviceWeigher,
    PublishedDevices,
    UnreadClassError,
    create_class_weigher,
    read_place,
)
from tallygate.objects.scheduling import NodeSpec, SchedulingNode
from tallygate.policy.cap_limits import NO_SELECTION, CapacitySelection, PercentLimit
from tallygate.policy.matching import selects_node
from tallygate.policy.model import NamespaceCap, PolicySet
from tallygate.policy.periods import Seconds
from tallygate.policy.times import TimeError, parse_time
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.informers.named_stores import DeviceClassStore, NodeStore, ObjectStore, decode_node

_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_ANY_TIME = Seconds(1)
_NO_DEVICES = PublishedDevices()


class MeasuredNode(NamedTuple):
    """A node with the fields that decide a capacity.

    `taints` are the keys of its taints. One that is not `is_ready` has been so since `unready_since`, None if that is
    not known. `amounts` are allocatable: thousandths of cpu, else whole units.
    """

    name: str
    labels: Mapping[str, str]
    taints: frozenset[str]
    amounts: Mapping[str, int]
    is_ready: bool = True
    unready_since: datetime | None = None


class CapacitySources(NamedTuple):
    """The objects that decide capacities: nodes, published devices, and device classes.

    `problems` has by resource of a kind (`tallygate.cluster.kinds`) why its objects are not known.
    `resources_by_class` has the extended resource of each class, and `find_selectors` returns the expressions of one.
    """

    nodes: Sequence[MeasuredNode] = ()
    devices: PublishedDevices = _NO_DEVICES
    resources_by_class: Mapping[str, str] = NO_CLASSES
    find_selectors: Callable[[str], Sequence[str] | None] = lambda _: None
    problems: Mapping[str, str] = {}


class ComputedCapacities(NamedTuple):
    """The capacities of the caps that follow one, at one time; `problem` is why some are not known, empty if all are.

    They change at `next_change` without a change of any object, as a node that is not ready counts no longer, and so
    they did at `last_change`; None if there is no such time.
    """

    capacities: CapCapacities = NO_CAPACITIES
    problem: str = ""
    next_change: datetime | None = None
    last_change: datetime | None = None

    def are_those_of(self, now: datetime | None) -> bool:
        """Return whether the capacities of the same objects are these at another time."""
        if now is None:
            return self.next_change is None
        has_begun = self.last_change is None or self.last_change <= now
        return has_begun and (self.next_change is None or now < self.next_change)


def measure_node(node: SchedulingNode) -> MeasuredNode:
    """Return the fields of a node that decide a capacity.

    Raises:
        QuantityError: if an amount is invalid, which no API server stores.
    """
    spec, unready = node.spec or NodeSpec(), list_unready(node.status)
    taints = {taint.key for taint in spec.taints or ()} | ({_CORDON_TAINT} if spec.unschedulable else set())
    return MeasuredNode(
        (node.metadata.name if node.metadata else None) or "",
        (node.metadata.labels if node.metadata else None) or {},
        frozenset(taints),
        parse_allocatable(node),
        not unready,
        _read_time(unready[0].last_transition_time) if unready else None,
    )


def _read_time(text: str | None) -> datetime | None:
    try:
        return parse_time(text or "")
    except TimeError:
        return None


def compute_capacities(policies: PolicySet, sources: CapacitySources, now: datetime | None) -> ComputedCapacities:
    """Return the capacity of each name that a cap limits by a percentage, by cap and name; without settling.

    At no time (None) every node that is not ready has been so for too long.
    """
    caps = [cap for cap in policies.caps if cap.follows_capacity]
    if not caps:
        return _NONE
    measurement = _Measurement(policies.node_shapes, sources, now)
    capacities: dict[str, dict[str, Capacity]] = {}
    problems: dict[str, None] = {}
    next_changes: list[datetime] = []
    last_changes: list[datetime] = []
    for cap in caps:
        amounts: dict[str, Capacity] = {}
        selected = measurement.select(cap.capacity or NO_SELECTION)
        next_changes += [] if selected.next_change is None else [selected.next_change]
        last_changes += [] if selected.last_change is None else [selected.last_change]
        for name in _list_shares(cap):
            try:
                amounts[name] = Capacity(measurement.measure(cap, name, selected))
            except _UnknownCapacityError as error:
                problems[str(error)] = None
        capacities[cap.name] = amounts
    return ComputedCapacities(
        capacities, "; ".join(problems), min(next_changes, default=None), max(last_changes, default=None)
    )


_NONE = ComputedCapacities()


def _list_shares(cap: NamespaceCap) -> Iterator[str]:
    limits = sorted({*cap.hard.items(), *cap.soft.items()}, key=lambda item: item[0])
    yield from dict.fromkeys(name for name, limit in limits if isinstance(limit, PercentLimit))


class _UnknownCapacityError(Exception):
    """A capacity is not known; the text says why."""


@dataclass(eq=False)
class _Selected:
    """The nodes and shapes that a selection of capacity has, and the times from which on nodes count no longer.

    `totals` are the sums over the nodes that were computed before.
    """

    nodes: Sequence[MeasuredNode]
    shapes: Sequence[NodeShape]
    next_change: datetime | None
    last_change: datetime | None
    totals: dict[object, int] = field(default_factory=dict)
    _reached: dict[bytes, bool] = field(default_factory=dict)

    @cached_property
    def names(self) -> Collection[str]:
        return frozenset(node.name for node in self.nodes)

    def reaches(self, place: bytes) -> bool:
        """Return whether one of the nodes reaches a device."""
        if place not in self._reached:
            read = read_place(place)
            self._reached[place] = any(read.is_reached_by(node.name, node.labels) for node in self.nodes)
        return self._reached[place]


class _Measurement:
    """The capacities by one set of objects at one time."""

    def __init__(self, shapes: Sequence[NodeShape], sources: CapacitySources, now: datetime | None) -> None:
        self._shapes, self._sources, self._now = shapes, sources, now
        self._selected: list[tuple[CapacitySelection, _Selected]] = []

    def select(self, selection: CapacitySelection) -> _Selected:
        """Return the nodes and shapes of a selection; caps with the same one share them."""
        selection = replace(selection, settle=_ANY_TIME)
        known = next((selected for other, selected in self._selected if other == selection), None)
        if known is None:
            known = self._select(selection)
            self._selected.append((selection, known))
        return known

    def _select(self, selection: CapacitySelection) -> _Selected:
        grace = timedelta(seconds=selection.not_ready)
        nodes: list[MeasuredNode] = []
        to_come: list[datetime] = []
        past: list[datetime] = []
        for node in self._sources.nodes:
            if not selects_node(selection, node.labels, node.taints):
                continue
            if not node.is_ready:
                if node.unready_since is None:
                    continue
                end = node.unready_since + grace
                if self._now is None or end <= self._now:
                    past.append(end)
                    continue
                to_come.append(end)
            nodes.append(node)
        shapes = [
            shape
            for shape in (self._shapes if selection.node_shapes else ())
            if selects_node(selection, shape.labels, [taint.key for taint in shape.taints])
        ]
        return _Selected(nodes, shapes, min(to_come, default=None), max(past, default=None))

    def measure(self, cap: NamespaceCap, name: str, selected: _Selected) -> int:
        """Return the capacity of a name in the unit of its amounts.

        Raises:
            _UnknownCapacityError: if it is not known.
        """
        self._require(kinds.NODES)
        device, count = cap.devices.get(name), cap.counts.get(name)
        if device is not None and device.is_by_allocation:
            meter = create_meter(device.selector, device.sum)
            return self._sum_devices(self._measure_devices(meter.identity, meter.compute_certain, selected), selected)
        if count is not None and not count.weights:
            raise _UnknownCapacityError(f"nodes have no capacity of {name}, which no resource of a node counts under")
        weights = {name.removeprefix(LIMITS_PREFIX): 1} if count is None else count.weights
        if any(is_extended(resource) or find_named_class(resource) for resource in weights):
            self._require(kinds.CLASSES)
        mapped = {other: definition.classes for other, definition in cap.devices.items()}
        weighted = create_weighted_sum(weights, self._sources.resources_by_class, mapped)
        sources = find_device_sources(weights, self._sources.resources_by_class, mapped).values()
        by_device = frozenset[str]().union(*(source.resources for source in sources))
        key = tuple(weighted.weights.items()), tuple(weighted.classes.items()), by_device
        if key not in selected.totals:
            selected.totals[key] = self._add_up(weighted, by_device, selected)
        return selected.totals[key]

    def _add_up(self, weighted: WeightedSum, by_device: Collection[str], selected: _Selected) -> int:
        """Return the sum of what is allocatable; `by_device` are the resources that published devices have, too."""
        plain = {name: weight for name, weight in weighted.weights.items() if name not in by_device}
        shared = {name: weight for name, weight in weighted.weights.items() if name in by_device}
        total = sum(_weigh(node.amounts, plain) for node in selected.nodes)
        total += sum(self._weigh_shape(shape, weighted.weights) for shape in selected.shapes)
        if not weighted.classes:
            return total + sum(_weigh(node.amounts, shared) for node in selected.nodes)
        try:
            weigher = create_class_weigher(weighted.classes, self._sources.find_selectors)
        except UnreadClassError as error:
            raise _UnknownCapacityError(f"it is not known which devices a DeviceClass selects: {error}") from None
        devices = self._measure_devices(tuple(weighted.classes.items()), weigher, selected)
        total += sum(max(_weigh(node.amounts, shared), devices.by_node.get(node.name, 0)) for node in selected.nodes)
        return total + self._sum_shared(devices, selected)

    def _measure_devices(self, key: object, weigh: DeviceWeigher, selected: _Selected) -> DeviceAmounts:
        """Return the amounts of devices; `key` is equal for weighers that weigh the same.

        Raises:
            _UnknownCapacityError: if slices are not known, or a selected node may have devices that are not.
        """
        self._require(kinds.SLICES)
        problem = self._sources.devices.find_problem(selected.names, selected.reaches)
        if problem:
            raise _UnknownCapacityError(problem)
        return self._sources.devices.sum_amounts(key, weigh)

    @staticmethod
    def _sum_shared(devices: DeviceAmounts, selected: _Selected) -> int:
        return sum(amount for place, amount in devices.by_place.items() if selected.reaches(place))

    def _sum_devices(self, devices: DeviceAmounts, selected: _Selected) -> int:
        own = sum(amount for node, amount in devices.by_node.items() if node in selected.names)
        return own + self._sum_shared(devices, selected)

    @staticmethod
    def _weigh_shape(shape: NodeShape, weights: Mapping[str, int]) -> int:
        amount = sum(weight * shape.get_amount(name) for name, weight in weights.items())
        if amount and shape.most is None:
            raise _UnknownCapacityError(
                f"NodeShape {shape.name} has no `most`, so it is not known how many nodes may come"
            )
        return amount * (shape.most or 0)

    def _require(self, resource: str) -> None:
        problem = self._sources.problems.get(resource)
        if problem:
            raise _UnknownCapacityError(problem)


def _weigh(amounts: Mapping[str, int], weights: Mapping[str, int]) -> int:
    return sum(weight * amounts.get(name, 0) for name, weight in weights.items())


class _KeptCapacities(NamedTuple):
    """Capacities with the policies and objects that they are of, the latter as `key`."""

    policies: PolicySet
    key: tuple[object, ...]
    computed: ComputedCapacities


class CapacityReader:
    """The capacities by the stores of one state.

    `describe_problem` returns why the objects of a resource (`tallygate.cluster.kinds`) are not known; empty if they
    are.
    """

    def __init__(
        self,
        nodes: NodeStore,
        devices: DeviceStore,
        classes: DeviceClassStore,
        describe_problem: Callable[[str], str],
    ) -> None:
        self._nodes, self._devices, self._classes = nodes, devices, classes
        self._describe_problem = describe_problem
        self._measured: dict[str, tuple[bytes, MeasuredNode]] = {}
        self._published: tuple[PolicySet, tuple[int, int], PublishedDevices] | None = None
        self._kept = _KeptCapacities(PolicySet(), (), _NONE)

    def compute(self, policies: PolicySet, now: datetime | None) -> ComputedCapacities:
        """Return `compute_capacities` of the present objects, with the same capacities object until one changes."""
        if not any(cap.follows_capacity for cap in policies.caps):
            return _NONE
        problems = {resource: self._find_problem(resource) for resource in (kinds.NODES, kinds.SLICES, kinds.CLASSES)}
        key = (self._nodes.generation, self._devices.generation, self._classes.generation, *problems.values())
        kept = self._kept
        if kept.policies is policies and kept.key == key and kept.computed.are_those_of(now):
            return kept.computed
        sources = CapacitySources(
            self._measure_nodes(problems),
            self._read_devices(policies),
            self._classes.get_resources_by_class(),
            self._classes.find_selectors,
            problems,
        )
        computed = compute_capacities(policies, sources, now)
        if computed.capacities == kept.computed.capacities:
            computed = computed._replace(capacities=kept.computed.capacities)
        self._kept = _KeptCapacities(policies, key, computed)
        return computed

    def _read_devices(self, policies: PolicySet) -> PublishedDevices:
        """Return the devices with the sums over them; they are kept while nodes alone change."""
        key = self._devices.generation, self._classes.generation
        known = self._published
        if known is None or known[0] is not policies or known[1] != key:
            known = self._published = policies, key, PublishedDevices(self._devices.list_records())
        return known[2]

    def _find_problem(self, resource: str) -> str:
        stores: Mapping[str, ObjectStore[Any]] = {
            kinds.NODES: self._nodes,
            kinds.SLICES: self._devices,
            kinds.CLASSES: self._classes,
        }
        if problem := self._describe_problem(resource):
            return problem
        is_read = stores[resource].revision is not None
        return "" if is_read else kinds.UnknownReason.UNREAD.value.format(resource)

    def _measure_nodes(self, problems: dict[str, str]) -> list[MeasuredNode]:
        """Return the nodes; one with an invalid amount is a problem."""
        before, measured = self._measured, dict[str, tuple[bytes, MeasuredNode]]()
        for record in self._nodes.list_records():
            kept = before.get(record.name)
            if kept is None or kept[0] != record.content:
                try:
                    kept = record.content, measure_node(decode_node(record.content))
                except QuantityError as error:
                    problems[kinds.NODES] = f"a node has an invalid amount: {error}"
                    continue
            measured[record.name] = kept
        self._measured = measured
        return [node for _, node in measured.values()]
