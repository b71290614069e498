"""Shapes of nodes in rules: a pool of zero nodes is no reason for a warning, and nothing fits now by a shape."""

from typing import Any

import msgspec
import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.node_shape import ZONE
from tallygate.review.cluster_snapshot import FixedSnapshot
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import GPU, GateFixture, pod, response
from tests.gate.test_schedulability import ADVERTISED, NEVER, NOT_NOW, RULE, cluster, get_facts, get_message, place_pod
from tests.gate.test_workload_forecast import list_warnings, workload

SHAPE = """
---
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: gpu-8}
spec:
  labels: {gpu: h100}
  taints: [{key: gpu, effect: NoSchedule}]
  allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8, example.com/link: 1}
  most: 10
"""
TOLERATES = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
DAEMON_SET = {"group": "apps", "kind": "DaemonSet"}
CLAIM = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}


def create_fixture(*gpus: int, checks: str = NEVER, shapes: str = SHAPE, full: bool = False) -> GateFixture:
    """Return a gate with one rule, shapes, and nodes with these GPUs, which other pods use if `full`."""
    nodes = cluster(*gpus)
    for name, amount in zip("abcdef", gpus if full else (), strict=False):
        place_pod(nodes, name, amount)
    return GateFixture(RULE % ("deny", checks) + shapes, snapshots=FixedSnapshot(nodes))


@pytest.mark.parametrize(
    ("gpus", "spec", "denial"),
    [
        (8, TOLERATES, ""),
        (8, TOLERATES | {"nodeSelector": {"gpu": "h100"}}, ""),
        (9, TOLERATES, "9 nvidia.com/gpu 4 gpu-8 8 TG113"),
        (8, {}, "8 nvidia.com/gpu 4"),
        (1, TOLERATES | {"nodeSelector": {"gpu": "a100"}}, "node(s) didn't match Pod's node affinity/selector"),
        (9, TOLERATES | CLAIM, ""),
    ],
)
def test_a_pod_is_denied_if_neither_a_node_nor_a_new_node_can_run_it(
    gpus: int, spec: dict[str, Any], denial: str
) -> None:
    message = get_facts(create_fixture(4), pod("u", gpus, **spec))
    assert (denial in message) if denial else (message == "")
    assert ("TG113" in message) is bool(denial)


def test_without_the_shape_the_pod_is_denied() -> None:
    assert "TG113" in get_message(create_fixture(4, shapes=""), pod("u", 8, **TOLERATES))


def test_a_pod_that_waits_for_a_new_node_does_not_fit_now() -> None:
    assert get_message(create_fixture(4, checks=NOT_NOW, full=True), pod("u", 2, **TOLERATES)).endswith(
        "1 No preemption victims found for incoming pod; a new node of shape gpu-8 (at most 10 more) would fit "
        "(TG114, rule placed)"
    )
    facts = get_facts(create_fixture(4, checks=NOT_NOW), pod("u", 8, **TOLERATES))
    assert facts.startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu")
    assert facts.endswith(" gpu-8 10 TG114")


def test_a_shape_that_does_not_fit_is_not_named() -> None:
    message = get_message(create_fixture(4, checks=NOT_NOW, full=True), pod("u", 2))
    assert "TG114" in message
    assert "gpu-8" not in message


def test_replicas_wait_for_new_nodes() -> None:
    body = workload(2, replicas=3)
    body["spec"]["template"]["spec"] |= TOLERATES
    (warning,) = list_warnings(
        GateFixture(RULE % ("warn", NOT_NOW) + SHAPE, snapshots=FixedSnapshot(cluster(4))),
        body,
    )
    assert warning.startswith("spec.template.spec: 2 3 0/1 ")
    assert warning.endswith(" gpu-8 10 TG114")


@pytest.mark.parametrize(("gpus", "is_denied"), [(8, False), (9, True)])
def test_a_daemon_set_may_be_for_new_nodes(gpus: int, *, is_denied: bool) -> None:
    body = workload(gpus) | {"kind": "DaemonSet"}
    body["spec"]["template"]["spec"] |= TOLERATES
    assert ("TG113" in get_message(create_fixture(4), body, kind=DAEMON_SET)) is is_denied


def _request(name: str) -> dict[str, Any]:
    body = pod("u", 1, **TOLERATES)
    body["spec"]["containers"][0]["resources"] = {"limits": {name: "1"}}
    return body


@pytest.mark.parametrize(
    ("name", "denial"),
    [
        (GPU, ""),
        ("example.com/link", ""),
        ("example.com/links", "example.com/links example.com/link gpu-8 TG112"),
        ("example.org/other", "example.org/other TG112"),
    ],
)
def test_names_of_shapes_are_advertised(name: str, denial: str) -> None:
    message = get_facts(create_fixture(0, checks=f"{ADVERTISED}, {NEVER}"), _request(name))
    assert (denial in message) if denial else (message == "")


def test_a_rule_for_some_users_counts_shapes_too() -> None:
    for_others = RULE.replace("checks:", "match: {exempt: {users: [joe]}}, checks:") % ("deny", NEVER)
    fixture = GateFixture(for_others + SHAPE, snapshots=FixedSnapshot(cluster(4)))
    assert get_message(fixture, pod("u", 8, **TOLERATES)) == ""
    exempt = RULE.replace("checks:", "match: {exempt: {users: [jane]}}, checks:").replace("placed", "other")
    both = GateFixture(for_others + "---" + exempt % ("deny", NEVER) + SHAPE, snapshots=FixedSnapshot(cluster(4)))
    assert get_message(both, pod("u", 8, **TOLERATES)) == ""


def create_pool_fixture(*, rule: str = NEVER) -> GateFixture:
    """Return a gate with one rule, and a node of a pool of Karpenter with 4 GPUs in zone a."""
    nodes, labels = Cluster(), {"karpenter.sh/nodepool": "gpu", "zone": "a"}
    taints = [{"key": "gpu", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    allocatable = {"cpu": "7900m", "memory": "30Gi", "pods": "110", GPU: "4"}
    node = {
        "metadata": {"name": "a", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": allocatable},
    }
    ingest(nodes, "Node", msgspec.json.encode(node))
    return GateFixture(RULE % ("deny", rule), snapshots=FixedSnapshot(nodes))


@pytest.mark.parametrize(
    ("gpus", "spec", "is_denied"),
    [
        (8, TOLERATES, False),
        (4, TOLERATES | {"nodeSelector": {"zone": "b"}}, False),
        (4, TOLERATES | {"nodeSelector": {"zone": "b", "karpenter.sh/nodepool": "gpu"}}, False),
        (4, TOLERATES | {"nodeSelector": {"karpenter.sh/nodepool": "cpu"}}, True),
        (4, TOLERATES | {"nodeSelector": {"disk": "ssd"}}, True),
        (4, {}, True),
        (8, {}, True),
    ],
)
def test_other_nodes_of_a_pool_of_karpenter_may_be_larger(gpus: int, spec: dict[str, Any], *, is_denied: bool) -> None:
    assert ("TG113" in get_message(create_pool_fixture(), pod("u", gpus, **spec))) is is_denied


def test_a_written_shape_of_that_name_settles_the_pool() -> None:
    fixture = create_pool_fixture()
    fixture.policies = parse_policies(RULE % ("deny", NEVER) + SHAPE.replace("gpu-8", "gpu"))
    assert get_message(fixture, pod("u", 8, **TOLERATES)) == ""
    assert "TG113" in get_message(fixture, pod("u", 9, **TOLERATES))


def test_a_pod_for_a_larger_node_of_a_pool_does_not_fit_now() -> None:
    message = get_message(create_pool_fixture(rule=NOT_NOW), pod("u", 8, **TOLERATES))
    assert "TG114" in message
    assert "nodepool" not in message


KARPENTER_POOL: dict[str, Any] = {
    "metadata": {"name": "gpu"},
    "spec": {
        "template": {
            "metadata": {"labels": {"team": "ml"}},
            "spec": {
                "taints": [{"key": "gpu", "effect": "NoSchedule"}],
                "requirements": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}],
            },
        }
    },
}
BOTH = f"{ADVERTISED}, {NEVER}"


def create_known_pool_fixture(
    *claims: int, policies: str = "", checks: str = BOTH, has_pools: bool = True
) -> GateFixture:
    """Return a gate with a rule that denies, one other node without GPUs, and a NodePool with claims of these GPUs."""
    nodes = cluster(0)
    ingest(nodes, "NodePool", msgspec.json.encode(KARPENTER_POOL))
    for number, gpus in enumerate(claims):
        meta = {"name": f"c{number}", "labels": {"karpenter.sh/nodepool": "gpu"}}
        status = {"allocatable": {"cpu": "64", "memory": "512Gi", GPU: str(gpus)}}
        ingest(nodes, "NodeClaim", msgspec.json.encode({"metadata": meta, "status": status}))
    snapshots = FixedSnapshot(nodes, has_pools=has_pools)
    return GateFixture(RULE % ("deny", checks) + policies, snapshots=snapshots)


@pytest.mark.parametrize(
    ("gpus", "spec", "denial"),
    [
        (8, TOLERATES, ""),
        (8, TOLERATES | {"nodeSelector": {ZONE: "b", "team": "ml"}}, ""),
        (8, TOLERATES | {"nodeSelector": {ZONE: "c"}}, "TG113"),
        (8, TOLERATES | {"nodeSelector": {"team": "web"}}, "TG113"),
        (8, {}, "TG113"),
        (9, TOLERATES, ""),
    ],
)
def test_a_claim_shows_what_a_pool_without_nodes_has(gpus: int, spec: dict[str, Any], denial: str) -> None:
    message = get_message(create_known_pool_fixture(8), pod("u", gpus, **spec))
    assert (denial in message) if denial else message == ""


def test_what_a_pool_has_is_advertised() -> None:
    facts = get_facts(create_known_pool_fixture(8), _request("nvidia.com/gpus"))
    assert facts.endswith(" nvidia.com/gpus nvidia.com/gpu nodepool/gpu TG112")


UNSEEN = "nodes of nodepool/gpu, of which none was seen, may: a NodeShape gpu among the policies describes them"


@pytest.mark.parametrize(
    ("checks", "fact"),
    [
        (BOTH, "no node advertises nvidia.com/gpu"),
        (ADVERTISED, "no node advertises nvidia.com/gpu"),
        (NEVER, "no node that exists can run this pod"),
    ],
)
def test_nothing_is_never_while_no_node_of_a_pool_is_known(checks: str, fact: str) -> None:
    fixture = create_known_pool_fixture(checks=checks)
    answer = response(fixture.admit(pod("u", 8, **TOLERATES)))
    assert answer["allowed"]
    assert answer["warnings"] == [f"rule placed was not evaluated: {fact}; {UNSEEN}"]


def test_a_pool_that_excludes_the_pod_leaves_no_doubt() -> None:
    assert get_facts(create_known_pool_fixture(), pod("u", 8)).endswith(" nvidia.com/gpu TG112")
    away = TOLERATES | {"nodeSelector": {ZONE: "c"}}
    assert "TG113" in get_message(create_known_pool_fixture(checks=NEVER), pod("u", 8, **away))


def test_a_written_shape_settles_a_pool_without_nodes() -> None:
    fixture = create_known_pool_fixture(policies=SHAPE.replace("gpu-8", "gpu"))
    assert get_message(fixture, pod("u", 8, **TOLERATES)) == ""
    assert get_facts(fixture, pod("u", 9, **TOLERATES)).startswith("9 nvidia.com/gpu ")


def test_while_the_pools_are_not_known_no_pod_is_impossible() -> None:
    for checks in (BOTH, NEVER, ADVERTISED):
        fixture = create_known_pool_fixture(checks=checks, has_pools=False)
        assert get_message(fixture, pod("u", 8)) == ""


@pytest.mark.parametrize("has_pools", [True, False])
def test_a_pod_that_is_larger_than_every_node_may_run_on_one_of_a_pool_that_is_not_known(*, has_pools: bool) -> None:
    fixture = GateFixture(RULE % ("deny", BOTH), snapshots=FixedSnapshot(cluster(4), has_pools=has_pools))
    daemon_set = workload(8) | {"kind": "DaemonSet"}
    assert ("TG113" in get_message(fixture, pod("u", 8))) is has_pools
    assert ("TG113" in get_message(fixture, daemon_set, kind=DAEMON_SET)) is has_pools


def test_the_zone_of_a_new_node_is_named_to_a_pod_that_waits() -> None:
    zoned = TOLERATES | {"nodeSelector": {ZONE: "b"}}
    message = get_message(create_known_pool_fixture(8, checks=NOT_NOW), pod("u", 8, **zoned))
    assert "; a new node of shape nodepool/gpu in zone b would fit (TG114" in message


PUBLISHED = """
---
apiVersion: tallygate.dev/v1alpha1
kind: NodeResource
metadata: {name: addresses}
spec:
  nodes: {selector: {matchLabels: {team: %s}}}
  resources: {example.com/ip: 8}
"""


@pytest.mark.parametrize(("team", "is_denied"), [("ml", False), ("web", True)])
def test_a_new_node_of_a_pool_gets_what_is_published_on_it(team: str, *, is_denied: bool) -> None:
    facts = get_facts(create_known_pool_fixture(8, policies=PUBLISHED % team), _request("example.com/ip"))
    assert facts.endswith(" example.com/ip TG112") is is_denied
