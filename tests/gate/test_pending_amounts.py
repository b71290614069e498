"""Rules on nodes for resources that a NodeResource gives a node, before the gate has written the amount."""

import json

import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.review.cluster_snapshot import FixedSnapshot
from tests.gate.gate_fixture import GateFixture, pod
from tests.gate.test_schedulability import ADVERTISED, NEVER, NOT_NOW, RULE, get_facts, get_message
from tests.gate.test_workload_forecast import workload

IP = "example.com/ip"
NODE_RESOURCE = """
---
apiVersion: tallygate.dev/v1alpha1
kind: NodeResource
metadata: {name: amounts}
spec:
  nodes: {selector: {matchLabels: {pool: sim}}}
  resources: {example.com/ip: %s}
"""
SHAPE = """
---
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: large}
spec: {labels: {pool: sim}, allocatable: {cpu: 64}}
"""


def create_fixture(
    amount: str, *, checks: str = f"{ADVERTISED}, {NEVER}", shape: str = "", **labels: str
) -> GateFixture:
    """Return a gate with one rule and one NodeResource, and a node of 8 CPUs with these labels and no addresses."""
    cluster = Cluster()
    status = {"allocatable": {"cpu": "8", "pods": "110"}}
    ingest(cluster, "Node", json.dumps({"metadata": {"name": "a", "labels": labels}, "status": status}).encode())
    policies = RULE % ("deny", checks) + NODE_RESOURCE % amount + shape
    return GateFixture(policies, snapshots=FixedSnapshot(cluster))


def create_pod(resource: str = IP, amount: str = "1", cpu: str = "1") -> dict[str, object]:
    """Return a pod that requests an amount of a resource, and CPUs."""
    body = pod("u", 1)
    amounts = {resource: amount, "cpu": cpu}
    body["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return dict(body)


@pytest.mark.parametrize(
    ("amount", "labels"),
    [
        pytest.param("8", {"pool": "sim"}, id="a fixed amount"),
        pytest.param("{fromLabel: ips}", {"pool": "sim", "ips": "4"}, id="an amount in a label"),
        pytest.param("{from: podCIDR, minus: 3}", {"pool": "sim"}, id="a range that is not in the columns"),
        pytest.param("{fromAnnotation: ips}", {"pool": "sim"}, id="an annotation that is not in the columns"),
        pytest.param("{fromCapacity: cpu}", {"pool": "sim"}, id="a capacity that is not in the columns"),
    ],
)
def test_an_amount_that_a_node_will_get_counts_as_advertised(amount: str, labels: dict[str, str]) -> None:
    assert get_message(create_fixture(amount, **labels), create_pod()) == ""


@pytest.mark.parametrize(
    ("amount", "labels"),
    [
        pytest.param("8", {"pool": "other"}, id="a selector that no node matches"),
        pytest.param("0", {"pool": "sim"}, id="zero"),
        pytest.param("{fromLabel: ips}", {"pool": "sim"}, id="a label that the node does not have"),
        pytest.param("{fromLabel: ips}", {"pool": "sim", "ips": "many"}, id="a label that is not an amount"),
    ],
)
def test_an_amount_that_no_node_gets_is_not_advertised(amount: str, labels: dict[str, str]) -> None:
    assert get_facts(create_fixture(amount, **labels), create_pod()).endswith(f" {IP} TG112")


def test_a_similar_name_gets_the_name_that_will_be_published() -> None:
    assert f"no node advertises {IP}s: did you mean {IP}? NodeResource amounts will publish it (TG112" in get_message(
        create_fixture("8", pool="sim"), create_pod(f"{IP}s")
    )


def test_a_request_that_exceeds_the_amount_can_never_be_fulfilled() -> None:
    assert get_message(create_fixture("8", pool="sim"), create_pod(amount="8")) == ""
    assert get_facts(create_fixture("8", pool="sim"), create_pod(amount="9")) == f"9 {IP} TG113"


def test_another_obstacle_than_the_amount_is_reported_alone() -> None:
    assert get_facts(create_fixture("8", pool="sim"), create_pod(cpu="16")) == "16 cpu 8 TG113"


def test_a_node_that_may_come_gets_the_amount_too() -> None:
    assert get_message(create_fixture("8", shape=SHAPE), create_pod(cpu="16")) == ""
    assert "TG112" in get_message(create_fixture("8"), create_pod(cpu="16"))


def test_a_daemon_set_is_not_denied_before_its_amount_is_published() -> None:
    body = workload(1) | {"kind": "DaemonSet"}
    amounts = {IP: "1"}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    kind = {"group": "apps", "kind": "DaemonSet"}
    assert get_message(create_fixture("8", pool="sim"), body, kind=kind) == ""
    assert "TG113" in get_facts(create_fixture("8", checks=NEVER), body, kind=kind)


def test_the_amount_is_missing_now() -> None:
    """Do not claim that a pod fits now which fits a second later."""
    facts = get_facts(create_fixture("8", checks=NOT_NOW, pool="sim"), create_pod())
    assert facts.startswith(f"0/1 nodes are available: 1 Insufficient {IP}")
