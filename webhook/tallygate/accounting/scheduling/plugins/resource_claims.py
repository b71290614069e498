"""The claims of a pod for devices, and the classes of devices behind its extended resources.

A pod names claims, or templates from which its own claims are made. It stays out of the queue while one of them is
missing. Source: foreachPodResourceClaim in plugins/dynamicresources/dynamicresources.go, resourceclaim in
dynamic-resource-allocation, v1.36 and v1.37.

A claim that a pod and its PodGroup name alike belongs to the group: one is made from the template for all its pods, and
it is reserved for the group. Source: BindTo in resourceclaim.go of dynamic-resource-allocation, handleClaim and
handlePodGroupClaim in pkg/controller/resourceclaim/controller.go, v1.37.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.cluster.pod_groups import API_GROUP, RESOURCE, find_group_key
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, is_extended
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.errors import TallygateError
from tallygate.objects.core import PodResourceClaim
from tallygate.objects.devices import (
    AllocationResult,
    ClaimConsumer,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.objects.scheduling import PodGroup, PodGroupResourceClaim, PodGroupSpec, PodGroupStatus

MAX_CONSUMERS = 256
"""The number of consumers that may reserve a claim (ResourceClaimReservedForMaxSize in resource/v1/types.go, v1.37).

The scheduler does not count them (CanBeReserved): the API server rejects the reservation of one more.
"""


class ClaimNotReadyError(TallygateError):
    """A claim of a pod that keeps it out of the queue: it is missing, being deleted, or of another pod."""


class DevicesOfPod(NamedTuple):
    """The claims of a pod, and the class of each extended resource that may be allocated as devices.

    `special` is the claim that an earlier attempt has left for extended resources. `of_group` has the names of the
    claims that are those of its PodGroup.
    """

    claims: tuple[ResourceClaim, ...]
    classes: Mapping[str, str]
    special: ResourceClaim | None
    of_group: frozenset[str] = frozenset()

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
    found = [(reference, find_claim(pod, reference, cluster, devices)) for reference in pod.spec.resource_claims or ()]
    claims = tuple(claim for _, claim in found if claim is not None)
    of_group = frozenset(
        (claim.metadata or ObjectMeta()).name or ""
        for reference, claim in found
        if claim is not None and find_group_entry(pod, reference, cluster) is not None
    )
    classes = dict(_find_classes(pod, cluster))
    special = devices.special_claims.get(pod.uid) if classes and pod.uid else None
    return DevicesOfPod(claims, classes, special, of_group)


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


def is_idle_claim(claim: ResourceClaim, uid: str) -> bool:
    """Return whether nothing but this pod or PodGroup has reserved a claim, so that its devices can be freed for it."""
    reserved = list_consumers(claim)
    return not reserved or [consumer.uid for consumer in reserved] == [uid]


def is_reserved_for(claim: ResourceClaim, pod: IncomingPod, cluster: Cluster) -> bool:
    """Return whether a claim is reserved for a pod or its PodGroup already (IsReservedForPod)."""
    key = find_group_key(pod.pod) if cluster.pod_groups.has_claim_gate else None
    return any(
        consumer.uid == pod.uid or (key is not None and is_pod_group(consumer) and consumer.name == key[1])
        for consumer in list_consumers(claim)
    )


def is_pod_group(consumer: ClaimConsumer) -> bool:
    """Return whether a consumer of a claim is a PodGroup."""
    return consumer.api_group == API_GROUP and consumer.resource == RESOURCE


def list_consumers(claim: ResourceClaim) -> Sequence[ClaimConsumer]:
    return (claim.status.reserved_for if claim.status else None) or ()


def _find_classes(pod: IncomingPod, cluster: Cluster) -> Iterator[tuple[str, str]]:
    find_class = cluster.device_classes.find_class
    for name in pod.requests:
        class_name = find_class(name)  # first, since most names have none
        if class_name is not None and (is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)):
            yield name, class_name


def find_group_entry(
    pod: IncomingPod, reference: PodResourceClaim, cluster: Cluster
) -> tuple[PodGroup, PodGroupResourceClaim] | None:
    """Return the PodGroup with which a pod shares a claim, and its entry; None if the claim is that of the pod.

    A PodGroup shares no claims where the feature gate for it is not known to be on.
    """
    groups = cluster.pod_groups
    key = find_group_key(pod.pod) if groups.has_claim_gate else None
    group = groups.find(key) if key is not None else None
    for entry in (group.spec or PodGroupSpec()).resource_claims or () if group is not None else ():
        if group is not None and (entry.name, entry.resource_claim_name, entry.resource_claim_template_name) == (
            reference.name,
            reference.resource_claim_name,
            reference.resource_claim_template_name,
        ):
            return group, entry
    return None


def find_claim(
    pod: IncomingPod, reference: PodResourceClaim, cluster: Cluster, devices: DeviceIndex
) -> ResourceClaim | None:
    """Return the claim that a pod refers to; None if none is needed (foreachPodResourceClaim).

    Raises:
        ClaimNotReadyError: if it is not there, or not the claim of this pod.
    """
    name = reference.resource_claim_name
    is_own = name is None
    if is_own and not pod.uid:
        shared = find_group_entry(pod, reference, cluster)
        if shared is not None:
            claim = find_claim_of_group(*shared, devices)
            return None if claim is None else _check_is_kept(claim)
        template = _find_template(pod.namespace, reference.resource_claim_template_name or "", devices)
        return _make_claim(f"{pod.name}-{reference.name}", pod.namespace, template)
    if is_own:
        statuses = (pod.pod.status.resource_claim_statuses if pod.pod.status else None) or ()
        made = next((status for status in statuses if status.name == reference.name), None)
        if made is None:
            raise ClaimNotReadyError(f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet')
        name = made.resource_claim_name
    if name is None:
        return None
    claim = _check_is_kept(_get_claim(pod.namespace, name, devices))
    if is_own and not _is_owned(claim, pod):
        key = find_group_key(pod.pod)
        is_alone = key is None or not cluster.pod_groups.has_claim_gate
        who = "Pod is not owner" if is_alone or key is None else f"neither Pod nor PodGroup {key[1]} is the owner"
        own = f"Pod {pod.namespace}/{pod.name} ({who})"
        raise ClaimNotReadyError(f"ResourceClaim {pod.namespace}/{name} was not created for {own}")
    return claim


def find_claim_of_group(group: PodGroup, entry: PodGroupResourceClaim, devices: DeviceIndex) -> ResourceClaim | None:
    """Return the claim of an entry of a PodGroup, for one from a template as it will be made; None if none is needed.

    A claim that is to be made has the name that the API server completes, which no stored claim has.

    Raises:
        ClaimNotReadyError: if a claim that the entry names, or its template, is not there.
    """
    meta = group.metadata or ObjectMeta()
    namespace = meta.namespace or "default"
    if entry.resource_claim_name is not None:
        return _get_claim(namespace, entry.resource_claim_name, devices)
    statuses = (group.status or PodGroupStatus()).resource_claim_statuses or ()
    made = next((status for status in statuses if status.name == entry.name), None)
    if made is not None and made.resource_claim_name is None:
        return None
    claim = devices.claims.get((namespace, made.resource_claim_name or "")) if made is not None else None
    if claim is not None and is_owned_by_group(claim, meta.name or ""):
        return claim
    name = f"{(meta.name or '').removesuffix('-')}-{entry.name}-"
    taken = devices.claims.get((namespace, name))
    if taken is not None:
        return taken
    return _make_claim(name, namespace, _find_template(namespace, entry.resource_claim_template_name or "", devices))


def is_owned_by_group(claim: ResourceClaim, group: str) -> bool:
    """Return whether a claim was made for the PodGroup of this name (isForPodGroupByPod)."""
    return any(
        owner.kind == "PodGroup" and owner.name == group and (owner.api_version or "").partition("/")[0] == API_GROUP
        for owner in _list_controllers(claim)
    )


def _is_owned(claim: ResourceClaim, pod: IncomingPod) -> bool:
    """Return whether a claim was made for a pod, or for its PodGroup."""
    key = find_group_key(pod.pod)
    is_of_pod = any(owner.uid == pod.uid for owner in _list_controllers(claim))
    return is_of_pod or (key is not None and is_owned_by_group(claim, key[1]))


def _list_controllers(claim: ResourceClaim) -> list[OwnerReference]:
    return [owner for owner in (claim.metadata or ObjectMeta()).owner_references or () if owner.controller]


def _get_claim(namespace: str, name: str, devices: DeviceIndex) -> ResourceClaim:
    """Return a stored claim.

    Raises:
        ClaimNotReadyError: if it is not there.
    """
    claim = devices.claims.get((namespace, name))
    if claim is None:
        raise ClaimNotReadyError(f'could not find ResourceClaim "{namespace}/{name}"')
    return claim


def _check_is_kept(claim: ResourceClaim) -> ResourceClaim:
    """Return a claim.

    Raises:
        ClaimNotReadyError: if it is being deleted.
    """
    meta = claim.metadata or ObjectMeta()
    if meta.deletion_timestamp is not None:
        raise ClaimNotReadyError(f'resourceclaim "{meta.name}" is being deleted')
    return claim


def _find_template(namespace: str, name: str, devices: DeviceIndex) -> ResourceClaimTemplate:
    """Return a template.

    Raises:
        ClaimNotReadyError: if it is not there.
    """
    template = devices.find_template(namespace, name)
    if template is None:
        raise ClaimNotReadyError(f'resourceclaimtemplates.resource.k8s.io "{name}" not found')
    return template


def _make_claim(name: str, namespace: str, template: ResourceClaimTemplate) -> ResourceClaim:
    """Return the claim that will be made from a template."""
    return ResourceClaim(ObjectMeta(name=name, namespace=namespace), template.spec.spec if template.spec else None)
