"""Slices, taint rules and claims of devices of a cluster, the templates of claims, and the allocator over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from tallygate.accounting.allocation.allocations import AllocatedState
from tallygate.accounting.allocation.allocator import Allocator, AllocatorRules
from tallygate.accounting.allocation.attempt_work import AttemptWork
from tallygate.accounting.allocation.published_devices import AllocatableSlice, read_slice
from tallygate.accounting.allocation.taint_rules import TaintRules, selects_slice
from tallygate.accounting.cluster.device_columns import DeviceColumns
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.quantity import Quantity
from tallygate.objects import devices
from tallygate.objects.meta import ObjectMeta

DeviceObject = devices.ResourceSlice | devices.DeviceTaintRule | devices.ResourceClaim | devices.ResourceClaimTemplate
"""Every type of object about devices but their classes."""


ClaimKey = tuple[str, str]
"""The namespace and the name of a claim."""


class StoredClaim(Protocol):
    """A claim in a form that takes less memory."""

    @property
    def reserved_for(self) -> tuple[str, ...]:
        """The names of the pods that use the claim."""
        ...

    def list_taken(self) -> Iterable[tuple[DeviceId, Mapping[str, Quantity] | None]]:
        """Return the devices of the claim, with what it consumes of a shared one.

        Raises:
            QuantityError: if that is no quantity.
        """
        ...

    def to_claim(self) -> devices.ResourceClaim:
        """Return the claim."""
        ...


class ClaimIndex(Mapping[tuple[str, str], devices.ResourceClaim]):
    """Claims by namespace and name; a record becomes a claim when it is read."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], devices.ResourceClaim | StoredClaim] = {}

    def __getitem__(self, key: tuple[str, str]) -> devices.ResourceClaim:
        stored = self.stored[key]
        return stored if isinstance(stored, devices.ResourceClaim) else stored.to_claim()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


class DeviceIndex:
    """All slices, taint rules, claims and templates of claims of one cluster, changed by one object at a time.

    `special_claims` are the claims that kube-scheduler made for extended resources, by the UID of their pod. `work` is
    what the present attempt of an allocator may still do. `find_stored_template` returns a template by its namespace
    and name that was not put in.
    """

    def __init__(
        self, find_stored_template: Callable[[str, str], devices.ResourceClaimTemplate | None] = lambda *_: None
    ) -> None:
        self.claims = ClaimIndex()
        self.templates: dict[tuple[str, str], devices.ResourceClaimTemplate] = {}
        self._find_stored_template = find_stored_template
        self.special_claims: dict[str, devices.ResourceClaim] = {}
        self.work = AttemptWork()
        self._slices: dict[str, AllocatableSlice] = {}
        self._tainted: dict[str, AllocatableSlice] = {}
        self._taint_rules = TaintRules()
        self._state = AllocatedState()
        self._allocators: dict[KubernetesVersion, tuple[Allocator, Allocator]] = {}
        self._columns: dict[KubernetesVersion, DeviceColumns] = {}

    def put(self, device_object: DeviceObject) -> None:
        """Add an object, or replace its previous version.

        Raises:
            SliceError: if a slice cannot be read; the index is unchanged.
            QuantityError: if what a claim consumes of a device is no quantity; the index is unchanged.
        """
        meta = device_object.metadata or ObjectMeta()
        name, namespace = meta.name or "", meta.namespace or ""
        match device_object:
            case devices.ResourceSlice():
                self.replace_slice(name, read_slice(device_object))
            case devices.DeviceTaintRule():
                self._replace_taint_rule(name, device_object)
            case devices.ResourceClaim():
                self.replace_claim((namespace, name), device_object)
            case devices.ResourceClaimTemplate():
                self.templates[namespace, name] = device_object

    def remove(self, device_object: DeviceObject) -> None:
        """Remove an object; only its kind, namespace and name matter."""
        meta = device_object.metadata or ObjectMeta()
        name, namespace = meta.name or "", meta.namespace or ""
        match device_object:
            case devices.ResourceSlice():
                self.replace_slice(name, None)
            case devices.DeviceTaintRule():
                self._replace_taint_rule(name, None)
            case devices.ResourceClaim():
                self.replace_claim((namespace, name), None)
            case devices.ResourceClaimTemplate():
                self.templates.pop((namespace, name), None)

    def replace_slice(self, name: str, published: AllocatableSlice | None) -> None:
        """Put a slice in the place of the known one of this name; None to remove it."""
        before, tainted_before = self._slices.pop(name, None), self._tainted.pop(name, None)
        if published is not None:
            self._slices[name], self._tainted[name] = published, self._taint_rules.apply(published)
        for version in self._allocators:
            if version.has(Switch.APPLIES_TAINT_RULES):
                self._swap_slice(version, tainted_before, self._tainted.get(name))
            else:
                self._swap_slice(version, before, published)

    def _swap_slice(
        self, version: KubernetesVersion, before: AllocatableSlice | None, after: AllocatableSlice | None
    ) -> None:
        """Put a slice in the place of another one for the allocator of a version."""
        allocator, _ = self._allocators[version]
        for resource_slice in (resource_slice for resource_slice in (before, after) if resource_slice is not None):
            if resource_slice is before:
                allocator.slices.remove(resource_slice)
            else:
                allocator.slices.add(resource_slice)
            if version in self._columns:
                self._columns[version].mark_stale(allocator.slices.list_nodes_of_pool(resource_slice))
        if before is not None:
            allocator.selectors.forget(device.content for device in before.devices)

    def _replace_taint_rule(self, name: str, rule: devices.DeviceTaintRule | None) -> None:
        for resource_slice in self.set_taint_rule(name, rule):
            self.refresh_slice(resource_slice)

    def set_taint_rule(self, name: str, rule: devices.DeviceTaintRule | None) -> list[str]:
        """Put a rule in the place of the known one of this name, None to remove it.

        Return the slices that the caller must refresh, so that it can do that in parts.
        """
        before = self._taint_rules.replace(name, rule)
        if before is not None and rule is not None and before.spec == rule.spec:
            return []
        return [
            key
            for key, resource_slice in self._slices.items()
            if selects_slice(before, resource_slice) or selects_slice(rule, resource_slice)
        ]

    def refresh_slice(self, name: str) -> None:
        """Apply the present taint rules to a slice."""
        published, before = self._slices.get(name), self._tainted.get(name)
        if published is not None:
            after = self._tainted[name] = self._taint_rules.apply(published)
            for version in (allocator for allocator in self._allocators if allocator.has(Switch.APPLIES_TAINT_RULES)):
                self._swap_slice(version, before, after)

    def list_taint_rules(self) -> list[devices.DeviceTaintRule]:
        return list(self._taint_rules.by_name.values())

    def replace_claim(self, key: tuple[str, str], claim: devices.ResourceClaim | StoredClaim | None) -> None:
        """Put a claim in the place of the known one of this namespace and name; None to remove it.

        Raises:
            QuantityError: if what the claim consumes of a device is no quantity; the index is unchanged.
        """
        taken = [] if claim is None else list(list_taken(claim))
        before = self.claims.stored.pop(key, None)
        for device, consumed in () if before is None else list_taken(before):
            self._state.give_back(device, consumed)
        if isinstance(before, devices.ResourceClaim):
            self.special_claims.pop(_find_special_owner(before) or "", None)
        if claim is None:
            return
        self.claims.stored[key] = claim
        for device, consumed in taken:
            self._state.take(device, consumed)
        if isinstance(claim, devices.ResourceClaim) and (owner := _find_special_owner(claim)) is not None:
            self.special_claims[owner] = claim

    def list_idle_claims(self) -> Iterator[tuple[ClaimKey, int]]:
        """Yield the claims that have devices and that nothing uses, with the number of their devices."""
        for key, claim in self.claims.stored.items():
            if not _is_used(claim) and (count := sum(1 for _ in list_taken(claim))):
                yield key, count

    def find(
        self, device_object: devices.ResourceClaim | devices.ResourceClaimTemplate
    ) -> devices.ResourceClaim | devices.ResourceClaimTemplate | None:
        """Return the present claim or template of the same namespace and name, if any."""
        meta = device_object.metadata or ObjectMeta()
        key = meta.namespace or "", meta.name or ""
        return self.claims.get(key) if isinstance(device_object, devices.ResourceClaim) else self.find_template(*key)

    def find_put(
        self, device_object: devices.ResourceClaim | devices.ResourceClaimTemplate
    ) -> devices.ResourceClaim | devices.ResourceClaimTemplate | None:
        """Return as `find` does, without the templates that were not put in."""
        meta = device_object.metadata or ObjectMeta()
        key = meta.namespace or "", meta.name or ""
        return self.claims.get(key) if isinstance(device_object, devices.ResourceClaim) else self.templates.get(key)

    def find_template(self, namespace: str, name: str) -> devices.ResourceClaimTemplate | None:
        """Return the template of this namespace and name, if any."""
        return self.templates.get((namespace, name)) or self._find_stored_template(namespace, name)

    def has_node_pools_only(self) -> bool:
        """Return whether each pool has the devices of one node, so that an allocation changes no other node."""
        nodes_by_pool: dict[tuple[str, str], str] = {}
        return all(
            resource_slice.nodes.name
            and not resource_slice.has_nodes_by_device
            and nodes_by_pool.setdefault((resource_slice.driver, resource_slice.pool), resource_slice.nodes.name)
            == resource_slice.nodes.name
            for resource_slice in self._slices.values()
        )

    def get_allocator(
        self, version: KubernetesVersion, classes: Mapping[str, devices.DeviceClass], *, is_idle: bool = False
    ) -> Allocator:
        """Return the allocator of a version over the slices and the classes of the cluster.

        It allocates what claims and taints leave free, or all devices if `is_idle`.
        """
        allocators = self._allocators.get(version)
        if allocators is None:
            rules = AllocatorRules(version)
            slices = self._tainted if version.has(Switch.APPLIES_TAINT_RULES) else self._slices
            allocator = Allocator(slices.values(), classes, self._state, rules, self.work)
            allocators = self._allocators[version] = allocator, allocator.create_idle()
        return allocators[is_idle]

    def get_columns(self, version: KubernetesVersion, classes: Mapping[str, devices.DeviceClass]) -> DeviceColumns:
        columns = self._columns.get(version)
        if columns is None:
            columns = self._columns[version] = DeviceColumns(self.get_allocator(version, classes))
        return columns


def _is_used(claim: devices.ResourceClaim | StoredClaim) -> bool:
    if isinstance(claim, devices.ResourceClaim):
        return bool(claim.status and claim.status.reserved_for)
    return bool(claim.reserved_for)


def list_taken(claim: devices.ResourceClaim | StoredClaim) -> Iterable[tuple[DeviceId, Mapping[str, Quantity] | None]]:
    """Return the devices of a claim.

    Raises:
        QuantityError: if a consumed capacity is invalid.
    """
    return _read_taken(claim) if isinstance(claim, devices.ResourceClaim) else claim.list_taken()


def _read_taken(claim: devices.ResourceClaim) -> Iterator[tuple[DeviceId, Mapping[str, Quantity] | None]]:
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


def _find_special_owner(claim: devices.ResourceClaim) -> str | None:
    """Return the UID of the pod for whose extended resources kube-scheduler made a claim; None for any other claim."""
    meta = claim.metadata or ObjectMeta()
    if (meta.annotations or {}).get(devices.EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return None
    return next((reference.uid for reference in meta.owner_references or () if reference.controller), None)
