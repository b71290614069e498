"""The scores of DynamicResources: nodes whose devices meet earlier alternatives of `firstAvailable` are preferred.

Source: Score, computeScore and NormalizeScore in plugins/dynamicresources/dynamicresources.go, DefaultNormalizeScore in
plugins/helper/normalize_score.go, getDefaultPlugins in apis/config/v1/default_plugins.go, v1.36 and v1.37.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.dynamic_resources import NodeRejection, allocate_on_node
from tallygate.accounting.scheduling.plugins.resource_claims import (
    DevicesOfPod,
    find_devices_of_pod,
    find_hold_reason,
    get_allocation,
    list_requests,
)
from tallygate.objects.devices import ResourceClaim

_WEIGHT: Final = 2
_MAX_SCORE: Final = 100
_NO_DEVICES: Final = -1
_FIRST: Final = 8  # FirstAvailableDeviceRequestMaxSize: the score of the first alternative


def score_devices(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> NDArray[np.int64]:
    """Return the weighted scores of these nodes, which must be feasible for the pod."""
    if not has_alternatives(pod, cluster):
        return np.zeros(len(nodes), dtype=np.int64)
    return normalize_scores(score_alternatives(pod, cluster, nodes))


def score_alternatives(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> NDArray[np.int64]:
    """Return the scores of these nodes before they are normalized; -1 for a node whose devices do not suffice."""
    assert cluster.devices is not None  # noqa: S101  a pod without devices has no alternatives
    of_pod = find_devices_of_pod(pod, cluster, cluster.devices)
    cluster.devices.work.begin_attempt()
    return np.array([_score_node(pod, cluster, node_index, of_pod) for node_index in nodes.tolist()], dtype=np.int64)


def normalize_scores(raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the weighted scores of nodes whose devices suffice: the best of them has the maximal score."""
    return _WEIGHT * (_MAX_SCORE * raw // max(int(raw.max(initial=0)), 1))


def has_alternatives(pod: IncomingPod, cluster: Cluster) -> bool:
    """Return whether the scores of a pod may differ: a claim of it chooses among alternatives."""
    if cluster.devices is None or not pod.spec.resource_claims or find_hold_reason(pod, cluster):
        return False
    claims = find_devices_of_pod(pod, cluster, cluster.devices).to_allocate
    return any(request.first_available for claim in claims for request in list_requests(claim))


def _score_node(pod: IncomingPod, cluster: Cluster, node_index: int, of_pod: DevicesOfPod) -> int:
    """Return the score of one node, from the allocations that the filter makes there."""
    allocations = allocate_on_node(pod, cluster, node_index, of_pod)
    if isinstance(allocations, NodeRejection):
        return _NO_DEVICES
    chosen = iter(allocations)
    score = 0
    for claim in of_pod.claims:
        allocation = get_allocation(claim)
        if allocation is None:
            score += _score_claim(claim, (result.request for result in next(chosen).results))
        else:
            results = (allocation.devices.results if allocation.devices else None) or ()
            score += _score_claim(claim, (result.request for result in results))
    return score


def _score_claim(claim: ResourceClaim, names: Iterable[str]) -> int:
    """Return the sum over the alternatives with devices; `names` are the requests of the allocated devices."""
    allocated = set(names)
    return sum(
        _FIRST - position
        for request in list_requests(claim)
        for position, alternative in enumerate(request.first_available or ())
        if f"{request.name}/{alternative.name}" in allocated
    )
