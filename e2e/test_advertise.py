"""`tallygate advertise` on nodes of KWOK: what follows by itself, several nodes, device plugins."""

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from e2e.api import api
from e2e.command_output import run_kubectl, run_tallygate
from e2e.local.cluster import LocalCluster
from e2e.local.nodes import add_nodes, node
from e2e.node_resources import advertise, read_advertised
from e2e.ports import AdvertisedResources, Cluster, Site
from e2e.waiting import until

_SEAT = "example.com/seat"
_WITHIN = 240.0  # seconds, for the scheduler

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[list[str]]:
    """Create three nodes with the label `pool=NAME` of the first, and delete them after the case."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("its nodes are made of KWOK")
    pool = f"pool-{uuid4().hex[:8]}"
    made = [node(f"{pool}-{number}", {}) for number in range(3)]
    for each in made:
        each["metadata"]["labels"]["pool"] = pool
    add_nodes(cluster, *made)
    yield [each["metadata"]["name"] for each in made]
    for each in made:
        api(cluster.kubeconfig).delete(f"/api/v1/nodes/{each['metadata']['name']}")


@pytest.fixture
def tallygate(cluster: Cluster) -> Run:
    """Return a function that runs a command on the cluster."""

    def run(command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_tallygate(cluster, command, "--kubeconfig", str(cluster.kubeconfig), *arguments)

    return run


def _get_pool(nodes: list[str]) -> str:
    return f"pool={nodes[0].removesuffix('-0')}"


def _read(cluster: Cluster, name: str) -> AdvertisedResources:
    return read_advertised(cluster, name)


def _patch(cluster: Cluster, name: str, status: dict[str, Any], manager: str) -> None:
    patch = json.dumps({"status": status})
    command = ("patch", "node", name, "--subresource=status", "--type=merge", f"--field-manager={manager}")
    run_kubectl(cluster, *command, f"--patch={patch}")


def _create_pod(site: Site, namespace: str, name: str, where: str) -> None:
    container = {"name": "main", "image": site.image, "resources": {"limits": {_SEAT: "1"}}}
    label, _, value = where.partition("=")
    content = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "nodeSelector": {label: value}},
    }
    api(site.cluster.kubeconfig).create(f"/api/v1/namespaces/{namespace}/pods", content)


def _status(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """Return the status of the pod `seat`."""
    status: dict[str, Any] = api(cluster.kubeconfig).get(f"/api/v1/namespaces/{namespace}/pods/seat")["status"]
    return status


def test_allocatable_follows_no_capacity_where_no_kubelet_runs(site: Site, nodes: list[str], tallygate: Run) -> None:
    """Write capacity alone, let KWOK handle a later event of another node, and look; then let `advertise` do it."""
    cluster = site.cluster
    assert isinstance(cluster, LocalCluster)
    _patch(cluster, nodes[0], {"capacity": {_SEAT: "4"}}, "kubectl-patch")
    later = f"{nodes[0]}-later"
    add_nodes(cluster, node(later, {}))
    api(cluster.kubeconfig).delete(f"/api/v1/nodes/{later}")
    assert _read(cluster, nodes[0]) == AdvertisedResources({_SEAT: "4"}, {})
    done = tallygate("advertise", nodes[0], f"{_SEAT}=4")
    assert done.returncode == 0, done.stderr
    assert _read(cluster, nodes[0]) == AdvertisedResources({_SEAT: "4"}, {_SEAT: "4"})


def test_pods_that_wait_for_a_resource_run_once_it_is_advertised(
    site: Site, nodes: list[str], namespace: str, tallygate: Run
) -> None:
    pool = _get_pool(nodes)
    _create_pod(site, namespace, "seat", pool)
    cluster = site.cluster
    missing = f"Insufficient {_SEAT}"
    until("the scheduler says what is missing", lambda: missing in json.dumps(_status(cluster, namespace)), _WITHIN)
    assert tallygate("advertise", "-l", pool, f"{_SEAT}=2").returncode == 0
    until("the pod runs", lambda: _status(cluster, namespace).get("phase") == "Running", _WITHIN)


def test_one_node_in_use_keeps_all_as_they_are(site: Site, nodes: list[str], namespace: str, tallygate: Run) -> None:
    pool, cluster = _get_pool(nodes), site.cluster
    assert tallygate("advertise", "-l", pool, f"{_SEAT}=2").returncode == 0
    _create_pod(site, namespace, "seat", pool)
    path = f"/api/v1/namespaces/{namespace}/pods/seat"
    until("it has a node", lambda: bool(api(cluster.kubeconfig).get(path)["spec"].get("nodeName")), _WITHIN)
    used = api(cluster.kubeconfig).get(path)["spec"]["nodeName"]
    refused = tallygate("advertise", "-l", pool, f"{_SEAT}-")
    assert refused.returncode == 1
    assert f"node {used}: {_SEAT}: its pods use 1, and 0 would be left: {namespace}/seat (1)" in refused.stderr
    assert [_read(cluster, each).allocatable for each in nodes] == [{_SEAT: "2"}] * 3
    assert tallygate("advertise", "-l", pool, f"{_SEAT}-", "--below-use").returncode == 0
    assert [_read(cluster, each) for each in nodes] == [AdvertisedResources({}, {})] * 3


def test_what_a_device_plugin_publishes_stays_and_what_a_kubelet_has_reset_is_written_again(
    cluster: Cluster, nodes: list[str], tallygate: Run
) -> None:
    name, amount = nodes[0], f"{_SEAT}=4"
    assert tallygate("advertise", name, amount).returncode == 0
    _patch(cluster, name, {"capacity": {_SEAT: "8"}, "allocatable": {_SEAT: "8"}}, "kubelet")
    for change in (amount, f"{_SEAT}-"):
        refused = tallygate("advertise", name, change, "--force-conflicts")
        assert refused.returncode == 1
        assert "a device plugin publishes 8 of it" in refused.stderr
    _patch(cluster, name, {"capacity": {_SEAT: "0"}, "allocatable": {_SEAT: "0"}}, "kubelet")
    assert tallygate("advertise", name, amount).returncode == 0
    assert _read(cluster, name) == AdvertisedResources({_SEAT: "4"}, {_SEAT: "4"})


def test_the_other_amounts_of_a_node_stay(cluster: Cluster, nodes: list[str], tallygate: Run) -> None:
    """Keep those of the same field manager too, which server-side apply would remove."""
    own = AdvertisedResources({"example.com/port": "8"}, {"example.com/port": "8"})
    advertise(cluster, nodes[0], own)
    assert tallygate("advertise", nodes[0], f"{_SEAT}=4").returncode == 0
    assert tallygate("advertise", nodes[0], "example.com/tape=1", f"{_SEAT}-").returncode == 0
    left = {"example.com/port": "8", "example.com/tape": "1"}
    assert _read(cluster, nodes[0]) == AdvertisedResources(left, left)
