"""The values that a NodePool leaves open: each that a pod names is tried on a node of its own, within bounds."""

import msgspec
import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.scheduling.new_nodes import (
    find_fitting,
    find_new_node_capacities,
    find_new_node_fits,
    select_shapes,
)
from tests.accounting.cluster.test_node_pools import (
    CAPACITY_TYPE,
    REGION,
    TYPE,
    ZONE,
    Json,
    node,
    node_pool,
    require_one_of,
    select_value,
)
from tests.accounting.scheduling.clusters import pod
from tests.accounting.scheduling.test_new_nodes import incoming

_LARGE = {"cpu": "16"}
ALTERNATIVES = [
    ({"nodeSelector": {ZONE: "b"}}, "nodepool/gpu in zone b"),
    ({"affinity": select_value(ZONE, "b")}, "nodepool/gpu in zone b"),
    ({"affinity": select_value(ZONE, "a")}, "nodepool/gpu in zone a"),
    ({"nodeSelector": {ZONE: "c"}}, "no"),
    ({"affinity": select_value(ZONE, "c")}, "no"),
    ({"nodeSelector": {ZONE: "b", CAPACITY_TYPE: "spot"}}, f"nodepool/gpu in zone b with {CAPACITY_TYPE}=spot"),
    ({"nodeSelector": {TYPE: "small"}, "requests": {"cpu": "7"}}, f"nodepool/gpu with {TYPE}=small"),
    ({"nodeSelector": {TYPE: "small"}, "requests": _LARGE}, "no"),
    ({"nodeSelector": {TYPE: "large"}, "requests": _LARGE}, f"nodepool/gpu with {TYPE}=large"),
    ({"requests": _LARGE}, f"nodepool/gpu with {TYPE}=large"),
    ({"nodeSelector": {TYPE: "unseen"}, "requests": _LARGE}, "unknown: no such node has been seen"),
    ({"nodeSelector": {TYPE: "unseen", "other": "x"}}, "no"),
    ({"nodeSelector": {TYPE: "foreign"}}, "no"),
    ({"requests": {"cpu": "99"}}, "unknown: no such node has been seen"),
    ({"nodeSelector": {REGION: "r"}}, f"unknown: the value of {REGION} on a new node is not known"),
]


@pytest.mark.parametrize(("written", "answer"), ALTERNATIVES)
def test_a_pod_gets_the_values_that_a_pool_may_choose(written: Json, answer: str) -> None:
    requirements = [
        require_one_of(ZONE, "a", "b"),
        require_one_of(CAPACITY_TYPE, "on-demand", "spot"),
        require_one_of(TYPE, "small", "large", "unseen"),
        {"key": REGION, "operator": "Exists"},
    ]
    large = node("old", 1, pool="gpu", zone="a", type="large")
    large["status"] = {"allocatable": {"cpu": "31", "pods": "110"}}
    cluster = Cluster()
    for each in (
        large,
        node("new", 2, pool="gpu", zone="a", type="small"),
        node_pool(None, {"requirements": requirements}),
    ):
        ingest(cluster, each["kind"], msgspec.json.encode(each))
    for name, on in (("x", "new"), ("y", "old")):
        filler = pod(name, on=on, requests={"cpu": "7" if on == "new" else "31"})
        ingest(cluster, "Pod", msgspec.json.encode(filler | {"kind": "Pod"}))
    shapes, pod_ = cluster.pools.list_shapes(), incoming(**{"requests": {"cpu": "1"}, **written})
    (fit,) = find_new_node_fits(pod_, cluster, shapes, 1)
    described = str(fit.shape) if fit.copies else f"unknown: {fit.unknown}" if fit.unknown else "no"
    assert described.startswith(answer)
    assert bool(select_shapes(pod_, cluster, shapes)) is (answer != "no")
    found = find_fitting(pod_, cluster, shapes[0])
    assert (str(found) if found else "") == (answer if answer.startswith("nodepool") else "")
    (capacity,) = find_new_node_capacities(pod_, cluster, shapes)
    assert bool(capacity.copies) is answer.startswith("nodepool")
    assert bool(capacity.unknown) is answer.startswith("unknown")


def test_more_than_64_combinations_are_not_tried() -> None:
    zones, types = [f"z{number}" for number in range(13)], [f"t{number}" for number in range(5)]
    pool = node_pool(None, {"requirements": [require_one_of(ZONE, *zones), require_one_of("disk", *types)]})
    cluster = Cluster()
    for each in (node("a", pool="gpu"), pool):
        ingest(cluster, each["kind"], msgspec.json.encode(each))
    terms = [{"matchExpressions": [require_one_of(ZONE, "z9"), require_one_of("disk", "t1")]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    (fit,) = find_new_node_fits(incoming(affinity=affinity), cluster, cluster.pools.list_shapes(), 1)
    assert "more than 64 possible combinations" in fit.unknown
    selected = incoming(nodeSelector={ZONE: "z9"}, affinity=select_value("disk", "t1"))
    (fit,) = find_new_node_fits(selected, cluster, cluster.pools.list_shapes(), 1)
    assert "amounts are not known" in fit.unknown


def test_of_many_combinations_in_all_pools_a_rule_tries_200() -> None:
    types = [f"t{number}" for number in range(60)]
    cluster = Cluster()
    for number in range(4):
        pool = node_pool(None, {"requirements": [require_one_of("disk", *types)]})
        pool["metadata"]["name"] = f"p{number}"
        ingest(cluster, "NodePool", msgspec.json.encode(pool))
        ingest(cluster, "Node", msgspec.json.encode(node(f"n{number}", pool=f"p{number}", disk="t0")))
    shapes = cluster.pools.list_shapes()
    assert select_shapes(incoming(affinity=select_value("disk", "t0")), cluster, shapes) == list(shapes)
    none = select_shapes(incoming(affinity=select_value("disk", "none")), cluster, shapes)
    assert [each.name for each in none] == ["nodepool/p3"]


def test_copies_that_spread_over_zones_get_new_nodes_in_each() -> None:
    cluster = Cluster()
    ingest(
        cluster,
        "NodePool",
        msgspec.json.encode(node_pool(None, {"requirements": [require_one_of(ZONE, "a", "b", "c")]})),
    )
    for zone in ("a", "b", "c"):
        ingest(cluster, "Node", msgspec.json.encode(node(zone, pool="gpu", zone=zone)))
        filler = pod(f"on-{zone}", on=zone, requests={"cpu": "7"}) | {"kind": "Pod"}
        ingest(cluster, "Pod", msgspec.json.encode(filler))
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    pods = incoming(labels={"app": "x"}, topologySpreadConstraints=[spread], requests={"cpu": "4"})
    (fit,) = find_new_node_fits(pods, cluster, cluster.pools.list_shapes(), 4)
    assert (fit.copies, fit.node_count, str(fit.shape)) == (4, 4, "nodepool/gpu")
    assert {labels[ZONE]: count for labels, count in fit.chosen} == {"a": 2, "b": 1, "c": 1}
