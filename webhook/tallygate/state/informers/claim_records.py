"""Claim records and their charge groups: the few fields of each of 20,000 claims for devices that the gate needs.

The records serve caps, and predictions of the pods that use a claim.

A claim that kube-scheduler made for the extended resources of a pod shows it by its annotation and its owner. Anyone
can write both, so a store of claims looks for more (`tallygate.state.informers.claim_store`).
"""

from collections.abc import Iterator, Mapping
from sys import intern

import msgspec

from tallygate.accounting.cluster.pod_groups import API_GROUP, RESOURCE
from tallygate.accounting.devices.device_meter import AllocatedDevice, DeviceId, list_allocated_devices
from tallygate.accounting.quantity import Quantity
from tallygate.kube.resource_codec import ResourceCodec, parse_revision
from tallygate.objects.devices import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    AllocationResult,
    ClaimConsumer,
    DeviceAllocation,
    DeviceResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from tallygate.objects.meta import NodeSelector, ObjectMeta, OwnerReference
from tallygate.state.informers.pod_records import ChargeGroup, ChargeGroupInterner, PodRecord, read_time

_PODS, _POD, _POD_GROUP = "pods", "Pod", "PodGroup"
_SOME_TIME = "2000-01-01T00:00:00Z"
_SOME_UID = "-"
_CLAIM_DECODER = msgspec.json.Decoder(ResourceClaim)
_SELECTOR_DECODER = msgspec.json.Decoder(NodeSelector)
_ENCODER = msgspec.json.Encoder(order="deterministic")


class ClaimGroup(ChargeGroup):
    """One charge group of claims: labels, spec, and the requests of allocated devices."""

    __slots__ = ()

    def to_claim(self) -> ResourceClaim:
        """Decode the common fields of the claims; each call decodes the content again."""
        return _CLAIM_DECODER.decode(self._decompress())


class ClaimRecord(PodRecord, frozen=True, gc=False):
    """One claim. `pod_uid` is the UID of the pod for which kube-scheduler seems to have made it, or empty.

    `is_reserved` is True if the status of the claim reserves its devices for that pod. `devices` are those that are
    allocated to the claim, `node_selector` is the JSON of the nodes that reach them, empty for all nodes, and
    `reserved_for` has the names of the pods that use the claim. `started` is the time of the allocation; schedulers
    before 1.36 do not write it. `owner_uid` is the UID of the pod that is its controller, or empty: a template of that
    pod made the claim, or kube-scheduler did. `owner_group` is the name of the PodGroup that is, or empty. `groups` are
    the PodGroups among `reserved_for`: the position of each with its UID.
    """

    pod_uid: str = ""
    is_reserved: bool = False
    devices: tuple[AllocatedDevice, ...] = ()
    node_selector: str = ""
    reserved_for: tuple[str, ...] = ()
    owner_uid: str = ""
    owner_group: str = ""
    groups: tuple[tuple[int, str], ...] = ()

    def list_taken(self) -> Iterator[tuple[DeviceId, Mapping[str, Quantity] | None]]:
        """Yield the devices that are not free for other claims, with what is consumed of a shared one.

        Raises:
            QuantityError: if a consumed quantity is invalid.
        """
        for device in self.devices:
            consumed = {name: Quantity.parse(text) for name, text in device.consumed}
            yield device.id, consumed if device.is_shared else None

    def to_claim(self) -> ResourceClaim:
        """Return the claim, without devices of admin access, which stay free, and without times and UIDs of pods."""
        group = self.group.to_claim() if isinstance(self.group, ClaimGroup) else ResourceClaim()
        meta = ObjectMeta(
            name=self.name,
            namespace=self.namespace,
            deletion_timestamp=_SOME_TIME if self.is_terminating else None,
            owner_references=list(self._list_owners()) or None,
        )
        allocation = None
        if group.status is not None:
            selector = _SELECTOR_DECODER.decode(self.node_selector) if self.node_selector else None
            results = [_write_result(device) for device in self.devices]
            allocation = AllocationResult(DeviceAllocation(results), selector, _SOME_TIME if self.started else None)
        uids = dict(self.groups)
        reserved = [
            ClaimConsumer(API_GROUP, RESOURCE, name, uids[position])
            if position in uids
            else ClaimConsumer(resource=_PODS, name=name, uid=_SOME_UID)
            for position, name in enumerate(self.reserved_for)
        ]
        return ResourceClaim(meta, group.spec, ResourceClaimStatus(allocation, reserved or None))

    def _list_owners(self) -> Iterator[OwnerReference]:
        if self.owner_uid:
            yield OwnerReference(_POD, uid=self.owner_uid, controller=True)
        if self.owner_group:
            yield OwnerReference(_POD_GROUP, self.owner_group, controller=True, api_version=f"{API_GROUP}/")


def create_claim_codec(interner: ChargeGroupInterner) -> ResourceCodec[ResourceClaim, PodRecord]:
    """Create the codec of claims. The API group is stable since 1.34; an older API server does not have it."""
    return ResourceCodec(
        "resourceclaims",
        "/apis/resource.k8s.io/v1/resourceclaims",
        ResourceClaim,
        lambda claim: create_claim_record(claim, interner),
        is_optional=True,
    )


def create_claim_record(claim: ResourceClaim, interner: ChargeGroupInterner) -> ClaimRecord:
    """Create the record of a stored claim.

    Raises:
        ValueError: if the claim lacks a field that every stored claim has.
    """
    meta = claim.metadata
    if meta is None or not meta.uid or not meta.namespace or not meta.name:
        raise ValueError("a claim without uid, namespace or name")
    controller = _find_controller_pod(meta)
    owner_uid = (controller.uid if controller is not None else None) or ""
    pod_uid = find_pod_uid(meta)
    reserved_for = (claim.status.reserved_for if claim.status else None) or ()
    allocation = claim.status.allocation if claim.status else None
    selector = allocation.node_selector if allocation else None
    return ClaimRecord(
        meta.uid,
        intern(meta.namespace),
        meta.name,
        "",
        parse_revision(meta.resource_version or ""),
        has_ended=False,
        is_terminating=meta.deletion_timestamp is not None,
        group=interner.intern(_ENCODER.encode(_create_group_claim(claim))),
        pod_uid=pod_uid,
        is_reserved=bool(pod_uid)
        and any(consumer.resource == _PODS and consumer.uid == pod_uid for consumer in reserved_for),
        devices=tuple(_share_names(device) for device in list_allocated_devices(claim)),
        node_selector="" if selector is None else intern(_ENCODER.encode(selector).decode()),
        reserved_for=tuple(consumer.name for consumer in reserved_for),
        created=read_time(meta.creation_timestamp),
        started=read_time(allocation.allocation_timestamp) if allocation else 0,
        owner_uid=owner_uid,
        owner_group=_find_controller_group(meta),
        groups=tuple(
            (position, consumer.uid)
            for position, consumer in enumerate(reserved_for)
            if consumer.api_group == API_GROUP and consumer.resource == RESOURCE
        ),
    )


def _share_names(device: AllocatedDevice) -> AllocatedDevice:
    """Return the device with names that are in memory once: all devices of a driver or pool have them in common."""
    return device._replace(id=DeviceId(*map(intern, device.id)))


def _write_result(device: AllocatedDevice) -> DeviceResult:
    return DeviceResult(
        "", *device.id, consumed_capacity=dict(device.consumed) or None, share_id="" if device.is_shared else None
    )


def intern_template(claim: ResourceClaim, interner: ChargeGroupInterner) -> ChargeGroup:
    """Return the group of a claim as a template makes it, with the selectors and capacities of its devices."""
    metadata = claim.metadata or ObjectMeta()
    content = ResourceClaim(ObjectMeta(labels=metadata.labels) if metadata.labels else None, claim.spec)
    return interner.intern(_ENCODER.encode(content))


def find_pod_uid(meta: ObjectMeta) -> str:
    """Return the UID of the pod for which kube-scheduler seems to have made a claim, or an empty text."""
    owner = find_owner_pod(meta)
    return "" if owner is None else owner.uid or ""


def find_owner_pod(meta: ObjectMeta) -> OwnerReference | None:
    """Return the reference to the pod for which kube-scheduler seems to have made a claim, or None.

    Source: isExtendedResourceClaim in pkg/scheduler/framework/plugins/dynamicresources, v1.37.
    """
    if (meta.annotations or {}).get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return None
    return _find_controller_pod(meta)


def _find_controller_pod(meta: ObjectMeta) -> OwnerReference | None:
    return next(
        (reference for reference in meta.owner_references or () if reference.controller and reference.kind == _POD),
        None,
    )


def _find_controller_group(meta: ObjectMeta) -> str:
    """Return the name of the PodGroup for which a claim was made, empty if it was made for none."""
    return next(
        (
            reference.name or ""
            for reference in meta.owner_references or ()
            if reference.controller
            and reference.kind == _POD_GROUP
            and (reference.api_version or "").partition("/")[0] == API_GROUP
        ),
        "",
    )


def _create_group_claim(claim: ResourceClaim) -> ResourceClaim:
    meta, status = claim.metadata or ObjectMeta(), claim.status
    allocation = status.allocation if status else None
    return ResourceClaim(
        metadata=ObjectMeta(labels=meta.labels) if meta.labels else None,
        spec=claim.spec,
        status=ResourceClaimStatus(_create_group_allocation(allocation)) if allocation else None,
    )


def _create_group_allocation(allocation: AllocationResult) -> AllocationResult:
    """Return the allocation with the request of each device only: all claims of a template have the same group."""
    results = (allocation.devices.results if allocation.devices else None) or ()
    devices = [DeviceResult(result.request, admin_access=result.admin_access) for result in results]
    return AllocationResult(DeviceAllocation(devices))
