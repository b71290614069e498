"""Shapes of pools: what the newest node, the claims and the NodePool settle, and how many nodes the limits leave."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.cluster.node_pools import NodePools, merge_shapes
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.scheduling.new_nodes import (
    find_new_node_fits,
    select_shapes,
)
from tallygate.objects.karpenter import KarpenterNodePool, NodeClaim
from tallygate.objects.scheduling import SchedulingNode
from tests.accounting.scheduling.clusters import pod
from tests.accounting.scheduling.test_new_nodes import incoming

Json = dict[str, Any]
CAPACITY_TYPE, REGION = "karpenter.sh/capacity-type", "topology.kubernetes.io/region"
POOL, GROUP = "karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup"
ZONE, TYPE, HOST = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type", "kubernetes.io/hostname"
NODE_AMOUNTS = {"cpu": "7900m", "memory": "30Gi", "pods": "58"}
NODE_CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "58"}


def node(name: str, created: int = 1, taints: list[Json] | None = None, **labels: str) -> Json:
    """Return a node of the day `created`; `pool`, `group`, `zone` and `type` are short for their labels."""
    keys = {"pool": POOL, "group": GROUP, "zone": ZONE, "type": TYPE}
    named = {keys.get(key, key): value for key, value in labels.items()}
    meta = {"name": name, "creationTimestamp": f"2026-01-{created:02}T00:00:00Z", "labels": {HOST: name, **named}}
    status = {"allocatable": NODE_AMOUNTS, "capacity": NODE_CAPACITY}
    return {"kind": "Node", "metadata": meta, "spec": {"taints": taints or []}, "status": status}


def node_pool(spec: Json | None = None, template: Json | None = None, used: Json | None = None, **labels: str) -> Json:
    """Return the NodePool gpu."""
    of_nodes = {"metadata": {"labels": labels}, "spec": template or {}}
    status = {"resources": used or {}}
    return {
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {"template": of_nodes, **(spec or {})},
        "status": status,
    }


def claim(name: str, created: int, cpu: str, startup: list[Json] | None = None) -> Json:
    """Return a NodeClaim of the pool gpu."""
    meta = {"name": name, "creationTimestamp": f"2026-01-{created:02}T00:00:00Z", "labels": {POOL: "gpu", ZONE: "a"}}
    status = {"allocatable": {"cpu": cpu}, "capacity": {"cpu": cpu}}
    return {"kind": "NodeClaim", "metadata": meta, "spec": {"startupTaints": startup or []}, "status": status}


def find_shapes(*objects: Json) -> tuple[NodeShape, ...]:
    """Return the shapes of the pools of a cluster with these objects."""
    cluster = Cluster()
    for each in objects:
        assert ingest(cluster, each["kind"], msgspec.json.encode(each))
    return cluster.pools.list_shapes()


def find_shape(*objects: Json) -> NodeShape:
    """Return the shape of the only pool."""
    (shape,) = find_shapes(*objects)
    return shape


def test_a_node_of_no_pool_gives_no_shape() -> None:
    assert find_shapes(node("a")) == ()


@pytest.mark.parametrize(
    ("labels", "annotations", "name"),
    [
        ({POOL: "gpu"}, {}, "nodepool/gpu"),
        ({GROUP: "gpu"}, {}, "nodegroup/gpu"),
        ({"cloud.google.com/gke-nodepool": "gpu"}, {}, "nodegroup/gpu"),
        ({"kubernetes.azure.com/agentpool": "gpu"}, {}, "nodegroup/gpu"),
        ({"alpha.eksctl.io/nodegroup-name": "gpu"}, {}, "nodegroup/gpu"),
        ({"doks.digitalocean.com/node-pool": "gpu"}, {}, "nodegroup/gpu"),
        ({}, {"cluster.x-k8s.io/owner-name": "workers-7x"}, "nodegroup/workers-7x"),
    ],
)
def test_a_pool_has_the_name_in_the_label_of_its_provider(labels: Json, annotations: Json, name: str) -> None:
    written = node("a")
    written["metadata"] |= {"labels": labels, "annotations": annotations}
    shape = find_shape(written)
    assert (shape.name, shape.is_found, shape.most) == (name, True, None)


def test_a_group_settles_what_its_nodes_have_in_common() -> None:
    nodes = [
        node("a", 1, group="g", zone="z1", type="m5.large", team="x", own="1"),
        node("b", 2, group="g", zone="z1", type="m5.large", team="x"),
    ]
    shape = find_shape(*nodes)
    assert shape.labels == {GROUP: "g", ZONE: "z1", TYPE: "m5.large", "team": "x"}
    assert (set(shape.open_labels), shape.is_example) == ({"own"}, False)
    mixed = find_shape(*nodes, node("c", 3, group="g", zone="z2", type="m5.4xlarge", team="x"))
    assert mixed.labels == {GROUP: "g", "team": "x"}
    assert (set(mixed.open_labels), mixed.is_example) == ({"own", ZONE, TYPE}, True)


def test_one_node_does_not_settle_the_zone_of_its_group() -> None:
    shape = find_shape(node("a", group="g", zone="z1", type="m5.large"))
    assert ZONE in shape.open_labels
    assert shape.labels == {GROUP: "g", TYPE: "m5.large"}


def test_taints_that_go_away_are_left_out() -> None:
    taints = [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"},
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"},
        {"key": "example.com/booting", "effect": "NoSchedule"},
        {"key": "gpu", "effect": "NoSchedule"},
    ]
    startup = claim("c", 1, "8", [{"key": "example.com/booting", "effect": "NoSchedule"}])
    assert [each.key for each in find_shape(node("a", taints=taints, pool="gpu"), startup).taints] == ["gpu"]
    assert [each.key for each in find_shape(node("a", taints=taints[4:], group="g")).taints] == [
        "example.com/booting",
        "gpu",
    ]


def test_a_node_pool_settles_the_labels_and_taints_of_its_template() -> None:
    requirements = [
        {"key": TYPE, "operator": "In", "values": ["p5.48xlarge"]},
        {"key": ZONE, "operator": "In", "values": ["a", "b"]},
        {"key": "karpenter.sh/capacity-type", "operator": "Exists"},
    ]
    template = {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "requirements": requirements}
    extra = [{"key": "by-hand", "effect": "NoSchedule"}]
    written = node("a", taints=extra, pool="gpu", zone="a", type="p5.48xlarge", x="1")
    written["metadata"]["labels"]["kubernetes.io/os"] = "linux"
    shape = find_shape(written, node_pool(None, template, team="ml"))
    assert shape.labels == {"team": "ml", TYPE: "p5.48xlarge", POOL: "gpu", "kubernetes.io/os": "linux"}
    assert shape.open_labels == {ZONE, "karpenter.sh/capacity-type", "x"}
    assert ([each.key for each in shape.taints], shape.is_example) == (["gpu"], False)
    assert find_shape(written, node_pool()).is_example


def test_the_newest_node_gives_the_amounts_and_without_nodes_the_newest_claim() -> None:
    old, new = node("a", 1, pool="gpu"), node("b", 2, pool="gpu")
    new["status"] = {"allocatable": {"cpu": "3"}}
    assert find_shape(new, old).get_amount("cpu") == 3000
    starting = node("c", 3, pool="gpu") | {"status": {}}
    assert find_shape(new, old, starting).get_amount("cpu") == 3000
    assert find_shape(starting, claim("x", 1, "4"), claim("y", 2, "6")).get_amount("cpu") == 6000
    assert find_shapes(starting) == ()


@pytest.mark.parametrize(
    ("spec", "used", "most"),
    [
        ({}, {}, None),
        ({"limits": {"cpu": "40"}}, {"cpu": "8"}, 4),
        ({"limits": {"cpu": "39999m"}}, {"cpu": "8"}, 3),
        ({"limits": {"cpu": "1k", "memory": "100Gi"}}, {"cpu": "8", "memory": "32Gi"}, 2),
        ({"limits": {"nodes": "5"}}, {"nodes": "1"}, 4),
        ({"limits": {"nvidia.com/gpu": "5"}}, {}, None),
        ({"limits": {"cpu": "10"}}, {"cpu": "8"}, 0),
        ({"limits": {"cpu": "4"}}, {"cpu": "8"}, 0),
        ({"replicas": 3}, {}, 2),
        ({"replicas": 1}, {}, 0),
        ({"replicas": 0}, {}, 0),
    ],
)
def test_limits_leave_a_whole_number_of_nodes(spec: Json, used: Json, most: int | None) -> None:
    shapes = find_shapes(node("a", pool="gpu"), node_pool(spec, None, used))
    assert [each.most for each in shapes] == ([] if most == 0 else [most])


def test_a_written_shape_replaces_that_of_a_pool() -> None:
    found = find_shapes(node("a", group="g"), node("b", pool="gpu"))
    written = NodeShape("gpu", {}, {})
    assert [each.name for each in merge_shapes([written], found)] == ["gpu", "nodegroup/g"]


def select_value(key: str, value: str) -> Json:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ({"requests": {"cpu": "7"}}, "fits"),
        ({"requests": {"cpu": "9"}}, "its pool, whose other nodes may be larger"),
        ({"requests": {"cpu": "9", "nvidia.com/gpu": "1"}}, "no"),
        ({"nodeSelector": {POOL: "gpu"}}, "fits"),
        ({"nodeSelector": {POOL: "cpu"}}, "no"),
        ({"nodeSelector": {ZONE: "b"}}, f"the value of {ZONE} on a new node is not known"),
        ({"nodeSelector": {"other": "b"}}, "no"),
        ({"nodeSelector": {ZONE: "b", "other": "b"}}, "no"),
        ({"affinity": select_value(ZONE, "b")}, f"the value of {ZONE} on a new node is not known"),
        ({"affinity": select_value("other", "b")}, "no"),
        ({"nodeSelector": {ZONE: "b"}, "requests": {"cpu": "9"}}, "may be larger"),
        ({"nodeSelector": {POOL: "cpu"}, "requests": {"cpu": "9"}}, "no"),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
                ]
            },
            f"the value of {ZONE}",
        ),
    ],
)
def test_what_a_pool_does_not_settle_excludes_no_pod(written: Json, answer: str) -> None:
    cluster = Cluster()
    for each in (node("full", pool="gpu", zone="a"), node_pool()):
        ingest(cluster, each["kind"], msgspec.json.encode(each))
    ingest(cluster, "Pod", msgspec.json.encode(pod("big", on="full", requests={"cpu": "7"}) | {"kind": "Pod"}))
    shapes = cluster.pools.list_shapes()
    (fit,) = find_new_node_fits(incoming(**written), cluster, shapes, 1)
    assert bool(select_shapes(incoming(**written), cluster, shapes)) is (answer != "no")
    if answer in {"fits", "no"}:
        assert (bool(fit.copies), fit.unknown) == (answer == "fits", "")
    else:
        assert answer in fit.unknown


def require_one_of(key: str, *values: str) -> Json:
    """Return a requirement of a NodePool."""
    return {"key": key, "operator": "In", "values": list(values)}


@pytest.mark.parametrize(
    ("requirements", "settled", "choices"),
    [
        ([require_one_of(ZONE, "a", "b")], {}, {ZONE: ("a", "b")}),
        ([require_one_of(ZONE, "a", "b", "c"), require_one_of(ZONE, "c", "b")], {}, {ZONE: ("b", "c")}),
        ([require_one_of(ZONE, "a", "b"), {"key": ZONE, "operator": "NotIn", "values": ["a"]}], {ZONE: "b"}, {}),
        ([{"key": ZONE, "operator": "NotIn", "values": ["a"]}, require_one_of(ZONE, "a", "b")], {ZONE: "b"}, {}),
        ([{"key": ZONE, "operator": "Exists"}, require_one_of(ZONE, "a", "b")], {}, {ZONE: ("a", "b")}),
        ([require_one_of(ZONE, "1", "2"), {"key": ZONE, "operator": "Gt", "values": ["1"]}], {}, {}),
        ([require_one_of(ZONE, "a"), require_one_of(ZONE, "b")], {}, {}),
        ([{"key": ZONE, "operator": "NotIn", "values": ["a"]}], {}, {}),
    ],
)
def test_the_requirements_of_a_label_together_leave_its_values(
    requirements: list[Json], settled: Json, choices: Json
) -> None:
    shape = find_shape(node("a", pool="gpu"), node_pool(None, {"requirements": requirements}))
    assert {key: value for key, value in shape.labels.items() if key != POOL} == settled
    assert dict(shape.choices) == choices
    assert (ZONE in shape.open_labels) is (not settled)


def test_a_node_pool_without_nodes_has_labels_and_taints_and_no_amounts() -> None:
    template = {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "requirements": [require_one_of(TYPE, "p5")]}
    shape = find_shape(node_pool({"limits": {"cpu": "8", "nodes": "3"}}, template))
    assert (shape.is_unsized, shape.labels, len(shape.taints), shape.most) == (True, {TYPE: "p5", POOL: "gpu"}, 1, 3)
    assert not find_shape(claim("c", 1, "8"), node_pool(None, template)).is_unsized


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"cpu": "32"}, 2),
        ({"cpu": "16"}, 0),
        ({"memory": "97Gi"}, 1),
        ({"nodes": "3"}, 1),
        ({"nvidia.com/gpu": "1"}, None),
    ],
)
@pytest.mark.parametrize("status", [None, {}, {"resources": {}}])
def test_without_a_status_the_nodes_of_a_pool_count(limits: Json, most: int | None, status: Json | None) -> None:
    """Count two nodes of 8 CPUs and 32Gi as Karpenter counts them for the status."""
    pool = node_pool({"limits": limits})
    del pool["status"]
    pool |= {} if status is None else {"status": status}
    shapes = find_shapes(pool, node("a", pool="gpu"), node("b", 2, pool="gpu"))
    assert [each.most for each in shapes] == ([] if most == 0 else [most])


@pytest.mark.parametrize("limits", [{"cpu": "0"}, {"memory": "0"}, {"nodes": "0"}])
def test_a_node_pool_that_may_have_no_node_has_no_shape(limits: Json) -> None:
    assert find_shapes(node_pool({"limits": limits})) == ()
    assert len(find_shapes(node_pool({"limits": {"nvidia.com/gpu": "0"}}))) == 1


def put(pools: NodePools, *objects: Json) -> None:
    """Put objects into pools."""
    decoded: dict[str, tuple[Any, Callable[[Any], None]]] = {
        "Node": (SchedulingNode, pools.put_node),
        "NodeClaim": (NodeClaim, pools.put_node_claim),
        "NodePool": (KarpenterNodePool, pools.put_node_pool),
    }
    for each in objects:
        kind, put_object = decoded[each["kind"]]
        put_object(msgspec.json.decode(msgspec.json.encode(each), type=kind))


def list_cpus(pools: NodePools) -> dict[str, int | None]:
    """Return the CPUs of a new node of each pool, in thousandths; None if they are not known."""
    return {each.name: None if each.is_unsized else each.get_amount("cpu") for each in pools.list_shapes()}


def test_the_last_node_of_a_pool_stays_known() -> None:
    pools = NodePools()
    put(pools, node_pool(), claim("c", 1, "5"), node("a", 1, pool="gpu"), node("b", 2, group="g"))
    pools.remove_node("a")
    assert list_cpus(pools) == {"nodegroup/g": 7900, "nodepool/gpu": 5000}
    pools.remove_node_claim("c")
    pools.remove_node("b")
    assert list_cpus(pools) == {"nodegroup/g": 7900, "nodepool/gpu": 5000}
    larger = node("d", 3, pool="gpu")
    larger["status"] = {"allocatable": {"cpu": "16"}}
    put(pools, larger)
    assert list_cpus(pools)["nodepool/gpu"] == 16000
    pools.remove_node("d")
    assert list_cpus(pools)["nodepool/gpu"] == 16000


def test_a_removed_node_pool_is_forgotten_and_a_group_is_not() -> None:
    pools = NodePools()
    put(pools, node_pool(), node("a", pool="gpu"))
    pools.remove_node_pool("gpu")
    assert [each.is_example for each in pools.list_shapes()] == [True]
    pools.remove_node("a")
    assert pools.list_shapes() == ()
    put(pools, node_pool())
    assert list_cpus(pools) == {"nodepool/gpu": None}


def test_a_pool_without_a_readable_node_pool_is_remembered() -> None:
    pools = NodePools()
    put(pools, node("a", pool="gpu"))
    pools.remove_node("a")
    assert list_cpus(pools) == {"nodepool/gpu": 7900}


def test_the_pools_that_were_emptied_first_are_forgotten_first() -> None:
    pools = NodePools()
    for number in range(102):
        put(pools, node(f"n{number}", group=f"g{number}"))
    for number in range(102):
        pools.remove_node(f"n{number}")
    assert len(pools.list_shapes()) == 100
    assert {"nodegroup/g0", "nodegroup/g1"}.isdisjoint(list_cpus(pools))


def test_a_node_that_gets_another_label_leaves_its_pool() -> None:
    pools = NodePools()
    put(pools, node("a", group="g"), node("b", group="g"))
    put(pools, node("b", group="h"))
    assert list_cpus(pools) == {"nodegroup/g": 7900, "nodegroup/h": 7900}
    put(pools, node("b"))
    pools.remove_node("a")
    assert list_cpus(pools) == {"nodegroup/g": 7900, "nodegroup/h": 7900}


def test_the_shapes_are_the_same_object_until_a_pool_changes() -> None:
    pools = NodePools()
    put(pools, node("a", group="g"))
    first = pools.list_shapes()
    assert pools.list_shapes() is first
    put(pools, node("x"))
    assert pools.list_shapes() is first
    put(pools, node("b", group="g"))
    assert pools.list_shapes() is not first
