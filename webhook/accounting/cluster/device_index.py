"""Slices and claims of devices of a cluster, the templates of claims, and the allocator over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tallygate.webhook.accounting.allocation.allocations import AllocatedState
from tallygate.webhook.accounting.allocation.allocator import Allocator, AllocatorRules
from tallygate.webhook.accounting.allocation.published_devices import AllocatableSlice, read_slice
from tallygate.webhook.accounting.cluster.device_columns import DeviceColumns
from tallygate.webhook.accounting.cluster.scheduler_version import SchedulerVersion
from tallygate.webhook.accounting.devices.device_meter import DeviceId
from tallygate.webhook.accounting.quantity import Quantity
from tallygate.webhook.objects.devices import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from tallygate.webhook.objects.meta import ObjectMeta

DeviceObject = ResourceSlice | ResourceClaim | ResourceClaimTemplate
"""Every type of object about devices but their classes."""


class DeviceIndex:
    """All slices, claims and templates of claims of one cluster, changed by one object at a time.

    `special_claims` are the claims that kube-scheduler made for extended resources, by the UID of their pod.
    """

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], ResourceClaim] = {}
        self.templates: dict[tuple[str, str], ResourceClaimTemplate] = {}
        self.special_claims: dict[str, ResourceClaim] = {}
        self._slices: dict[str, AllocatableSlice] = {}
        self._state = AllocatedState()
        self._allocators: dict[tuple[int, bool], Allocator] = {}
        self._columns: dict[tuple[int, bool], DeviceColumns] = {}

    def put(self, device_object: DeviceObject) -> None:
        """Add an object, or replace its previous version.

        Raises:
            SliceError: if a slice cannot be read; the index is unchanged.
            QuantityError: if what a claim consumes of a device is no quantity; the index is unchanged.
        """
        meta = device_object.metadata or ObjectMeta()
        name, namespace = meta.name or "", meta.namespace or ""
        match device_object:
            case ResourceSlice():
                self._slices[name] = read_slice(device_object)
                self._forget()
            case ResourceClaim():
                taken = list(_list_taken(device_object))
                self.remove(device_object)
                self.claims[namespace, name] = device_object
                for device, consumed in taken:
                    self._state.take(device, consumed)
                if (owner := _find_special_owner(device_object)) is not None:
                    self.special_claims[owner] = device_object
            case ResourceClaimTemplate():
                self.templates[namespace, name] = device_object

    def remove(self, device_object: DeviceObject) -> None:
        """Remove an object; only its kind, namespace and name matter."""
        meta = device_object.metadata or ObjectMeta()
        name, namespace = meta.name or "", meta.namespace or ""
        match device_object:
            case ResourceSlice():
                self._slices.pop(name, None)
                self._forget()
            case ResourceClaim():
                claim = self.claims.pop((namespace, name), None)
                if claim is None:
                    return
                for device, consumed in _list_taken(claim):
                    self._state.give_back(device, consumed)
                self.special_claims.pop(_find_special_owner(claim) or "", None)
            case ResourceClaimTemplate():
                self.templates.pop((namespace, name), None)

    def find(
        self, device_object: ResourceClaim | ResourceClaimTemplate
    ) -> ResourceClaim | ResourceClaimTemplate | None:
        """Return the present claim or template of the same namespace and name, if any."""
        meta = device_object.metadata or ObjectMeta()
        known = self.claims if isinstance(device_object, ResourceClaim) else self.templates
        return known.get((meta.namespace or "", meta.name or ""))

    def has_node_pools_only(self) -> bool:
        """Return whether each pool has the devices of one node, so that an allocation changes no other node."""
        nodes_by_pool: dict[tuple[str, str], str] = {}
        return all(
            each.nodes.name
            and not each.has_nodes_by_device
            and nodes_by_pool.setdefault((each.driver, each.pool), each.nodes.name) == each.nodes.name
            for each in self._slices.values()
        )

    def get_allocator(
        self, version: SchedulerVersion, classes: Mapping[str, DeviceClass], *, is_idle: bool = False
    ) -> Allocator:
        """Return the allocator of a version over the slices and the classes of the cluster.

        It allocates what claims leave free, or all devices if `is_idle`.
        """
        key = version.minor, is_idle
        allocator = self._allocators.get(key)
        if allocator is None:
            rules = AllocatorRules(since_37=version.allocates_as_37)
            state = AllocatedState() if is_idle else self._state
            allocator = self._allocators[key] = Allocator(self._slices.values(), classes, state, rules)
        return allocator

    def get_columns(
        self, version: SchedulerVersion, classes: Mapping[str, DeviceClass], *, is_idle: bool = False
    ) -> DeviceColumns:
        """Return the columns of the devices of nodes, for this allocator."""
        key = version.minor, is_idle
        columns = self._columns.get(key)
        if columns is None:
            columns = self._columns[key] = DeviceColumns(self.get_allocator(version, classes, is_idle=is_idle))
        return columns

    def _forget(self) -> None:
        self._allocators.clear()
        self._columns.clear()


def _list_taken(claim: ResourceClaim) -> Iterator[tuple[DeviceId, Mapping[str, Quantity] | None]]:
    """Yield the devices of a claim (foreachAllocatedDevice in dynamicresources/allocateddevices.go).

    A device with admin access stays free. A device that several claims share has a share ID in each result.

    Raises:
        QuantityError: if a consumed capacity is invalid.
    """
    allocation = claim.status.allocation if claim.status else None
    for result in (allocation.devices.results if allocation and allocation.devices else None) or ():
        if not result.admin_access:
            amounts = result.consumed_capacity or {}
            consumed = {name: Quantity.parse(text) for name, text in amounts.items()}
            yield DeviceId(result.driver, result.pool, result.device), None if result.share_id is None else consumed


def _find_special_owner(claim: ResourceClaim) -> str | None:
    """Return the UID of the pod for whose extended resources kube-scheduler made a claim; None for any other claim."""
    meta = claim.metadata or ObjectMeta()
    if (meta.annotations or {}).get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return None
    return next((each.uid for each in meta.owner_references or () if each.controller), None)
