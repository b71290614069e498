"""All nodes and all caps of a cluster at once, as admins see them."""

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.cap_overview import MAX_EXPLAINED, convert_caps, describe_caps
from tallygate.answers.node_overview import MAX_HOLDERS, AskNodes, NodeRecord, describe_nodes
from tallygate.answers.usage_report import SortKey, UsageLine, arrange_lines
from tests.accounting.scheduling.clusters import node
from tests.answers.asked_clusters import ALL_NAMES, NO_NAMES, NOW, Object, build_state, read_policies
from tests.answers.test_answer_json import CLUSTER, MARK, create_stored_pod

GPU = "nvidia.com/gpu"
_SHAPE = """
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: large}
spec: {most: 3, allocatable: {cpu: 8, nvidia.com/gpu: 8}}
"""
_CAPS = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: ["*"]}, hard: {nvidia.com/gpu: 4}, soft: {nvidia.com/gpu: 2}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: licences}
spec: {namespaces: {include: ["*"]}, hard: {example.com/licence: 5}}
"""


def see_nodes(cluster: Sequence[Object], visible: VisibleNames = ALL_NAMES, policies: str = _SHAPE) -> AskNodes:
    """Return the nodes of a cluster."""
    return describe_nodes(build_state(cluster), read_policies(policies), NOW, visible)


def find_node(nodes: AskNodes, name: str) -> NodeRecord:
    """Return a node by its name."""
    return next(each for each in nodes.nodes if each.node == name)


def create_node(name: str, gpus: str, capacity: str = "", **spec: Any) -> Object:
    """Return a node; its devices beyond `gpus` are unhealthy."""
    made = node(name, cpu="8", memory="64Gi", **{"nvidia.com_gpu": gpus})
    made["status"]["capacity"] = {**made["status"]["allocatable"], GPU: capacity or gpus}
    return {**made, "kind": "Node", "spec": spec}


def see_caps(cluster: Sequence[Object], policies: str = _CAPS, most_lines: int | None = None) -> dict[str, Any]:
    """Return the caps of a cluster as JSON."""
    state = build_state(cluster)
    overview = describe_caps(state, state.index_caps(read_policies(policies), NOW))
    content: dict[str, Any] = json.loads(json.dumps(convert_caps(overview, NOW, most_lines)))
    return content


def test_a_node_shows_that_it_is_cordoned_its_taints_and_its_unhealthy_devices() -> None:
    taint = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
    nodes = see_nodes([create_node("a", "3", "4", unschedulable=True, taints=[taint]), create_node("b", "4")])
    first = find_node(nodes, "a")
    assert (first.unschedulable, first.taints) == (True, ["gpu=only:NoSchedule"])
    assert (first.amounts[0].resource, first.amounts[0].allocatable, first.amounts[0].unhealthy) == (GPU, 3, 1)
    assert not find_node(nodes, "b").unschedulable


def test_the_pods_that_use_most_have_names_and_the_others_are_counted() -> None:
    pods = [create_stored_pod(f"p{number}", "team-a", "a", {GPU: str(number)}) for number in range(1, 14)]
    (amount, *_) = find_node(see_nodes([create_node("a", "100"), *pods]), "a").amounts
    assert [pod.amount for pod in amount.pods] == list(range(13, 13 - MAX_HOLDERS, -1))
    assert (amount.hidden_pods, amount.used, amount.free) == (3, 91, 9)


def test_a_shape_that_may_come_has_its_amounts() -> None:
    (shape,) = see_nodes([create_node("a", "1")]).shapes
    assert (shape.shape, shape.most, shape.found) == ("large", 3, False)
    assert shape.amounts == {"cpu": 8000, GPU: 8, "pods": 110}


def test_no_name_of_a_pod_or_claim_is_there_for_someone_who_may_not_list_pods() -> None:
    assert MARK in msgspec.json.encode(see_nodes(CLUSTER)).decode()
    assert MARK not in msgspec.json.encode(see_nodes(CLUSTER, NO_NAMES)).decode()


def test_devices_are_unknown_without_slices() -> None:
    assert see_nodes([create_node("a", "1")]).pools is None
    assert see_nodes(CLUSTER).pools


def test_the_record_of_nodes_is_read_back_from_its_json() -> None:
    content = msgspec.json.encode(see_nodes(CLUSTER))
    assert msgspec.json.encode(msgspec.json.decode(content, type=AskNodes)) == content


def test_the_line_with_the_least_free_share_is_first_with_its_workloads() -> None:
    pod = create_stored_pod("run-x7", "full", "a", {GPU: "3"})
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "run", "uid": "u", "controller": True}]
    namespaces: list[Object] = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("empty", "full")]
    content = see_caps([create_node("a", "4"), *namespaces, pod])
    first = content["items"][0]
    assert (first["cap"], first["namespace"], first["free"], first["exceeded"]) == ("gpus", "full", 1, "soft")
    assert [(each["name"], each["amount"]) for each in first["consumers"]] == [("Job run", 3)]


def test_a_resource_without_nodes_has_no_capacity() -> None:
    totals = see_caps([create_node("a", "4"), {"kind": "Namespace", "metadata": {"name": "team-a"}}])["totals"]
    capacities = {total["resource"]: (total["hard"], total["capacity"]) for total in totals}
    assert capacities == {GPU: (4, 4), "example.com/licence": (5, None)}


def test_the_consumers_of_the_fullest_ledgers_alone_are_named() -> None:
    namespaces: list[Object] = [{"kind": "Namespace", "metadata": {"name": f"n{number}"}} for number in range(200)]
    pods = [create_stored_pod(f"p{number}", f"n{number}", "a", {GPU: "1"}) for number in range(200)]
    content = see_caps([create_node("a", "400"), *namespaces, *pods])
    assert sum(item["consumers"] is not None for item in content["items"]) == MAX_EXPLAINED
    assert len(content["items"]) == content["itemCount"] == 400


def test_the_first_lines_are_those_of_all_lines_and_all_are_counted() -> None:
    namespaces: list[Object] = [{"kind": "Namespace", "metadata": {"name": f"n{number}"}} for number in range(3)]
    cluster = [create_node("a", "4"), *namespaces, create_stored_pod("p", "n1", "a", {GPU: "1"})]
    whole, first = see_caps(cluster), see_caps(cluster, most_lines=2)
    assert (len(whole["items"]), first["items"], first["itemCount"]) == (6, whole["items"][:2], 6)
    assert first["totals"] == whole["totals"]


_AMOUNTS = st.one_of(st.integers(0, 5), st.integers(0, (1 << 73) - 1))


@given(st.lists(st.tuples(_AMOUNTS, _AMOUNTS), max_size=20))
def test_lines_are_in_the_order_of_the_charged_fractions(amounts: list[tuple[int, int]]) -> None:
    lines = [
        UsageLine(cap="c", namespace=f"n{number}", members=1, name=GPU, hard=hard, soft=None, used=used, reserved=None)
        for number, (hard, used) in enumerate(amounts)
    ]
    by_fraction = sorted(lines, key=lambda line: _read_fraction(line.hard or 0, line.used or 0), reverse=True)
    assert arrange_lines(lines, SortKey.UTILIZATION, None) == by_fraction


def _read_fraction(hard: int, used: int) -> tuple[bool, Fraction]:
    """Return the charged part of a hard limit, after whether it is more than any."""
    return (False, Fraction(used, hard)) if hard else (used > 0, Fraction(used))


@pytest.mark.parametrize("cluster", [[create_node("a", "4")], []])
def test_claims_are_unknown_without_their_list(cluster: list[Object]) -> None:
    assert see_caps(cluster)["idleClaims"] is None


def test_the_amounts_of_pods_without_a_node_are_summed() -> None:
    waits = create_stored_pod("waits", "team-a", "", {GPU: "2"})
    ended = create_stored_pod("ended", "team-a", "", {GPU: "2"}) | {"status": {"phase": "Failed"}}
    runs = create_stored_pod("runs", "team-a", "a", {GPU: "1"})
    namespace = {"kind": "Namespace", "metadata": {"name": "team-a"}}
    content = see_caps([create_node("a", "4"), namespace, waits, ended, runs])
    waiting = {item["resource"]: (item["used"], item["waiting"]) for item in content["items"]}
    assert waiting == {GPU: (3, 2), "example.com/licence": (0, 0)}


def test_a_limit_is_exceeded_since_the_present_pods_exceed_it() -> None:
    pods = [create_stored_pod(f"p{hour}", "team-a", "a", {GPU: "1"}) for hour in range(3)]
    for hour, pod in enumerate(pods):
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T0{3 - hour}:00:00Z"
    namespace = {"kind": "Namespace", "metadata": {"name": "team-a"}}
    times = {item["resource"]: item["exceededSince"] for item in see_caps([namespace, *pods])["items"]}
    assert times == {GPU: "2026-01-01T03:00:00Z", "example.com/licence": None}
