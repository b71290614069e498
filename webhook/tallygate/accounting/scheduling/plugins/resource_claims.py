"""The claims of a pod for devices, and the classes of devices behind its extended resources.

A pod names claims, or templates from which its own claims are made. It stays out of the queue while one of them is
missing. Source: foreachPodResourceClaim in plugins/dynamicresources/dynamicresources.go, resourceclaim in
dynamic-resource-allocation, v1.36 and v1.37.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, is_extended
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.errors import TallygateError
from tallygate.objects.core import PodResourceClaim
from tallygate.objects.devices import AllocationResult, ClaimConsumer, DeviceRequest, ResourceClaim
from tallygate.objects.meta import ObjectMeta

MAX_CONSUMERS = 256
"""The number of consumers that may reserve a claim (ResourceClaimReservedForMaxSize in resource/v1/types.go, v1.37).

The scheduler does not count them (CanBeReserved): the API server rejects the reservation of one more.
"""


class ClaimNotReadyError(TallygateError):
    """A claim of a pod that keeps it out of the queue: it is missing, being deleted, or of another pod."""


class DevicesOfPod(NamedTuple):
    """The claims of a pod, and the class of each extended resource that may be allocated as devices.

    `special` is the claim that an earlier attempt has left for extended resources.
    """

    claims: tuple[ResourceClaim, ...]
    classes: Mapping[str, str]
    special: ResourceClaim | None

    @property
    def to_allocate(self) -> tuple[ResourceClaim, ...]:
        return tuple(claim for claim in self.claims if get_allocation(claim) is None)


def needs_devices(pod: IncomingPod, cluster: Cluster) -> bool:
    """Return whether a pod has claims, or extended resources that a class of devices backs."""
    return bool(pod.spec.resource_claims) or any(True for _ in _find_classes(pod, cluster))


def find_devices_of_pod(pod: IncomingPod, cluster: Cluster, devices: DeviceIndex) -> DevicesOfPod:
    """Return the claims of a pod.

    Raises:
        ClaimNotReadyError: if one is not there, or not the claim of this pod.
    """
    claims = tuple(
        claim
        for other_claim in pod.spec.resource_claims or ()
        if (claim := find_claim(pod, other_claim, devices)) is not None
    )
    classes = dict(_find_classes(pod, cluster))
    return DevicesOfPod(claims, classes, devices.special_claims.get(pod.uid) if classes and pod.uid else None)


def find_hold_reason(pod: IncomingPod, cluster: Cluster) -> str:
    """Return the reason why a pod does not enter the queue (PreEnqueue): a claim of it is not ready; else empty."""
    if cluster.devices is None or not pod.spec.resource_claims:
        return ""
    try:
        find_devices_of_pod(pod, cluster, cluster.devices)
    except ClaimNotReadyError as error:
        return str(error)
    return ""


def get_allocation(claim: ResourceClaim) -> AllocationResult | None:
    """Return the allocated devices of a claim, if any."""
    return claim.status.allocation if claim.status else None


def list_requests(claim: ResourceClaim) -> Sequence[DeviceRequest]:
    """Return the requests of a claim."""
    return (claim.spec.devices.requests if claim.spec and claim.spec.devices else None) or ()


def is_idle_claim(claim: ResourceClaim, pod_uid: str) -> bool:
    """Return whether no other pod has reserved a claim, so that its devices can be freed for this one."""
    reserved = list_consumers(claim)
    return not reserved or [consumer.uid for consumer in reserved] == [pod_uid]


def is_reserved_for(claim: ResourceClaim, pod_uid: str) -> bool:
    """Return whether a claim is reserved for a pod already."""
    return any(consumer.uid == pod_uid for consumer in list_consumers(claim))


def list_consumers(claim: ResourceClaim) -> Sequence[ClaimConsumer]:
    return (claim.status.reserved_for if claim.status else None) or ()


def _find_classes(pod: IncomingPod, cluster: Cluster) -> Iterator[tuple[str, str]]:
    find_class = cluster.device_classes.find_class
    for name in pod.requests:
        class_name = find_class(name)  # first, since most names have none
        if class_name is not None and (is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)):
            yield name, class_name


def find_claim(pod: IncomingPod, reference: PodResourceClaim, devices: DeviceIndex) -> ResourceClaim | None:
    """Return the claim that a pod refers to; None if none is needed (foreachPodResourceClaim).

    Raises:
        ClaimNotReadyError: if it is not there, or not the claim of this pod.
    """
    name = reference.resource_claim_name
    is_own = name is None
    if is_own and not pod.uid:
        return _make_claim(pod, reference, devices)
    if is_own:
        statuses = (pod.pod.status.resource_claim_statuses if pod.pod.status else None) or ()
        made = next((status for status in statuses if status.name == reference.name), None)
        if made is None:
            raise ClaimNotReadyError(f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet')
        name = made.resource_claim_name
    if name is None:
        return None
    claim = devices.claims.get((pod.namespace, name))
    if claim is None:
        raise ClaimNotReadyError(f'could not find ResourceClaim "{pod.namespace}/{name}"')
    meta = claim.metadata or ObjectMeta()
    if meta.deletion_timestamp is not None:
        raise ClaimNotReadyError(f'resourceclaim "{name}" is being deleted')
    if is_own and not any(owner.controller and owner.uid == pod.uid for owner in meta.owner_references or ()):
        own = f"Pod {pod.namespace}/{pod.name} (Pod is not owner)"
        raise ClaimNotReadyError(f"ResourceClaim {pod.namespace}/{name} was not created for {own}")
    return claim


def _make_claim(pod: IncomingPod, reference: PodResourceClaim, devices: DeviceIndex) -> ResourceClaim:
    """Return the claim that will be made from a template once the pod is stored.

    Raises:
        ClaimNotReadyError: if the template is not there.
    """
    name = reference.resource_claim_template_name or ""
    template = devices.find_template(pod.namespace, name)
    if template is None:
        raise ClaimNotReadyError(f'resourceclaimtemplates.resource.k8s.io "{name}" not found')
    meta = ObjectMeta(name=f"{pod.name}-{reference.name}", namespace=pod.namespace)
    return ResourceClaim(meta, template.spec.spec if template.spec else None)
