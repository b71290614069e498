"""The choice of a node among the feasible ones, and the nodes on which kube-scheduler then fails to bind a pod.

kube-scheduler chooses any node of the highest score. The scores of preferences are not computed: with them, it may
choose each feasible node. Source: prioritizeNodes, selectHost in pkg/scheduler/schedule_one.go; PreBind, bindClaim in
plugins/dynamicresources/dynamicresources.go, patchPodExtendedResourceClaimStatus in extendeddynamicresources.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins import resource_claims
from tallygate.accounting.scheduling.plugins.node_eligibility import has_avoided_taints
from tallygate.accounting.scheduling.plugins.node_resources_fit import mask_device_backed
from tallygate.accounting.scheduling.plugins.pod_claims import list_claim_refs
from tallygate.accounting.scheduling.plugins.special_claim import create_special_claim
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING, Scoring, score_nodes
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.meta import ObjectMeta

_PRE_BIND: Final = 'running PreBind plugin "DynamicResources":'
_ANYWAY: Final = "ScheduleAnyway"


def find_choices(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, scoring: Scoring = DEFAULT_SCORING
) -> NodeIndices:
    """Return those of the feasible nodes that the scheduler may choose, in the order of their scores, then by name."""
    if len(nodes) <= 1:
        return nodes
    scores = score_nodes(pod, cluster, nodes, scoring)
    if not has_preferences(pod, cluster, nodes):
        is_best = scores == scores.max()
        nodes, scores = nodes[is_best], scores[is_best]
    names = np.array([cluster.nodes.get_name(node_index) for node_index in nodes.tolist()])
    return nodes[np.lexsort((names, -scores))]


def has_preferences(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> bool:
    """Return whether more than resources and devices decides: affinity, spread, soft taints, or claims of volumes."""
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity else None
    return bool(
        (node_affinity is not None and node_affinity.preferred_during_scheduling_ignored_during_execution)
        or (affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None))
        or any(constraint.when_unsatisfiable == _ANYWAY for constraint in pod.spec.topology_spread_constraints or ())
        or has_avoided_taints(pod, cluster, nodes)
        or list_claim_refs(pod)
    )


def find_bind_errors_of_choices(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Mapping[int, str]:
    """Return the error of the binding on each feasible node that the scheduler may choose, empty where it succeeds.

    Return nothing if the binding fails on no feasible node.
    """
    errors = find_bind_errors(pod, cluster, nodes)
    if not errors:
        return {}
    return {index: errors.get(index, "") for index in find_choices(pod, cluster, nodes).tolist()}


def find_bind_errors(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Mapping[int, str]:
    """Return the nodes on which the scheduler fails to bind a pod, with its error; they are feasible otherwise.

    It cannot add a pod to a claim whose allocation has no timestamp, as schedulers before 1.36 write it: it would add
    the timestamp to an allocation that must not change. Nor can it add one to a claim that has the largest number of
    consumers: it counts none, and the API server rejects the reservation. It stores no claim without requests: that of
    a pod with other claims, on a node that has its extended resources itself.
    """
    if (
        cluster.devices is None
        or not resource_claims.needs_devices(pod, cluster)
        or resource_claims.find_hold_reason(pod, cluster)
    ):
        return {}
    of_pod = resource_claims.find_devices_of_pod(pod, cluster, cluster.devices)
    claims, classes = of_pod.claims, of_pod.classes
    for claim in claims:
        is_reserved = resource_claims.is_reserved_for(claim, pod, cluster)
        problems = () if is_reserved else tuple(_list_reservation_problems(claim))
        if problems:
            return dict.fromkeys(nodes.tolist(), _format_rejection(claim, problems))
    if not classes:
        return {}
    problem = f"no update of pod {pod.namespace}/{pod.name} ExtendedResourceClaimStatus"
    error = f"{_PRE_BIND} nil or empty request mappings, {problem}"
    has_special, has_requests = np.full(len(nodes), bool(claims)), np.zeros(len(nodes), dtype=np.bool_)
    for resource, class_name in classes.items():
        is_backed = mask_device_backed(cluster, nodes, resource)
        has_special |= is_backed
        if resource_claims.list_requests(create_special_claim(pod.namespace, pod.spec, {resource: class_name})):
            has_requests |= is_backed
    return dict.fromkeys(nodes[has_special & ~has_requests].tolist(), error)


def _list_reservation_problems(claim: ResourceClaim) -> Iterator[str]:
    """Yield the errors of the API server for one more consumer (validateResourceClaimStatusUpdate)."""
    count, allocation = len(resource_claims.list_consumers(claim)) + 1, resource_claims.get_allocation(claim)
    if count > resource_claims.MAX_CONSUMERS:
        yield f"status.reservedFor: Too many: {count}: must have at most {resource_claims.MAX_CONSUMERS} items"
    if allocation is not None and not allocation.allocation_timestamp:
        yield "status.allocation: Invalid value: null: field cannot be modified once set"


def _format_rejection(claim: ResourceClaim, problems: Sequence[str]) -> str:
    """Return the error of the scheduler for a reservation that the API server rejects (Status in apimachinery)."""
    meta = claim.metadata or ObjectMeta()
    invalid = f'ResourceClaim.resource.k8s.io "{meta.name}" is invalid'
    listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return f"{_PRE_BIND} add reservation to claim {meta.namespace}/{meta.name}: {invalid}: {listed}"
