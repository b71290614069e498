"""New nodes of shapes: the filters agree with those of a real node, and copies with nodes that are added one by one."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.node_shape import KnownSize, NodeShape
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.new_nodes import (
    NewNodeFit,
    find_fitting,
    find_new_node_capacities,
    find_new_node_fits,
    select_shapes,
)
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.prediction import find_unresolvable_nodes
from tallygate.objects.scheduling import Taint
from tests.accounting.scheduling import inter_pod_generators as draws
from tests.accounting.scheduling.clusters import create_cluster, decode_node, decode_pod, node, pod
from tests.effort import examples

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
REAL = "real"


def create_shape(name: str = "s", most: int | None = None, labels: Json | None = None, **allocatable: str) -> NodeShape:
    """Return a shape without taints."""
    amounts = {each: msgspec.Raw(msgspec.json.encode(text)) for each, text in allocatable.items()}
    return NodeShape(name, labels or {}, amounts, most=most)


def incoming(**written: Any) -> IncomingPod:
    """Return a pod that waits for a node."""
    return IncomingPod.from_pod(decode_pod(pod("new", **written)))


def _find_fit(pod_: IncomingPod, cluster: Cluster, shape: NodeShape, count: int = 1) -> NewNodeFit:
    (fit,) = find_new_node_fits(pod_, cluster, [shape], count)
    return fit


WITH_GPU = NodeShape("g", {}, {"cpu": msgspec.Raw(b'"8"'), GPU: msgspec.Raw(b'"1"')})
AWAY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}
SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [(1, None, (1, 1)), (4, None, (4, 1)), (5, None, (5, 2)), (9, 2, (8, 2)), (9, 3, (9, 3))],
)
def test_copies_fill_new_nodes_one_after_the_other(count: int, most: int | None, expected: tuple[int, int]) -> None:
    fit = _find_fit(incoming(requests={"cpu": "2"}), create_cluster([]), create_shape(cpu="8", most=most), count)
    assert (fit.copies, fit.node_count) == expected


@pytest.mark.parametrize(("most", "expected"), [(None, (3, 3)), (2, (2, 2))])
def test_copies_that_exclude_each_other_need_a_node_each(most: int | None, expected: tuple[int, int]) -> None:
    cluster = create_cluster([])
    fit = _find_fit(incoming(labels={"app": "a"}, affinity=AWAY), cluster, create_shape(most=most), 3)
    assert (fit.copies, fit.node_count) == expected
    assert (len(cluster), len(cluster.nodes)) == (0, 0)


def test_a_node_in_another_zone_makes_room_on_existing_nodes() -> None:
    east = {"metadata": {"name": "a", "labels": {"zone": "east"}}, "status": {"allocatable": {"pods": "10"}}}
    cluster = create_cluster([east], [pod("old", on="a")])
    spread = incoming(topologySpreadConstraints=SPREAD)
    assert _find_fit(spread, cluster, create_shape(labels={"zone": "west"}), 2).copies == 2


def test_new_nodes_are_tried_up_to_a_limit() -> None:
    fit = _find_fit(incoming(labels={"app": "a"}, affinity=AWAY), create_cluster([]), create_shape(), 120)
    assert (fit.copies, fit.node_count, fit.is_cut) == (100, 100, True)


@pytest.mark.parametrize(
    ("written", "reasons"),
    [
        ({"requests": {"cpu": "9", GPU: "1"}}, ("Insufficient cpu", f"Insufficient {GPU}")),
        ({"nodeSelector": {"disk": "ssd"}}, ("node(s) didn't match Pod's node affinity/selector",)),
        ({"nodeName": "a"}, ("node(s) didn't match the requested node name",)),
        (
            {"nodeSelector": {"kubernetes.io/hostname": "a"}},
            ("node(s) didn't match Pod's node affinity/selector",),
        ),
    ],
)
def test_a_shape_that_does_not_fit_has_the_reasons_of_the_scheduler(written: Json, reasons: tuple[str, ...]) -> None:
    fit = _find_fit(incoming(**written), create_cluster([node("a")]), create_shape(cpu="8"))
    assert (fit.copies, fit.reasons, fit.unknown) == (0, reasons, "")


def test_a_shape_has_the_pods_of_a_kubelet_by_default() -> None:
    small = incoming(requests={"cpu": "1m"})
    shapes = [create_shape(cpu="8"), create_shape(cpu="8", pods="3")]
    assert [each.copies for each in find_new_node_capacities(small, create_cluster([]), shapes)] == [110, 3]


def test_taints_of_a_shape_are_to_be_tolerated() -> None:
    tainted = NodeShape("t", {}, {}, [Taint("gpu", effect="NoSchedule")])
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    cluster = create_cluster([])
    assert find_fitting(incoming(), cluster, tainted) is None
    assert find_fitting(incoming(tolerations=tolerations), cluster, tainted) is tainted


def _add_class(cluster: Cluster) -> Cluster:
    device_class = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}}
    ingest(cluster, "DeviceClass", msgspec.json.encode(device_class))
    return cluster


@pytest.mark.parametrize(
    ("written", "shape", "is_possible", "is_unknown"),
    [
        ({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}, create_shape(cpu="8"), True, True),
        (
            {"requests": {"cpu": "9"}, "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]},
            create_shape(cpu="8"),
            False,
            False,
        ),
        ({"requests": {GPU: "1"}}, create_shape(cpu="8"), True, True),
        ({"requests": {GPU: "1"}}, WITH_GPU, True, False),
        ({"requests": {GPU: "2"}}, WITH_GPU, False, False),
    ],
)
def test_a_pod_that_needs_devices_is_unknown_on_a_shape(
    written: Json, shape: NodeShape, *, is_possible: bool, is_unknown: bool
) -> None:
    cluster, pod_ = _add_class(create_cluster([])), incoming(**written)
    assert bool(select_shapes(pod_, cluster, [shape])) is is_possible
    assert bool(_find_fit(pod_, cluster, shape).unknown) is is_unknown
    assert (find_fitting(pod_, cluster, shape) is shape) is (is_possible and not is_unknown)
    (capacity,) = find_new_node_capacities(pod_, cluster, [shape])
    assert (bool(capacity.unknown), capacity.copies) == (is_unknown, int(is_possible and not is_unknown))


@st.composite
def _requests(draw: st.DrawFn) -> Json:
    amounts = draw(st.dictionaries(st.sampled_from(["cpu", GPU]), st.integers(0, 5).map(str), max_size=2))
    return draw(draws.incoming_pods()) | {"requests": amounts}


def _add_requests(drawn: Json) -> Json:
    containers = [{"name": "c", "resources": {"requests": drawn["requests"]}}]
    return drawn | {"spec": drawn["spec"] | {"containers": containers}}


_POD = _requests().map(_add_requests)
_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", GPU, "pods"]), st.integers(0, 5).map(str))


def _create_namespaced(nodes: Sequence[Json], pods: Sequence[Json], namespaces: Json) -> Cluster:
    cluster = create_cluster(nodes, pods)
    for each in draws.namespace_objects(namespaces):
        ingest(cluster, "Namespace", msgspec.json.encode(each))
    return cluster


def _create_shape_of(written: Json) -> NodeShape:
    """Return the shape that a real node has."""
    real = decode_node(written)
    assert real.metadata
    assert real.spec
    assert real.status
    return NodeShape("s", real.metadata.labels or {}, real.status.allocatable or {}, real.spec.taints or [])


def _rename(written: Json) -> Json:
    labels = {"kubernetes.io/hostname": REAL} | written["metadata"]["labels"]
    return written | {"metadata": {"name": REAL, "labels": labels}}


@given(
    draws.nodes(),
    st.lists(draws.pods_on_nodes(st.sampled_from(draws.NODES)), max_size=8),
    draws.namespaces,
    _POD,
    st.dictionaries(
        st.sampled_from(["zone", "rack", "pool"]), st.sets(st.sampled_from("ab12xy"), min_size=1, max_size=3)
    ),
)
@settings(max_examples=examples(300), deadline=None)
def test_a_pod_that_names_labels_is_judged_as_by_a_real_node_with_some_choice(
    nodes: list[Json], pods: list[Json], namespaces: Json, new_pod: Json, choices: dict[str, set[str]]
) -> None:
    for number, each in enumerate(pods):
        each["metadata"]["uid"] = f"u{number}"
    first = nodes[0] | {"status": {"allocatable": {"pods": "110", "cpu": "8", GPU: "8"}}}
    kept = {key: value for key, value in first["metadata"]["labels"].items() if key not in choices}
    first["metadata"] = first["metadata"] | {"labels": kept}
    values = {key: tuple(sorted(found)) for key, found in sorted(choices.items())}
    sizes = [KnownSize(dict(zip(values, each, strict=True)), {}, None) for each in product(*values.values())]
    shape = _create_shape_of(first)
    sizes = [each._replace(allocatable=shape.allocatable) for each in sizes]
    shape = replace(shape, choices=values, open_labels=frozenset(values), sizes=sizes)
    cluster = _create_namespaced(nodes[1:], pods, namespaces)
    pod_ = IncomingPod.from_pod(decode_pod(new_pod))
    fits = []
    for combination in product(*values.values()):
        labels = {**kept, **dict(zip(values, combination, strict=True))}
        real = _rename(first | {"metadata": first["metadata"] | {"labels": labels}})
        with_real_node = _create_namespaced([*nodes[1:], real], pods, namespaces)
        index = with_real_node.nodes.find_index(REAL)
        fits.append(index in run_filters(pod_, with_real_node).feasible.tolist())
    (fit,) = find_new_node_fits(pod_, cluster, [shape], 1)
    assert fit.unknown == ""
    assert bool(fit.copies) is any(fits)
    assert not any(fits) or select_shapes(pod_, cluster, [shape])


@given(
    draws.nodes(),
    st.lists(draws.pods_on_nodes(st.sampled_from(draws.NODES)), max_size=8),
    draws.namespaces,
    _POD,
    _AMOUNTS,
)
@settings(max_examples=examples(400), deadline=None)
def test_a_new_node_is_judged_as_a_real_node(
    nodes: list[Json], pods: list[Json], namespaces: Json, new_pod: Json, amounts: Json
) -> None:
    for number, each in enumerate(pods):
        each["metadata"]["uid"] = f"u{number}"
    first = nodes[0] | {"status": {"allocatable": {"pods": "110"} | amounts}}
    cluster = _create_namespaced(nodes[1:], pods, namespaces)
    with_real_node = _create_namespaced([*nodes[1:], _rename(first)], pods, namespaces)
    pod_, shape = IncomingPod.from_pod(decode_pod(new_pod)), _create_shape_of(first)
    before = run_filters(pod_, cluster).count_reasons()
    real_index = with_real_node.nodes.find_index(REAL)
    diagnosis = run_filters(pod_, with_real_node)
    assert (find_fitting(pod_, cluster, shape) is shape) is (real_index in diagnosis.feasible.tolist())
    is_excluded = real_index in find_unresolvable_nodes(pod_, with_real_node, diagnosis.nodes)
    assert bool(select_shapes(pod_, cluster, [shape])) is not is_excluded
    assert run_filters(pod_, cluster).count_reasons() == before, "the cluster is unchanged"
    assert len(cluster.nodes) == len(nodes) - 1


@given(draws.nodes(), _POD, st.integers(1, 8), st.integers(1, 4))
@settings(max_examples=examples(200), deadline=None)
def test_copies_are_those_of_nodes_that_are_added_when_no_node_has_room(
    nodes: list[Json], new_pod: Json, count: int, most: int
) -> None:
    pod_, cluster = IncomingPod.from_pod(decode_pod(new_pod)), create_cluster(nodes[1:])
    shape = msgspec.structs.replace(_create_shape_of(nodes[0]), most=most)
    with open_placement_session(cluster) as session:
        placed = len(session.place(pod_, count, run_filters(pod_, cluster)).nodes)
        if placed == count:
            return
        fit = _find_fit(pod_, cluster, shape, count - placed)
        assert len(session.placed_pods) == placed
    expected, node_count = _add_nodes_one_by_one(pod_, create_cluster(nodes[1:]), shape, count, placed)
    assert (fit.copies, fit.node_count) == (expected, node_count)


def _add_nodes_one_by_one(
    pod_: IncomingPod, cluster: Cluster, shape: NodeShape, count: int, placed: int
) -> tuple[int, int]:
    """Return the copies that fit after `placed` of them, and the added nodes, one copy and one node at a time."""
    copies = added = 0
    with open_placement_session(cluster) as session:
        session.place(pod_, placed, run_filters(pod_, cluster))
        while placed + copies < count and added < (shape.most or 0):
            cluster.put_node(shape.create_node(added + 1))
            before = copies
            while placed + copies < count and session.place(pod_, 1, run_filters(pod_, cluster)).nodes:
                copies += 1
            if copies == before:
                break
            added += 1
    return copies, added
