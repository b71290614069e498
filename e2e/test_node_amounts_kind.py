"""Amounts on a node with a whole kubelet, which restarts, and whose node is recreated: they and their pods go on.

A kubelet that restarts evaluates the pods of its node as if they were new, by the allocatable amounts of the stored
node (pkg/kubelet/lifecycle/predicate.go, v1.36). It ignores a name that the node does not have.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.api import Api, Object, api
from e2e.command_output import run_tallygate
from e2e.installation.admin_shell import AdminShell
from e2e.installation.install_methods import KustomizeInstall
from e2e.installation.installed_checks import read_logs, until_it_rejects
from e2e.installation.vacant_cluster import vacate
from e2e.kind.cluster import KindCluster
from e2e.namespaces import new_namespace
from e2e.node_resources import read_advertised
from e2e.ports import NotHereError, Site
from e2e.waiting import until

_SEAT, _ADDRESS = "seats.example.com/seat", "addresses.example.com/ip"
_ADDRESSES, _TRIED = 10, 13
_WITHIN = 300.0  # seconds; the kubelet reports every ten, and a busy machine is slow
_ENDED = {"Succeeded", "Failed"}  # the kubelet may overwrite its own reason by the exit code of the container
_POLICIES = """\
apiVersion: tallygate.dev/v1alpha1
kind: NodeResource
metadata: {{name: addresses}}
spec: {{resources: {{{address}: {{from: podCIDR, minus: {minus}}}}}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {{name: one-address-each}}
spec:
  match: {{namespaces: {{include: [{namespace}]}}}}
  resource: {address}
  perPod: 1
  unless: {{hostNetwork: true}}
"""
_POD_RANGE = 256
"""The number of addresses in the range of a node of kind."""


class _Pods:
    """The pods of a namespace."""

    def __init__(self, site: Site, namespace: str) -> None:
        self._site = site
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self.ours: Api = api(site.cluster.kubeconfig)

    def create(self, name: str, limits: dict[str, str], **spec: Any) -> None:
        """Create a pod whose container stays."""
        container = {"name": "main", "image": self._site.image, "resources": {"limits": limits}}
        spec |= {"containers": [container], "terminationGracePeriodSeconds": 1}
        self.ours.create(self._path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def read(self, name: str) -> Object:
        return self.ours.get(f"{self._path}/{name}")

    def list_running(self) -> list[str]:
        """Return the names of the pods that run."""
        return [
            each["metadata"]["name"]
            for each in self.ours.items(self._path)
            if each["status"].get("phase") == "Running" and not each["metadata"].get("deletionTimestamp")
        ]

    def find_waiting(self) -> list[str]:
        """Return the sentence of the scheduler for each pod that waits."""
        conditions = (each for pod in self.ours.items(self._path) for each in pod["status"].get("conditions", ()))
        return [each["message"] for each in conditions if each.get("reason") == "Unschedulable"]

    def until_running(self, *names: str) -> None:
        """Wait until exactly these pods run."""
        until(f"{names} run", lambda: set(self.list_running()) == set(names), _WITHIN, self._describe)

    def delete(self, name: str) -> None:
        self.ours.delete(f"{self._path}/{name}", gracePeriodSeconds="1")

    def delete_all(self) -> None:
        """Delete all pods, and wait until none is left."""
        self.ours.delete(self._path, gracePeriodSeconds="1")
        until("no pod is left", lambda: not self.ours.items(self._path), _WITHIN)

    def _describe(self) -> str:
        return json.dumps([each["status"] for each in self.ours.items(self._path)])[-3000:]


@pytest.fixture(scope="module")
def kind_cluster(site: Site) -> KindCluster:
    """Return the cluster, if its node has a whole kubelet that a case may restart."""
    if not isinstance(site.cluster, KindCluster):
        raise NotHereError("it takes a whole kubelet, which a case may restart")
    return site.cluster


def _read_amounts(site: Site, name: str) -> tuple[str, str]:
    """Return capacity and allocatable amount of the node; empty where it has none."""
    read = read_advertised(site.cluster, site.node)
    return read.capacity.get(name, ""), read.allocatable.get(name, "")


def _until_amounts(site: Site, name: str, amount: str) -> None:
    until(
        f"the node has {amount or 'no'} {name}",
        lambda: _read_amounts(site, name) == (amount, amount),
        _WITHIN,
        lambda: f"{_read_amounts(site, name)}\n{read_logs(site.cluster)}",
    )


def _run(site: Site, *arguments: str) -> str:
    """Return the output of a command of tallygate that succeeds."""
    done = run_tallygate(site.cluster, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def seats(site: Site, kind_cluster: KindCluster) -> Iterator[_Pods]:
    """Advertise four seats; yield the pods of a namespace, which are deleted before the seats are withdrawn."""
    _run(site, "advertise", site.node, f"{_SEAT}=4")
    assert _read_amounts(site, _SEAT) == ("4", "4")
    with new_namespace(kind_cluster) as namespace:
        pods = _Pods(site, namespace)
        try:
            yield pods
        finally:
            pods.delete_all()
            _run(site, "advertise", site.node, f"{_SEAT}-")
            _until_amounts(site, _SEAT, "")


def _restart_kubelet(site: Site, cluster: KindCluster) -> None:
    """Restart the kubelet, and wait until it has reported since."""
    cluster.node(site.node).run("systemctl", "restart", "kubelet")
    before = _read_renewals(site)
    until("the kubelet reports again", lambda: bool(_read_renewals(site) - before), _WITHIN)


def _read_renewals(site: Site) -> set[str]:
    """Return the time of the last report of the kubelet, if there is one of this node."""
    leases = api(site.cluster.kubeconfig).items("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
    return {each["spec"]["renewTime"] for each in leases if each["metadata"]["name"] == site.node}


def _recreate_node(site: Site, cluster: KindCluster) -> None:
    """Delete the node while its kubelet is stopped, and wait until the kubelet has created it, ready for pods.

    The garbage collector deletes pods without a node after 40 seconds (pkg/controller/podgc, v1.36).
    """
    ours = api(cluster.kubeconfig)
    node = cluster.node(site.node)
    node.run("systemctl", "stop", "kubelet")
    ours.delete(f"/api/v1/nodes/{site.node}")
    node.run("systemctl", "start", "kubelet")

    def is_ready() -> bool:
        nodes = (each for each in ours.items("/api/v1/nodes") if each["metadata"]["name"] == site.node)
        conditions = (each for node in nodes for each in node["status"].get("conditions", ()))
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    until("the node is ready", is_ready, _WITHIN)


def _assert_same(pods: _Pods, before: Object) -> None:
    """Check that a pod still runs, with the container that it had."""
    status = pods.read(before["metadata"]["name"])["status"]
    assert status["phase"] == "Running"
    assert status["containerStatuses"][0]["containerID"] == before["status"]["containerStatuses"][0]["containerID"]


def test_advertised_amounts_and_a_pod_that_uses_them_outlive_a_restart_of_the_kubelet(
    site: Site, kind_cluster: KindCluster, seats: _Pods
) -> None:
    seats.create("user", {_SEAT: "3"})
    seats.until_running("user")
    before = seats.read("user")
    _restart_kubelet(site, kind_cluster)
    assert _read_amounts(site, _SEAT) == ("4", "4")
    seats.create("more", {_SEAT: "1"})
    seats.until_running("user", "more")
    _assert_same(seats, before)


def test_a_node_that_is_recreated_has_no_amounts_and_the_pod_that_uses_them_goes_on(
    site: Site, kind_cluster: KindCluster, seats: _Pods
) -> None:
    seats.create("user", {_SEAT: "3"})
    seats.until_running("user")
    before = seats.read("user")
    _recreate_node(site, kind_cluster)
    assert _read_amounts(site, _SEAT) == ("", "")
    _run(site, "advertise", site.node, f"{_SEAT}=4")
    assert _read_amounts(site, _SEAT) == ("4", "4")
    seats.create("more", {_SEAT: "1"})
    seats.until_running("user", "more")
    _assert_same(seats, before)


def test_a_kubelet_that_restarts_ends_the_pod_that_uses_more_than_the_node_has(
    site: Site, kind_cluster: KindCluster, seats: _Pods
) -> None:
    seats.create("user", {_SEAT: "3"})
    seats.until_running("user")
    refused = run_tallygate(kind_cluster, "advertise", site.node, f"{_SEAT}=1")
    assert refused.returncode == 1
    assert "a kubelet that restarts may end them" in refused.stderr
    assert _read_amounts(site, _SEAT) == ("4", "4")
    _run(site, "advertise", site.node, f"{_SEAT}=1", "--below-use")
    _restart_kubelet(site, kind_cluster)
    until("the pod has ended", lambda: seats.read("user")["status"]["phase"] in _ENDED, _WITHIN)


def test_a_kubelet_that_restarts_leaves_the_pod_whose_resource_is_withdrawn(
    site: Site, kind_cluster: KindCluster, seats: _Pods
) -> None:
    seats.create("user", {_SEAT: "3"})
    seats.until_running("user")
    before = seats.read("user")
    _run(site, "advertise", site.node, f"{_SEAT}-", "--below-use")
    _restart_kubelet(site, kind_cluster)
    seats.create("later", {})
    seats.until_running("user", "later")
    _assert_same(seats, before)


@pytest.fixture
def addresses(site: Site, kind_cluster: KindCluster, tmp_path: Path) -> Iterator[_Pods]:
    """Run gates that publish ten addresses, of which each pod of a namespace gets one; yield its pods."""
    shell, way = AdminShell(kind_cluster, tmp_path), KustomizeInstall("ha", "publish-nodes")
    with vacate(site) as vacant, new_namespace(kind_cluster) as namespace:
        pods = _Pods(site, namespace)
        policies = _POLICIES.format(address=_ADDRESS, minus=_POD_RANGE - _ADDRESSES, namespace=namespace)
        try:
            way.install(shell, vacant.image, policies)
            until_it_rejects(kind_cluster)
            _until_amounts(site, _ADDRESS, str(_ADDRESSES))
            yield pods
            pods.delete_all()
            way.uninstall(shell)
        finally:
            pods.delete_all()
            run_tallygate(kind_cluster, "advertise", site.node, f"{_ADDRESS}-", "--force-conflicts", "--below-use")


def test_a_node_with_ten_addresses_runs_exactly_ten_pods_of_the_pod_network(
    site: Site, kind_cluster: KindCluster, addresses: _Pods
) -> None:
    for number in range(_TRIED):
        addresses.create(f"pod-{number}", {})
    until("ten run", lambda: len(addresses.list_running()) == _ADDRESSES, _WITHIN)
    addresses.create("in-the-network-of-the-node", {}, hostNetwork=True)
    until("it runs", lambda: "in-the-network-of-the-node" in addresses.list_running(), _WITHIN)
    waiting = _TRIED - _ADDRESSES
    until("the others wait", lambda: len(addresses.find_waiting()) == waiting, _WITHIN)
    assert all(f"1 Insufficient {_ADDRESS}" in each for each in addresses.find_waiting())
    assert len(addresses.list_running()) == _ADDRESSES + 1

    running = [addresses.read(name) for name in addresses.list_running()]
    _recreate_node(site, kind_cluster)
    _until_amounts(site, _ADDRESS, str(_ADDRESSES))
    for each in running:
        _assert_same(addresses, each)

    addresses.delete(next(name for name in addresses.list_running() if name.startswith("pod-")))
    until("one that waited runs", lambda: len(addresses.find_waiting()) == waiting - 1, _WITHIN)
    until("ten run again", lambda: len(addresses.list_running()) == _ADDRESSES + 1, _WITHIN)
