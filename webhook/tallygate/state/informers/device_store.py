"""A store of the devices that the ResourceSlices of a cluster publish.

Only the slices of the newest generation of a pool count, as for the scheduler. A device that no slice publishes any
more stays known as it was, since a claim may still have it: its driver ended, or is about to publish the next
generation.
"""

from collections.abc import Callable, Collection, Iterable
from sys import intern

import msgspec
from msgspec.structs import replace

from tallygate.accounting.allocation.published_devices import AllocatableSlice, build_slice
from tallygate.accounting.devices.device_meter import DeviceId, KnownDevice
from tallygate.kube.resource_codec import Replaced, ResourceCodec, WatchEvent
from tallygate.objects.devices import DevicePool, ResourceSlice, ResourceSliceSpec
from tallygate.state.informers.named_stores import ObjectStore, read_identity

_MAX_UNPUBLISHED = 4096

_PoolKey = tuple[str, str]


class SliceRecord(msgspec.Struct, frozen=True):
    """One slice: its pool, and the JSON of each device by name.

    `slice_count` is the number of slices of the pool. If the slice `selects_per_device`, nodes differ in the devices
    that they reach, else they reach all or none of them. `node_name` is set for the devices of one node. `rest` is JSON
    with the other nodes and the counters of the slice, empty if it has neither.
    """

    uid: str
    name: str
    revision: int
    driver: str
    pool: str
    generation: int
    devices: dict[str, bytes]
    namespace: str = ""
    slice_count: int = 0
    selects_per_device: bool = False
    node_name: str = ""
    rest: bytes = b""

    def to_slice(self) -> AllocatableSlice:
        """Return the slice for the allocator.

        Raises:
            SliceError: if a device or a quantity is invalid.
        """
        spec = _SPEC_DECODER.decode(self.rest) if self.rest else ResourceSliceSpec()
        spec = replace(
            spec,
            driver=self.driver,
            pool=DevicePool(self.pool, self.generation, self.slice_count),
            node_name=self.node_name or None,
            per_device_node_selection=self.selects_per_device,
        )
        return build_slice(self.name, spec, self.devices.items())

    @property
    def compared_value(self) -> object:
        """All stored fields."""
        place = self.driver, self.pool, self.generation, self.slice_count, self.selects_per_device, self.node_name
        return place, self.rest, self.devices


class DeviceStore(ObjectStore[SliceRecord]):
    """The devices by driver, pool and name. `list_used` returns the devices that claims have.

    The devices of a pool are replaced as a whole, so any thread may find devices without a lock.
    """

    def __init__(self, list_used: Callable[[], Iterable[DeviceId]] = lambda: ()) -> None:
        super().__init__()
        self._list_used = list_used
        self._slices: dict[str, SliceRecord] = {}
        self._slice_names: dict[_PoolKey, set[str]] = {}
        self._published: dict[_PoolKey, dict[str, bytes]] = {}
        self._unpublished: dict[DeviceId, bytes] = {}
        self._listed: tuple[int, tuple[SliceRecord, ...] | None] = (-1, None)

    def list_slices(self) -> tuple[SliceRecord, ...] | None:
        """Return the slices of the newest generations; None before the first list, and while a pool is incomplete.

        It is the same object until a slice changes.
        """
        if self._listed[0] != self._generation:
            with self._lock:
                self._listed = self._generation, self._select_newest()
        return self._listed[1]

    def _select_newest(self) -> tuple[SliceRecord, ...] | None:
        selected: list[SliceRecord] = []
        for names in self._slice_names.values():
            slices = [self._slices[name] for name in names]
            generation = max((resource_slice.generation for resource_slice in slices), default=0)
            newest = [resource_slice for resource_slice in slices if resource_slice.generation == generation]
            if any(resource_slice.slice_count != len(newest) for resource_slice in newest):
                return None
            selected += newest
        return tuple(selected) if self._revision is not None else None

    def find_device(self, device_id: DeviceId) -> KnownDevice | None:
        """Return a device as it is published, or was published last; None if this store has never seen it."""
        content = self._published.get((device_id.driver, device_id.pool), {}).get(device_id.device)
        if content is not None:
            return KnownDevice(content, is_published=True)
        content = self._unpublished.get(device_id)
        return None if content is None else KnownDevice(content, is_published=False)

    def _replace(self, event: Replaced[SliceRecord]) -> frozenset[str]:
        names = super()._replace(event)
        for name, known in self._slices.items():
            if name not in names:  # its content is in memory once
                listed = self._records[name]
                self._slices[name] = self._records[name] = replace(listed, devices=known.devices, rest=known.rest)
        self._update_slices(names)
        return names

    def _apply_change(self, event: WatchEvent[SliceRecord]) -> frozenset[str]:
        names = super()._apply_change(event)
        self._update_slices(names)
        return names

    def _update_slices(self, names: Collection[str]) -> None:
        """Update the pools of the slices that have changed."""
        pools: set[_PoolKey] = set()
        for name in names:
            before, after = self._slices.pop(name, None), self._records.get(name)
            if before is not None:
                pools.add((before.driver, before.pool))
                self._slice_names[before.driver, before.pool].discard(name)
            if after is not None:
                pools.add((after.driver, after.pool))
                self._slice_names.setdefault((after.driver, after.pool), set()).add(name)
                self._slices[name] = after
        for pool in pools:
            self._update_pool(pool)
        if len(self._unpublished) > 2 * _MAX_UNPUBLISHED:
            self._drop_unused()

    def _update_pool(self, pool: _PoolKey) -> None:
        slices = [self._slices[name] for name in sorted(self._slice_names[pool])]
        newest = max((resource_slice.generation for resource_slice in slices), default=0)
        devices: dict[str, bytes] = {}
        for resource_slice in slices:
            if resource_slice.generation == newest:
                devices.update(resource_slice.devices)
        for name, content in self._published.get(pool, {}).items():
            if name not in devices:
                self._unpublished[DeviceId(*pool, name)] = content
        if devices:
            self._published[pool] = devices
        else:
            self._published.pop(pool, None)
        if not slices:
            del self._slice_names[pool]
        for name in devices:
            self._unpublished.pop(DeviceId(*pool, name), None)

    def _drop_unused(self) -> None:
        """Drop unpublished devices that no claim has, except the latest: the claim of one may not be seen yet."""
        used = frozenset(self._list_used())
        latest = frozenset(list(self._unpublished)[-_MAX_UNPUBLISHED:])
        self._unpublished = {
            name: content for name, content in self._unpublished.items() if name in used or name in latest
        }


class PublishedDevice(msgspec.Struct, frozen=True):
    """The name of a device in a slice."""

    name: str = ""


_NAME_DECODER = msgspec.json.Decoder(PublishedDevice)
_ENCODER = msgspec.json.Encoder()
_SPEC_DECODER = msgspec.json.Decoder(ResourceSliceSpec)


def _create_slice_record(resource_slice: ResourceSlice) -> SliceRecord:
    uid, _, name, revision = read_identity(resource_slice.metadata, "resource slice")
    spec = resource_slice.spec or ResourceSliceSpec()
    devices = {intern(_NAME_DECODER.decode(device).name): bytes(device) for device in spec.devices or ()}
    rest = ResourceSliceSpec(
        node_selector=spec.node_selector, all_nodes=spec.all_nodes, shared_counters=spec.shared_counters
    )
    return SliceRecord(
        uid,
        name,
        revision,
        intern(spec.driver),
        intern(spec.pool.name),
        spec.pool.generation,
        devices,
        slice_count=spec.pool.resource_slice_count,
        selects_per_device=bool(spec.per_device_node_selection),
        node_name=intern(spec.node_name or ""),
        rest=b"" if rest == ResourceSliceSpec() else _ENCODER.encode(rest),
    )


RESOURCE_SLICE_CODEC = ResourceCodec(
    "resourceslices", "/apis/resource.k8s.io/v1/resourceslices", ResourceSlice, _create_slice_record, is_optional=True
)
"""The API group is stable since 1.34 (k8s.io/api/resource/v1); an older API server does not have it."""
