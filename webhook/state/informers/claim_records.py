"""Claim records and their charge groups: the few fields of each of 20,000 claims for devices that the gate needs.

A claim that kube-scheduler made for the extended resources of a pod shows it by its annotation and its owner. Anyone
can write both, so a store of claims looks for more (`webhook.state.informers.claim_store`).
"""

from sys import intern

import msgspec

from tallygate.webhook.accounting.devices.device_meter import AllocatedDevice, DeviceId, list_allocated_devices
from tallygate.webhook.kube.resource_codec import ResourceCodec, parse_revision
from tallygate.webhook.objects.devices import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    AllocationResult,
    DeviceAllocation,
    DeviceClaim,
    DeviceRequest,
    DeviceResult,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from tallygate.webhook.objects.meta import ObjectMeta
from tallygate.webhook.state.informers.pod_records import ChargeGroup, ChargeGroupInterner, PodRecord

_CLAIM_DECODER = msgspec.json.Decoder(ResourceClaim)
_ENCODER = msgspec.json.Encoder(order="deterministic")


class ClaimGroup(ChargeGroup):
    """One charge group of claims: labels, requests and allocated devices."""

    __slots__ = ()

    def to_claim(self) -> ResourceClaim:
        """Decode the common fields of the claims; each call decodes the content again."""
        return _CLAIM_DECODER.decode(self._decompress())


class ClaimRecord(PodRecord, frozen=True, gc=False):
    """One claim. `pod_uid` is the UID of the pod for which kube-scheduler seems to have made it, or empty.

    `is_reserved` is True if the status of the claim reserves its devices for that pod. `devices` are those that are
    allocated to the claim.
    """

    pod_uid: str = ""
    is_reserved: bool = False
    devices: tuple[AllocatedDevice, ...] = ()


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
    pod_uid = find_pod_uid(meta)
    reserved_for = (claim.status.reserved_for if claim.status else None) or ()
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
        is_reserved=bool(pod_uid) and any(each.resource == "pods" and each.uid == pod_uid for each in reserved_for),
        devices=tuple(_share_names(each) for each in list_allocated_devices(claim)),
    )


def _share_names(device: AllocatedDevice) -> AllocatedDevice:
    """Return the device with names that are in memory once: all devices of a driver or pool have them in common."""
    return AllocatedDevice(DeviceId(*map(intern, device.id)), device.consumed)


def intern_template(claim: ResourceClaim, interner: ChargeGroupInterner) -> ChargeGroup:
    """Return the group of a claim as a template makes it, with the selectors and capacities of its devices."""
    metadata = claim.metadata or ObjectMeta()
    content = ResourceClaim(ObjectMeta(labels=metadata.labels) if metadata.labels else None, claim.spec)
    return interner.intern(_ENCODER.encode(content))


def find_pod_uid(meta: ObjectMeta) -> str:
    """Return the UID of the pod for which kube-scheduler seems to have made a claim, or an empty text.

    Source: isExtendedResourceClaim in pkg/scheduler/framework/plugins/dynamicresources, v1.37.
    """
    if (meta.annotations or {}).get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return ""
    return next((each.uid or "" for each in meta.owner_references or () if each.controller and each.kind == "Pod"), "")


def _create_group_claim(claim: ResourceClaim) -> ResourceClaim:
    meta, status = claim.metadata or ObjectMeta(), claim.status
    devices = (claim.spec or ResourceClaimSpec()).devices or DeviceClaim()
    requests = [_drop_selectors(each) for each in devices.requests or ()]
    allocation = status.allocation if status else None
    return ResourceClaim(
        metadata=ObjectMeta(labels=meta.labels) if meta.labels else None,
        spec=ResourceClaimSpec(DeviceClaim(requests)),
        status=ResourceClaimStatus(_create_group_allocation(allocation)) if allocation else None,
    )


def _drop_selectors(request: DeviceRequest) -> DeviceRequest:
    """Return the request without selectors and capacities, which do not change its charge."""
    exactly, alternatives = request.exactly, request.first_available
    return DeviceRequest(
        request.name,
        msgspec.structs.replace(exactly, selectors=None, capacity=None) if exactly else None,
        [msgspec.structs.replace(each, selectors=None, capacity=None) for each in alternatives]
        if alternatives
        else None,
    )


def _create_group_allocation(allocation: AllocationResult) -> AllocationResult:
    """Return the allocation with the request of each device only: all claims of a template have the same group."""
    results = (allocation.devices.results if allocation.devices else None) or ()
    devices = [DeviceResult(each.request, admin_access=each.admin_access) for each in results]
    return AllocationResult(DeviceAllocation(devices))
