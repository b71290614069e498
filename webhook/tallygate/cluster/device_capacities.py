"""The amounts of published devices: by the node that has them, and of those that several nodes reach.

A device counts where an expression certainly selects it: one that fails on a device, or is not supported here, selects
it for no claim that tallygate could follow. It counts once, whatever number of slices, classes or nodes it has. The
partitions of a device that its driver publishes beside it count each.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tallygate.accounting.allocation.pools import PoolId
from tallygate.accounting.cel.syntax import ExpressionError
from tallygate.accounting.devices.device_meter import DeviceId, DeviceMeter, create_meter
from tallygate.accounting.selectors import matches_node
from tallygate.errors import TallygateError
from tallygate.objects.devices import ResourceSliceSpec
from tallygate.objects.meta import NodeSelector
from tallygate.state.informers.device_store import SliceRecord

DeviceWeigher = Callable[[DeviceId, bytes], int]
"""Returns the amount of a device by its name and JSON."""


class UnreadClassError(TallygateError):
    """A class of devices whose selector cannot be evaluated here."""


class DevicePlace(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes that reach a device: one by its name, all, or those that a selector matches."""

    node_name: str | None = None
    all_nodes: bool | None = None
    node_selector: NodeSelector | None = None

    def is_reached_by(self, node: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node reaches the device (NodeMatches in structured/internal/incubating, v1.37)."""
        if self.node_name:
            return self.node_name == node
        return bool(self.all_nodes) or (
            self.node_selector is not None and matches_node(self.node_selector, node, labels)
        )


class DeviceAmounts(NamedTuple):
    """The amounts of devices by node, and of the places that several nodes may reach."""

    by_node: Mapping[str, int]
    by_place: Mapping[bytes, int]


class _PlacedDevices(NamedTuple):
    """The devices of one pool with the same nodes: the name of a node, or the JSON of their place."""

    node: str
    place: bytes
    pool: PoolId
    devices: Mapping[str, bytes]


_DECODER = msgspec.json.Decoder(DevicePlace)
_REST_DECODER = msgspec.json.Decoder(ResourceSliceSpec)
_ENCODER = msgspec.json.Encoder(order="deterministic")


class PublishedDevices:
    """The devices of the slices of a cluster, by pool, as of one moment; `slices` are those of all generations.

    It keeps the sums over them, which take seconds in a large cluster.
    """

    def __init__(self, slices: Iterable[SliceRecord] = ()) -> None:
        self._sums: dict[object, DeviceAmounts] = {}
        by_pool: dict[PoolId, list[SliceRecord]] = defaultdict(list)
        for each in slices:
            by_pool[PoolId(each.driver, each.pool)].append(each)
        self._placed: list[_PlacedDevices] = []
        self._incomplete: dict[PoolId, list[_PlacedDevices]] = {}
        self._problem = ""
        for pool, records in sorted(by_pool.items()):
            try:
                self._place_pool(pool, records)
            except msgspec.MsgspecError as error:
                self._problem = f"a ResourceSlice of driver {pool.driver} cannot be read: {error}"

    def _place_pool(self, pool: PoolId, records: Sequence[SliceRecord]) -> None:
        generation = max(each.generation for each in records)
        newest = [each for each in records if each.generation == generation]
        if any(each.slice_count != len(newest) for each in newest):
            self._incomplete[pool] = [placed for each in records for placed in _place_devices(pool, each)]
        else:
            self._placed += (placed for each in newest for placed in _place_devices(pool, each))

    def find_problem(self, names: Collection[str], reaches: Callable[[bytes], bool]) -> str:
        """Return why it is not known which devices these nodes reach; empty if it is.

        A pool that lacks a slice is a problem of the nodes that may reach it.
        """
        if self._problem:
            return self._problem
        for pool, every in self._incomplete.items():
            if any(placed.node in names or (placed.place and reaches(placed.place)) for placed in every):
                return f"a pool of devices of driver {pool.driver} lacks a ResourceSlice"
        return ""

    def sum_amounts(self, key: object, weigh: DeviceWeigher) -> DeviceAmounts:
        """Return the amounts of all devices of complete pools; `key` is equal for weighers that weigh the same."""
        if key not in self._sums:
            self._sums[key] = self._sum_amounts(weigh)
        return self._sums[key]

    def _sum_amounts(self, weigh: DeviceWeigher) -> DeviceAmounts:
        by_node: dict[str, int] = defaultdict(int)
        by_place: dict[bytes, int] = defaultdict(int)
        counted: set[DeviceId] = set()
        for placed in self._placed:
            for name, content in placed.devices.items():
                device_id = DeviceId(*placed.pool, name)
                if device_id in counted:
                    continue
                counted.add(device_id)
                amount = weigh(device_id, content)
                if amount and placed.node:
                    by_node[placed.node] += amount
                elif amount and placed.place:
                    by_place[placed.place] += amount
        return DeviceAmounts(by_node, by_place)


def read_place(place: bytes) -> DevicePlace:
    """Return a place of `DeviceAmounts`."""
    return _DECODER.decode(place)


def create_class_weigher(
    weights: Mapping[str, int], find_selectors: Callable[[str], Sequence[str] | None]
) -> DeviceWeigher:
    """Return the weigher of devices by these classes: the largest weight of those that select a device.

    `find_selectors` returns the expressions of a class, all of which must match; None if there is no such class.

    Raises:
        UnreadClassError: if a selector of a class is not one that can be evaluated here.
    """
    by_class: list[tuple[int, list[DeviceMeter]]] = []
    for class_name, weight in weights.items():
        selectors = find_selectors(class_name)
        if selectors is None:
            continue
        if not all(selectors):
            raise UnreadClassError(f"DeviceClass {class_name} has a selector of another kind than CEL")
        try:
            by_class.append((weight, [create_meter(selector, "") for selector in selectors]))
        except ExpressionError as error:
            raise UnreadClassError(f"a selector of DeviceClass {class_name}: {error}") from None

    def weigh(device_id: DeviceId, content: bytes) -> int:
        return max(
            (
                weight
                for weight, meters in by_class
                if all(meter.compute_certain(device_id, content) for meter in meters)
            ),
            default=0,
        )

    return weigh


def _place_devices(pool: PoolId, published: SliceRecord) -> Iterator[_PlacedDevices]:
    """Yield the devices of a slice by the nodes that reach them."""
    if published.node_name:
        yield _PlacedDevices(published.node_name, b"", pool, published.devices)
    elif not published.selects_per_device:
        spec = _REST_DECODER.decode(published.rest) if published.rest else ResourceSliceSpec()
        yield _locate_devices(pool, published.devices, DevicePlace(None, spec.all_nodes, spec.node_selector))
    else:
        for name, content in published.devices.items():
            yield _locate_devices(pool, {name: content}, _DECODER.decode(content))


def _locate_devices(pool: PoolId, devices: Mapping[str, bytes], place: DevicePlace) -> _PlacedDevices:
    return _PlacedDevices(place.node_name or "", b"" if place.node_name else _ENCODER.encode(place), pool, devices)
