"""Rules on nodes for pods that request unhealthy devices: these may become healthy, so that it is not never."""

import json

import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tests.gate.gate_fixture import GPU, pod
from tests.gate.test_schedulability import ADVERTISED, NEVER, NOT_NOW, POD, create_fixture, get_facts, get_message
from tests.gate.test_workload_forecast import list_warnings, workload

_DAEMON_SET = {"kind": {"group": "apps", "kind": "DaemonSet"}}


def create_cluster(**healthy: int) -> Cluster:
    """Return a cluster of nodes with 4 GPUs each, with the given number of healthy ones."""
    cluster = Cluster()
    for name, amount in healthy.items():
        status = {
            "capacity": {"cpu": "8", "pods": "110", GPU: "4"},
            "allocatable": {"cpu": "8", "pods": "110", GPU: str(amount)},
        }
        ingest(cluster, "Node", json.dumps({"metadata": {"name": name}, "status": status}).encode())
    return cluster


def test_a_node_whose_devices_are_all_unhealthy_advertises_them() -> None:
    fixture = create_fixture(create_cluster(a=0), f"{ADVERTISED}, {NEVER}")
    assert get_message(fixture, pod("u", 1)) == ""
    assert get_message(fixture, pod("u", 4)) == ""


def test_a_similar_name_whose_devices_are_all_unhealthy_is_suggested() -> None:
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"limits": {f"{GPU}s": "1"}}
    assert get_facts(create_fixture(create_cluster(a=0), ADVERTISED), body).endswith(f" {GPU}s {GPU} TG112")


@pytest.mark.parametrize("healthy", [0, 2, 4])
def test_a_pod_that_requests_more_than_every_node_has_can_never_run(healthy: int) -> None:
    assert get_facts(create_fixture(create_cluster(a=healthy)), pod("u", 5)) == f"5 {GPU} 4 TG113"


def test_a_pod_that_waits_for_unhealthy_devices_does_not_fit_now() -> None:
    fixture = create_fixture(create_cluster(a=0, b=2), NOT_NOW)
    assert get_message(fixture, pod("u", 2)) == ""
    assert get_message(fixture, pod("u", 3)).endswith(
        f" scheduling; 4 of 4 {GPU} unhealthy on a, 2 of 4 {GPU} unhealthy on b (TG114, rule placed)"
    )


def test_the_unhealthy_devices_of_other_resources_are_not_named() -> None:
    (warning,) = list_warnings(create_fixture(create_cluster(a=0), NOT_NOW, "warn"), _pod_of_cpu(9), **POD)
    assert "unhealthy" not in warning


def _pod_of_cpu(cpu: int) -> dict[str, object]:
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpu)}}
    return dict(body)


def test_a_daemon_set_of_nodes_with_unhealthy_devices_can_run_later() -> None:
    body = workload(1) | {"kind": "DaemonSet"}
    assert get_message(create_fixture(create_cluster(a=0)), body, **_DAEMON_SET) == ""
    facts = get_facts(create_fixture(create_cluster(a=0, b=4), NOT_NOW), body, **_DAEMON_SET)
    assert " 1 2 0/2 nodes are available" in facts
    assert facts.endswith(f" 4 4 {GPU} TG114")


def test_devices_that_became_healthy_are_not_named_any_more() -> None:
    cluster = create_cluster(a=0)
    healthy = {"pods": "110", GPU: "4"}
    status = {"capacity": healthy, "allocatable": healthy}
    ingest(cluster, "Node", json.dumps({"metadata": {"name": "a"}, "status": status}).encode())
    assert "unhealthy" not in get_message(create_fixture(cluster, NOT_NOW), pod("u", 5))
    cluster.remove_node("a")
    assert not cluster.nodes.is_advertised(GPU)
