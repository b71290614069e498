"""Nodes with enough devices, by columns and by search; copies with claims, beside one attempt after the other."""

from typing import Any

import msgspec
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from e2e.scheduling.draw.case import draw_device_case
from tallygate.accounting.allocation.allocations import Allocation
from tallygate.accounting.allocation.planned_requests import UndecidedAllocationError
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_choice import find_bind_errors
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.plugins.dynamic_resources import (
    NodeRejection,
    allocate_on_node,
)
from tallygate.accounting.scheduling.plugins.resource_claims import (
    ClaimNotReadyError,
    find_devices_of_pod,
)
from tallygate.accounting.scheduling.scoring import score_nodes
from tests.accounting.scheduling.clusters import decode_pod
from tests.accounting.scheduling.product_scheduler import create_full_cluster, place

_COPIES = 4

_numbers = st.integers(0, 1_000_000)


def _draw_cluster(number: int) -> tuple[Cluster, dict[str, Any], IncomingPod]:
    """Return a drawn cluster with devices and its incoming pod, whose claims are there."""
    case = draw_device_case(0, number)
    for each in (*case.pods, case.pod):
        each["spec"].pop("priorityClassName", None)
    cluster = create_full_cluster(case.nodes, case.pods, case.objects)
    pod = IncomingPod.from_pod(decode_pod(case.pod), cluster.priority_classes)
    assume(len(cluster.nodes.get_indices()) > 0)
    return cluster, case.pod, pod


@given(_numbers)
@settings(max_examples=150, deadline=None)
def test_columns_decide_as_the_search_does(number: int) -> None:
    cluster, _, pod = _draw_cluster(number)
    devices = cluster.devices
    assert devices is not None
    try:
        of_pod = find_devices_of_pod(pod, cluster, devices)._replace(classes={})
    except ClaimNotReadyError:
        return
    assume(of_pod.to_allocate)
    columns = devices.get_columns(cluster.version, cluster.device_classes.by_name)
    found = columns.find_nodes(of_pod.to_allocate)
    if found is None:
        return
    for index in cluster.nodes.get_indices().tolist():
        position = columns.positions.get(cluster.nodes.get_name(index))
        if position is None or found.is_decided[position]:
            is_rejected = isinstance(allocate_on_node(pod, cluster, index, of_pod), NodeRejection)
            assert is_rejected == (position is None or not found.has_enough[position])


@given(_numbers)
@example(16347)  # a selector fails on a device of one node, which ends the attempt
@example(28104)
@example(8920)  # a nominated pod is on a node whose devices back a requested resource
@settings(max_examples=60, deadline=None)
def test_copies_take_devices_as_one_attempt_after_the_other_does(number: int) -> None:
    cluster, raw, pod = _draw_cluster(number)
    assume(all("resourceClaimTemplateName" in each for each in raw["spec"].get("resourceClaims", ())))
    try:
        with open_placement_session(cluster) as session:
            placed = place(session, decode_pod(raw), cluster, _COPIES).nodes
        again = _place_by_attempts(cluster, raw, pod)
    except UndecidedAllocationError:
        return
    assert list(placed) == again


def _place_by_attempts(cluster: Cluster, raw: dict[str, Any], pod: IncomingPod) -> list[int]:
    """Return the nodes of copies, each with its claims and the copy itself stored before the next attempt."""
    assert cluster.devices is not None
    nodes: list[int] = []
    for copy in range(_COPIES):
        feasible = run_filters(pod, cluster)
        if feasible.error or not len(feasible.feasible):
            break
        assume(not find_bind_errors(pod, cluster, feasible.feasible))
        scores = score_nodes(pod, cluster, feasible.feasible)
        best = min(feasible.feasible[scores == scores.max()].tolist(), key=cluster.nodes.get_name)
        node = cluster.nodes.get_name(best)
        nodes.append(best)
        of_pod = find_devices_of_pod(pod, cluster, cluster.devices)
        for number, allocation in enumerate(allocate_on_node(pod, cluster, best, of_pod)):
            assert isinstance(allocation, Allocation)
            metadata = {"name": f"claim{number}-of-{copy}", "namespace": pod.namespace}
            status = {"allocation": allocation.to_status()}
            ingest(cluster, "ResourceClaim", msgspec.json.encode({"metadata": metadata, "status": status}))
        metadata = {**raw["metadata"], "name": f"copy{copy}", "uid": f"copy{copy}"}
        stored_pod = {**raw, "metadata": metadata, "spec": {**raw["spec"], "nodeName": node}}
        ingest(cluster, "Pod", msgspec.json.encode(stored_pod))
    return nodes
