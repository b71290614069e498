"""The release of the claims of a PodGroup for which kube-scheduler has found no placement.

A claim that an earlier cycle has reserved for the group is given back, which ends the attempt: preemption is not tried
then. A missing claim is an error of the attempt. So is a claim of several pods that none uses: kube-scheduler
deallocates it for each of them, for the second one in a version that has changed.

Source: PodGroupPostFilter, deallocateOrDeletePodClaims and deallocatePodGroupClaims in
plugins/dynamicresources/dynamicresources.go, v1.37.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.diagnosis import Diagnosis
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.dynamic_resources import describe_post_filter, find_idle_claim
from tallygate.accounting.scheduling.plugins.resource_claims import (
    ClaimNotReadyError,
    find_claim_of_group,
    get_allocation,
    is_owned_by_group,
    is_reserved_for,
)
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PodGroup, PodGroupSpec

_COMPLETED = "deallocation and deletion of ResourceClaims completed"
_DEALLOCATED = "deallocation of PodGroup ResourceClaim completed"
_UNRESERVED = "ResourceClaim unreserved for PodGroup"
_CONFLICT = (
    'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "{}": the object has been modified; '
    "please apply your changes to the latest version and try again"
)
_ERROR = 'error in "DynamicResources" PodGroupPostFilter plugins: '


class TriedClaims(NamedTuple):
    """The claims that a pod which was tried leaves to release: its own, and whether one of the group is idle.

    `idle` is the name of a claim that no other pod uses, so that kube-scheduler deallocates it; empty without one.
    """

    has_own: bool
    has_of_group: bool
    idle: str = ""


class ClaimRelease(NamedTuple):
    """The text about the claims: one that `is_final` ends the attempt, and an `error` is that of each pod."""

    text: str = _COMPLETED
    is_final: bool = False
    error: str = ""


def inspect_claims(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, group_uid: str) -> TriedClaims:
    """Return what a pod leaves to release, as long as the devices of the earlier pods are taken."""
    has_own = describe_post_filter(pod, cluster, diagnosis).startswith(("deallocation", "deletion"))
    has_of_group = bool(find_idle_claim(pod, cluster, diagnosis, group_uid))
    return TriedClaims(has_own, has_of_group, find_idle_claim(pod, cluster, diagnosis, pod.uid))


def release_claims(
    group: PodGroup, first: IncomingPod, tried: Sequence[TriedClaims], cluster: Cluster, *, has_placed: bool
) -> ClaimRelease:
    """Return the release of the claims of a group; `first` is its first pod, `has_placed` if others have nodes."""
    idle = [each.idle for each in tried if each.idle]
    if twice := next((name for name in idle if idle.count(name) > 1), ""):
        return ClaimRelease(error=f"{_ERROR}{_CONFLICT.format(twice)}")
    if has_placed or not cluster.pod_groups.has_claim_gate or all(each.has_own for each in tried):
        return ClaimRelease()
    if any(each.has_of_group for each in tried):
        return ClaimRelease(_DEALLOCATED)
    name = (group.metadata or ObjectMeta()).name or ""
    for entry in (group.spec or PodGroupSpec()).resource_claims or () if cluster.devices is not None else ():
        try:
            claim = find_claim_of_group(group, entry, cluster.devices) if cluster.devices is not None else None
        except ClaimNotReadyError as error:
            return ClaimRelease(error=f"{_ERROR}{error}")
        is_other = claim is None or (entry.resource_claim_name is None and not is_owned_by_group(claim, name))
        if claim is None or is_other or get_allocation(claim) is None:
            continue
        if is_reserved_for(claim, first, cluster):
            return ClaimRelease(_UNRESERVED, is_final=True)
    return ClaimRelease()
