"""The devices of pods that a session places on a cluster: allocated as by the scheduler, and freed at the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from tallygate.accounting.allocation.allocations import Allocation
from tallygate.accounting.allocation.planned_requests import AllocationError, UndecidedAllocationError
from tallygate.accounting.allocation.pools import list_devices
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import ClaimKey, DeviceIndex, StoredClaim
from tallygate.accounting.cluster.pod_groups import API_GROUP, RESOURCE, find_group_key
from tallygate.accounting.devices.consumed_capacity import CapacityRequestError
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins import resource_claims
from tallygate.accounting.scheduling.plugins.dynamic_resources import (
    NodeRejection,
    allocate_on_node,
    list_claims_on_node,
)
from tallygate.accounting.scheduling.plugins.special_claim import create_special_claim
from tallygate.objects.devices import ClaimConsumer, ResourceClaim, ResourceClaimStatus
from tallygate.objects.meta import ObjectMeta


def shares_claims(pod: IncomingPod, cluster: Cluster) -> bool:
    """Return whether copies of a pod share a claim without devices: the first copy decides for all."""
    return cluster.devices is not None and any(
        claim.resource_claim_name or resource_claims.find_group_entry(pod, claim, cluster) is not None
        for claim in pod.spec.resource_claims or ()
    )


def may_fail(pod: IncomingPod, cluster: Cluster) -> bool:
    """Return whether a selector of a pod fails on a published device.

    kube-scheduler evaluates a selector only on the devices that it tries, and the failure on one node ends the whole
    attempt: whether it fails depends on the devices that earlier copies have taken, on every node.
    """
    devices = cluster.devices
    if (
        devices is None
        or not resource_claims.needs_devices(pod, cluster)
        or resource_claims.find_hold_reason(pod, cluster)
    ):
        return False
    of_pod = resource_claims.find_devices_of_pod(pod, cluster, devices)
    claims = list(of_pod.to_allocate)
    if of_pod.classes:
        claims.append(create_special_claim(pod.namespace, pod.spec, of_pod.classes))
    columns = devices.get_columns(cluster.version, cluster.device_classes.by_name)
    if columns.find_nodes(claims) is not None:
        return False  # it has evaluated all selectors on all devices
    allocator = devices.get_allocator(cluster.version, cluster.device_classes.by_name)
    try:
        planned = [(claim, each) for claim in claims for group in allocator.plan(claim) for each in group]
        for device in list_devices(allocator.slices.list_slices()):
            for claim, request in planned:
                allocator.suits(claim, request, device)
    except (AllocationError, CapacityRequestError, UndecidedAllocationError):
        return True
    return False


class CopyClaims(NamedTuple):
    """The claims of one copy of a pod on its node, all with devices; a shared one has had them before."""

    node: str
    claims: tuple[ResourceClaim, ...]


class DeviceMark(NamedTuple):
    """A state of `AssumedDevices`: the numbers of copies with devices, of made claims, and of replaced ones."""

    copies: int
    made: int
    replaced: int


class AssumedDevices:
    """The claims that were allocated during a session; for one thread at a time.

    `by_copy` has those of each copy of a pod that needs devices.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.by_copy: list[CopyClaims] = []
        self._cluster = cluster
        self._made: list[ResourceClaim] = []
        self._replaced: list[tuple[ClaimKey, ResourceClaim | StoredClaim]] = []

    def take(self, pod: IncomingPod, node_index: int) -> bool:
        """Allocate the claims of a pod on a node, and return whether its devices suffice; if not, nothing changes."""
        devices, cluster = self._cluster.devices, self._cluster
        if devices is None or not resource_claims.needs_devices(pod, cluster):
            return True
        of_pod = resource_claims.find_devices_of_pod(pod, cluster, devices)
        devices.work.begin_attempt()
        allocations = allocate_on_node(pod, cluster, node_index, of_pod)
        if isinstance(allocations, NodeRejection):
            return False
        claims = list_claims_on_node(pod, cluster, node_index, of_pod)
        put = self._put(pod, devices, zip(claims, allocations, strict=True), of_pod)
        before = [claim for claim in of_pod.claims if resource_claims.get_allocation(claim) is not None]
        for claim in before:
            if not resource_claims.is_reserved_for(claim, pod, cluster):
                self._replace(devices, _reserve(claim, self._create_consumer(pod, claim, of_pod)))
        self.by_copy.append(CopyClaims(cluster.nodes.get_name(node_index), (*before, *put)))
        return True

    def mark(self) -> DeviceMark:
        """Return the present state, to which `return_to` returns."""
        return DeviceMark(len(self.by_copy), len(self._made), len(self._replaced))

    def return_to(self, mark: DeviceMark) -> None:
        """Free the devices again that were taken since a mark."""
        devices = self._cluster.devices
        if devices is not None:
            for key, stored in reversed(self._replaced[mark.replaced :]):
                devices.replace_claim(key, stored)
            for claim in self._made[mark.made :]:
                devices.remove(claim)
        for taken, start in ((self.by_copy, mark.copies), (self._made, mark.made), (self._replaced, mark.replaced)):
            del taken[start:]

    def _put(
        self,
        pod: IncomingPod,
        devices: DeviceIndex,
        allocated: Iterable[tuple[ResourceClaim, Allocation]],
        of_pod: resource_claims.DevicesOfPod,
    ) -> list[ResourceClaim]:
        """Put the claims with their allocations, and return them under their own names.

        A claim that will be made for a PodGroup keeps its name, under which the next pod of the group finds it.
        """
        named = []
        for claim, allocation in allocated:
            meta = claim.metadata or ObjectMeta()
            status = ResourceClaimStatus(allocation.to_status(), [self._create_consumer(pod, claim, of_pod)])
            named.append(ResourceClaim(meta, claim.spec, status))
            if (pod.namespace, meta.name or "") in devices.claims.stored:
                self._replace(devices, named[-1])
                continue
            if meta.name not in of_pod.of_group:
                # no name of a stored claim has a space
                meta = ObjectMeta(name=f"copy {len(self._made)}", namespace=pod.namespace)
            self._made.append(ResourceClaim(meta, claim.spec, status))
            devices.put(self._made[-1])
        return named

    def _replace(self, devices: DeviceIndex, claim: ResourceClaim) -> None:
        meta = claim.metadata or ObjectMeta()
        key = meta.namespace or "", meta.name or ""
        self._replaced.append((key, devices.claims.stored[key]))
        devices.put(claim)

    def _create_consumer(
        self, pod: IncomingPod, claim: ResourceClaim, of_pod: resource_claims.DevicesOfPod
    ) -> ClaimConsumer:
        """Return the consumer of a claim of the next copy of a pod: its PodGroup, or the copy with a UID of its own."""
        key = find_group_key(pod.pod)
        if key is not None and (claim.metadata or ObjectMeta()).name in of_pod.of_group:
            return ClaimConsumer(API_GROUP, RESOURCE, key[1], uid=self._cluster.pod_groups.get_uid(key))
        return ClaimConsumer(resource="pods", name=pod.name, uid=f"copy {len(self.by_copy)}")


def _reserve(claim: ResourceClaim, consumer: ClaimConsumer) -> ResourceClaim:
    status = claim.status or ResourceClaimStatus()
    return replace(claim, status=replace(status, reserved_for=[*resource_claims.list_consumers(claim), consumer]))
