"""Predictions as plain data, for `-o json` and `-o yaml`. Amounts are milli-cpu for cpu and whole units otherwise."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from tallygate.accounting.amounts import is_milli
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.accounting.scheduling.assumed_devices import CopyClaims
from tallygate.accounting.scheduling.device_shortfalls import DeviceShortfall, PoolShortfall
from tallygate.accounting.scheduling.evictions import EvictionOption
from tallygate.accounting.scheduling.node_diagnosis import NodeConsumer, NodeDiagnosis, ScatteredAmount
from tallygate.accounting.scheduling.plugins.resource_claims import get_allocation
from tallygate.accounting.scheduling.plugins.special_claim import NAME_IN_MEMORY
from tallygate.accounting.scheduling.released_claims import ReleasedClaim
from tallygate.accounting.scheduling.remaining_capacity import RemainingCapacity
from tallygate.answers.columns import Column, Columns
from tallygate.answers.new_node_lines import FITS, convert_new_node_capacities
from tallygate.answers.node_lines import NODES, holder_to_dict, shortfall_to_dict
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.prediction_details import PredictionDetails
from tallygate.answers.review_pods import Rejection
from tallygate.objects.meta import ObjectMeta

COPIES = Columns[tuple[str, int]](Column("NODE", "node", itemgetter(0)), Column("COPIES", "copies", itemgetter(1)))
"""The number of copies on each node."""


def convert_predictions(predictions: Iterable[PredictionDetails], cluster: Cluster) -> Iterator[dict[str, Any]]:
    """Yield every prediction, in order."""
    return (_prediction_to_dict(prediction) | _version_to_dict(cluster) for prediction in predictions)


def convert_capacities(
    capacities: Iterable[tuple[PodsToPlace, RemainingCapacity]], cluster: Cluster
) -> Iterator[dict[str, Any]]:
    """Yield the remaining capacity for each object."""
    return (_capacity_to_dict(pods, capacity) | _version_to_dict(cluster) for pods, capacity in capacities)


def _version_to_dict(cluster: Cluster) -> dict[str, Any]:
    """Return the version whose rules apply, and the version that the cluster reports."""
    return {"scheduler": {"rules": str(cluster.version), "cluster": cluster.git_version}}


def _capacity_to_dict(pods: PodsToPlace, capacity: RemainingCapacity) -> dict[str, Any]:
    return {
        "object": pods.subject.to_dict(),
        "copies": capacity.total,
        "nodes": list(map(COPIES.to_dict, capacity.copies_by_node.items())),
        "message": capacity.message,
        "limits": [{"reason": reason, "nodes": nodes} for reason, nodes in capacity.limiting_reasons.items()],
        "unknown": list(capacity.unmodelled),
        "newNodes": convert_new_node_capacities(capacity.new_nodes),
        "unhealthy": [devices.to_dict() for devices in capacity.unhealthy],
    }


def _prediction_to_dict(details: PredictionDetails) -> dict[str, Any]:
    prediction, result = details.prediction, details.prediction.next_result
    content = {
        "object": details.pods.subject.to_dict(),
        "verdict": details.feasibility.value,
        "copies": details.count,
        "placed": prediction.placed_count,
        "of": details.pods.noun,
        "rejected": _rejection_to_dict(details.rejection),
        "on": list(map(COPIES.to_dict, details.copies_by_node.items())),
        "devices": list(_list_devices(details.claims_by_copy)),
        "feasibleNodes": details.feasible_count,
        "message": result.message if result else None,
        "holdReason": (result.hold_reason or None) if result else None,
        "bindErrors": [{"node": name, "message": error} for name, error in prediction.bind_errors.items()],
        "nominated": list(result.nominated_nodes) if result else [],
        "preempts": _eviction_to_dict(details.preemption) if details.preemption else None,
        "largest": [_amount_to_dict(name, amount) for name, amount in prediction.largest_amounts.items()],
        "suggestions": [{"resource": name, "suggestion": known} for name, known in details.suggestions.items()],
        "scattered": [_amount_in_parts_to_dict(amount) for amount in details.scattered],
        "unhealthy": [devices.to_dict() for devices in details.unhealthy],
        "unknown": list(prediction.unmodelled),
        "closestNodes": [_diagnosis_to_dict(node) for node in details.closest_nodes],
        "evictions": [
            _eviction_to_dict(eviction) | {"claims": [_claim_to_dict(claim) for claim in eviction.claims]}
            for eviction in details.evictions
        ],
        "remedies": [
            {"change": remedy.change, "nodes": list(remedy.nodes), "changes": remedy.cost.name.lower()}
            for remedy in details.remedies
        ],
        "newNodes": list(map(FITS.to_dict, details.new_nodes)),
        "onePerNode": details.pods.count is None,
        "gates": [gate.name for gate in (details.pods.pod.spec and details.pods.pod.spec.scheduling_gates) or ()],
    }
    return content | (
        {"nodes": [_diagnosis_to_dict(line.diagnosis) | NODES.to_dict(line) for line in details.node_lines]}
        if details.node_lines
        else {}
    )


def _rejection_to_dict(rejection: Rejection | None) -> dict[str, Any] | None:
    """Return the number of the rejected pods, null if all are, and the reasons."""
    if rejection is None:
        return None
    reasons = [
        {"code": finding.code, "message": finding.message, "field": finding.field, "reporter": finding.reporter}
        for finding in rejection.findings
    ]
    return {"pods": rejection.count, "reasons": reasons, "happened": rejection.has_happened}


def _list_devices(claims_by_copy: Sequence[CopyClaims]) -> Iterator[dict[str, Any]]:
    """Yield the devices of each placed copy, which are numbered from 1."""
    for number, copy in enumerate(claims_by_copy, 1):
        for claim in copy.claims:
            meta = claim.metadata or ObjectMeta()
            name = None if meta.name == NAME_IN_MEMORY else f"{meta.namespace}/{meta.name}"
            allocation = get_allocation(claim)
            for result in (allocation.devices.results if allocation and allocation.devices else None) or ():
                yield {
                    "copy": number,
                    "node": copy.node,
                    "claim": name,
                    "request": result.request,
                    "pool": f"{result.driver}/{result.pool}",
                    "device": result.device,
                }


def _diagnosis_to_dict(diagnosis: NodeDiagnosis) -> dict[str, Any]:
    return {
        "node": diagnosis.name,
        "fits": not diagnosis.reasons,
        "ever": diagnosis.can_ever_run,
        "reasons": list(diagnosis.reasons),
        "shortfalls": [shortfall_to_dict(shortfall) for shortfall in diagnosis.shortfalls],
        "consumers": [_consumer_to_dict(consumer) for consumer in diagnosis.consumers],
        "deviceShortfalls": [_device_shortfall_to_dict(shortfall) for shortfall in diagnosis.device_shortfalls],
    }


def _device_shortfall_to_dict(shortfall: DeviceShortfall) -> dict[str, Any]:
    return {
        "claim": shortfall.claim or None,
        "resource": shortfall.resource or None,
        "container": shortfall.container or None,
        "request": shortfall.request,
        "class": shortfall.class_name,
        "requests": "all" if shortfall.requested is None else shortfall.requested,
        "missing": shortfall.missing,
        "pools": [_pool_shortfall_to_dict(pool) for pool in shortfall.pools],
        "causes": list(shortfall.causes),
    }


def _pool_shortfall_to_dict(pool: PoolShortfall) -> dict[str, Any]:
    return {
        "pool": pool.pool,
        "problem": pool.problem or None,
        "devices": pool.devices,
        "free": pool.free,
        "allocated": [holder_to_dict(holder) | {"devices": count} for holder, count in pool.in_use.items()],
        "unsuitable": [{"reason": reason, "devices": count} for reason, count in pool.mismatches.items()],
    }


def _amount_in_parts_to_dict(scattered: ScatteredAmount) -> dict[str, Any]:
    return {
        "resource": scattered.resource,
        "unit": "milli" if is_milli(scattered.resource) else "whole",
        "requests": scattered.requested,
        "free": scattered.free,
        "most": scattered.most,
        "restricted": scattered.is_restricted,
    }


def _consumer_to_dict(consumer: NodeConsumer) -> dict[str, Any]:
    return _pod_to_dict(consumer.pod) | {"used": _amounts_to_list(consumer.amounts)}


def _eviction_to_dict(eviction: EvictionOption) -> dict[str, Any]:
    return {"node": eviction.node, "pods": _pods_to_list(eviction.pods)}


def _claim_to_dict(claim: ReleasedClaim) -> dict[str, Any]:
    return {
        "claim": claim.claim,
        "devices": [{"pool": pool, "devices": count} for pool, count in claim.devices.items()],
    }


def _pods_to_list(pods: Sequence[PodInfo]) -> list[dict[str, Any]]:
    return [_pod_to_dict(pod) for pod in pods]


def _pod_to_dict(pod: PodInfo) -> dict[str, Any]:
    return {"namespace": pod.namespace, "name": pod.name, "priority": pod.group.priority}


def _amounts_to_list(amounts: Mapping[str, int]) -> list[dict[str, Any]]:
    return [_amount_to_dict(name, amount) for name, amount in amounts.items()]


def _amount_to_dict(name: str, amount: int) -> dict[str, Any]:
    return {"resource": name, "unit": "milli" if is_milli(name) else "whole", "amount": amount}
