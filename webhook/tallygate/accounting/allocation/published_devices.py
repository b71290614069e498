"""Slices of devices as the allocator reads them: decoded once, with exact quantities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from tallygate.accounting.devices.consumed_capacity import Capacity, PublishedCapacity, read_capacity
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.devices.device_values import AttributeValue, Device
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.errors import TallygateError
from tallygate.objects.devices import DeviceTaint, ResourceSlice, ResourceSliceSpec
from tallygate.objects.meta import NodeSelector

_PREVENTING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})

CounterSets = Mapping[str, Mapping[str, Quantity]]
"""Quantities of counters, by counter set and by counter."""


class SliceError(TallygateError):
    """A slice that cannot be read as Kubernetes reads it."""


class PreventingTaint(NamedTuple):
    """A taint of a device that prevents its allocation; `rule` is the DeviceTaintRule that adds it, or empty."""

    key: str
    value: str
    effect: str
    rule: str = ""

    def __str__(self) -> str:
        """Return the taint as kubectl writes one of a node, and its rule."""
        taint = f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"
        return f"{taint} of DeviceTaintRule {self.rule}" if self.rule else taint


class NodeChoice(NamedTuple):
    """The nodes from which devices can be reached: one by its name, all, or those that a selector matches."""

    name: str = ""
    is_all: bool = False
    selector: NodeSelector | None = None


class DeviceContent(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A device without the pool that it is in; devices with the same JSON have the same content.

    `expressed` is the part that expressions read, `taints` are those that prevent allocations. `nodes` matter only in a
    slice whose devices have nodes of their own. `list_attribute` is the name of an attribute whose value is a list.
    `has_groups` is True if the device can be combined with some others only.
    """

    expressed: Device
    capacities: Mapping[str, Capacity]
    consumed_counters: tuple[tuple[str, Mapping[str, Quantity]], ...]
    taints: tuple[PreventingTaint, ...]
    is_shared: bool
    has_binding_conditions: bool
    binds_to_node: bool
    nodes: NodeChoice
    list_attribute: str
    has_groups: bool

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """The attributes by name, as the driver writes them."""
        return self.expressed.attributes


class AllocatableDevice(NamedTuple):
    """A device of a slice."""

    id: DeviceId
    content: DeviceContent


class AllocatableSlice(NamedTuple):
    """A slice with its decoded devices; `has_groups` is True if one of them can be combined with some others only."""

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    nodes: NodeChoice
    has_nodes_by_device: bool
    counter_sets: tuple[tuple[str, Mapping[str, Quantity]], ...]
    devices: tuple[AllocatableDevice, ...]
    has_groups: bool


class _Counter(msgspec.Struct, frozen=True):
    value: msgspec.Raw


class _CounterSet(msgspec.Struct, frozen=True):
    name: str = ""
    counters: dict[str, _Counter] | None = None


class _CounterConsumption(msgspec.Struct, frozen=True, rename="camel"):
    counter_set: str = ""
    compatibility_groups: list[str] | None = None
    counters: dict[str, _Counter] | None = None


class _Device(msgspec.Struct, frozen=True, rename="camel"):
    attributes: dict[str, AttributeValue] = {}
    capacity: dict[str, PublishedCapacity] = {}
    consumes_counters: list[_CounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaint] | None = None
    binding_conditions: list[str] | None = None
    binds_to_node: bool | None = None
    allow_multiple_allocations: bool | None = None


class _NamedDevice(msgspec.Struct, frozen=True):
    name: str = ""


_DEVICES = msgspec.json.Decoder(_Device)
_CONTENTS: WeakValueDictionary[tuple[str, bytes], DeviceContent] = WeakValueDictionary()
_NAMES = msgspec.json.Decoder(_NamedDevice)
_COUNTER_SETS = msgspec.json.Decoder(_CounterSet)


def read_slice(published: ResourceSlice) -> AllocatableSlice:
    """Return a slice with its decoded devices.

    Raises:
        SliceError: if a device or a quantity is invalid.
    """
    name, spec = (published.metadata.name if published.metadata else None) or "", published.spec
    if spec is None:
        raise SliceError(f"ResourceSlice {name} has no spec")
    try:
        devices = [(_NAMES.decode(raw).name, bytes(raw)) for raw in spec.devices or ()]
    except msgspec.MsgspecError as error:
        raise SliceError(f"ResourceSlice {name}: {error}") from None
    return build_slice(name, spec, devices)


def build_slice(name: str, spec: ResourceSliceSpec, named: Iterable[tuple[str, bytes]]) -> AllocatableSlice:
    """Return a slice with its decoded devices, whose names and JSON are given beside its `spec`.

    Raises:
        SliceError: if a device or a quantity is invalid.
    """
    try:
        counter_sets = tuple(
            (counter_set.name, _read_counters(counter_set.counters))
            for counter_set in map(_COUNTER_SETS.decode, spec.shared_counters or ())
        )
        devices = tuple(
            AllocatableDevice(DeviceId(spec.driver, spec.pool.name, device_name), _read_content(spec.driver, raw))
            for device_name, raw in named
        )
    except (msgspec.MsgspecError, QuantityError) as error:
        raise SliceError(f"ResourceSlice {name}: {error}") from None
    return AllocatableSlice(
        name,
        spec.driver,
        spec.pool.name,
        spec.pool.generation,
        spec.pool.resource_slice_count,
        NodeChoice(spec.node_name or "", bool(spec.all_nodes), spec.node_selector),
        bool(spec.per_device_node_selection),
        counter_sets,
        devices,
        any(device.content.has_groups for device in devices),
    )


def _read_content(driver: str, raw: bytes) -> DeviceContent:
    known = _CONTENTS.get((driver, raw))
    if known is not None:
        return known
    device = _DEVICES.decode(raw)
    content = DeviceContent(
        Device(driver, device.attributes, device.capacity, device.allow_multiple_allocations),
        {name: read_capacity(capacity) for name, capacity in device.capacity.items()},
        tuple((counter.counter_set, _read_counters(counter.counters)) for counter in device.consumes_counters or ()),
        tuple(filter(None, map(create_preventing_taint, device.taints or ()))),
        bool(device.allow_multiple_allocations),
        device.binding_conditions is not None,
        bool(device.binds_to_node),
        NodeChoice(device.node_name or "", bool(device.all_nodes), device.node_selector),
        next((name for name, attribute in device.attributes.items() if _is_list(attribute)), ""),
        any(counter.compatibility_groups for counter in device.consumes_counters or ()),
    )
    _CONTENTS[driver, raw] = content
    return content


def create_preventing_taint(taint: DeviceTaint, rule: str = "") -> PreventingTaint | None:
    """Return a taint, and the name of its rule; None if its effect prevents no allocation.

    Source: taintPreventsAllocation in structured/internal/incubating/allocator_incubating.go, v1.37.
    """
    is_preventing = taint.effect in _PREVENTING_EFFECTS
    return PreventingTaint(taint.key, taint.value, taint.effect, rule) if is_preventing else None


def _is_list(attribute: AttributeValue) -> bool:
    return any(value is not None for value in (attribute.ints, attribute.bools, attribute.strings, attribute.versions))


def _read_counters(counters: Mapping[str, _Counter] | None) -> dict[str, Quantity]:
    return {name: Quantity.from_json(counter.value) for name, counter in (counters or {}).items()}
