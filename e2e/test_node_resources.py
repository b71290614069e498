"""Amounts that a gate publishes on nodes of KWOK, and keeps there: kubelets, labels, new nodes, pods, and a storm."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from e2e.api import api
from e2e.command_output import run_kubectl
from e2e.extra_gates import run_watching_gate
from e2e.gates.process import GateProcess
from e2e.installation.rendered import KUSTOMIZE
from e2e.local.cluster import LocalCluster
from e2e.local.nodes import add_nodes, node
from e2e.node_resources import read_advertised
from e2e.ports import Cluster, Site
from e2e.service_account import gates_account
from e2e.waiting import until
from tallygate.kube.config import load_kubeconfig
from tallygate.kube.informer import Informer
from tallygate.kube.resource_codec import Bookmark, Changed, Deleted, WatchEvent
from tallygate.state.informers.node_records import OWNED_NODE_CODEC, OwnedNodeRecord

_WITHIN = 240.0  # seconds, until a node has what it should have
_STORM_NODES = 200
_LICENCE, _ADDRESS, _GBIT, _CHUNK = ("example.com/licence", "example.com/ip", "example.com/gbit", "example.com/chunk")
_POLICY = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NodeResource
metadata: {{name: published}}
spec:
  nodes: {{selector: {{matchLabels: {{pool: published}}}}}}
  resources:
    {_LICENCE}: 8
    {_ADDRESS}: {{from: podCIDR, minus: 3}}
    {_GBIT}: {{fromLabel: net.example.com/gbit}}
    {_CHUNK}: {{fromCapacity: ephemeral-storage, unit: 100Gi}}
"""
_NOTHING = """\
apiVersion: tallygate.dev/v1alpha1
kind: NodeResource
metadata: {name: elsewhere}
spec: {nodes: {selector: {matchLabels: {pool: nowhere}}}, resources: {example.com/licence: 8}}
"""
_WHOLE = {_LICENCE: "8", _ADDRESS: "13", _GBIT: "25", _CHUNK: "9"}


@pytest.fixture(scope="module", autouse=True)
def _local(site: Site) -> None:
    if not isinstance(site.cluster, LocalCluster):
        pytest.skip("its nodes are made of KWOK")


@pytest.fixture(scope="module")
def publisher(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate that publishes amounts, with the rights of its components and nothing more."""
    folder = tmp_path_factory.mktemp("publisher")
    account = gates_account(site.cluster, folder, "cluster-access", "publish-nodes")
    policies, arguments = {"published.yaml": _POLICY}, ("--publish-nodes=on",)
    with run_watching_gate(site, folder / "g", policies, arguments=arguments, kubeconfig=account) as gate:
        yield gate
    # an installation without this component would leave its rights behind
    rights = KUSTOMIZE / "components" / "publish-nodes" / "rbac.yaml"
    run_kubectl(site.cluster, "delete", "--ignore-not-found", f"--filename={rights}")


@pytest.fixture
def name(site: Site, publisher: GateProcess) -> Iterator[str]:
    """Create a node that gets all amounts, wait until it has them, and delete it after the case."""
    publisher.write_policies({"published.yaml": _POLICY})
    made = _create(site.cluster, "published-1")
    yield made
    api(site.cluster.kubeconfig).delete(f"/api/v1/nodes/{made}")


def _manifest(name: str, pool: str = "published", gbit: str = "25") -> dict[str, Any]:
    made = node(name, {"ephemeral-storage": "999Gi"})
    made["metadata"]["labels"] |= {"pool": pool, "net.example.com/gbit": gbit}
    made["spec"] = {"podCIDR": "10.0.7.0/28", "podCIDRs": ["10.0.7.0/28"]}
    return made


def _create(cluster: Cluster, name: str) -> str:
    assert isinstance(cluster, LocalCluster)
    add_nodes(cluster, _manifest(name))
    _until_published(cluster, name, _WHOLE)
    return name


def _read(cluster: Cluster, name: str) -> dict[str, str] | None:
    """Return the amounts of a node; None while capacity and allocatable differ."""
    read = read_advertised(cluster, name)
    return dict(read.capacity) if read.capacity == read.allocatable else None


def _until_published(cluster: Cluster, name: str, amounts: dict[str, str]) -> None:
    until(f"{name} has {amounts}", lambda: _read(cluster, name) == amounts, _WITHIN)


def _patch_status(cluster: Cluster, name: str, amounts: dict[str, str], manager: str) -> None:
    patch = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
    command = ("patch", "node", name, "--subresource=status", "--type=merge", f"--field-manager={manager}")
    run_kubectl(cluster, *command, f"--patch={patch}")


def _count_writes(gate: GateProcess) -> int:
    found = re.findall(r'^tallygate_node_resource_writes_total\{result="written"\} (.+)$', gate.metrics(), re.MULTILINE)
    return int(float(found[0]))


def test_a_node_gets_its_amounts_and_a_kubelet_that_resets_them_does_not_win(cluster: Cluster, name: str) -> None:
    _patch_status(cluster, name, dict.fromkeys(_WHOLE, "0"), "kubelet")
    _until_published(cluster, name, _WHOLE)


def test_a_changed_label_changes_the_amount_and_a_missing_one_removes_it(cluster: Cluster, name: str) -> None:
    run_kubectl(cluster, "label", "--overwrite", "node", name, "net.example.com/gbit=100")
    _until_published(cluster, name, {**_WHOLE, _GBIT: "100"})
    run_kubectl(cluster, "label", "node", name, "net.example.com/gbit-")
    _until_published(cluster, name, {key: amount for key, amount in _WHOLE.items() if key != _GBIT})
    run_kubectl(cluster, "label", "--overwrite", "node", name, "pool=other")
    _until_published(cluster, name, {})


def test_a_node_of_the_same_name_gets_its_amounts_again(cluster: Cluster, name: str) -> None:
    api(cluster.kubeconfig).delete(f"/api/v1/nodes/{name}")
    _create(cluster, name)


def test_a_device_plugin_wins_and_the_other_amounts_stay(cluster: Cluster, name: str, publisher: GateProcess) -> None:
    _patch_status(cluster, name, {_LICENCE: "4"}, "kubelet")
    run_kubectl(cluster, "label", "--overwrite", "node", name, "net.example.com/gbit=100")
    _until_published(cluster, name, {**_WHOLE, _LICENCE: "4", _GBIT: "100"})
    until("the metric counts it", lambda: 'amounts{state="problem"} 1.0' in publisher.metrics(), _WITHIN)


def test_what_pods_use_stays_until_they_end_although_the_policy_is_taken_away(
    site: Site, name: str, namespace: str, publisher: GateProcess
) -> None:
    container = {"name": "main", "image": site.image, "resources": {"limits": {_LICENCE: "3"}}}
    spec = {"containers": [container], "nodeSelector": {"pool": "published"}}
    content = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/pods"
    api(site.cluster.kubeconfig).create(path, content)
    running = lambda: api(site.cluster.kubeconfig).get(f"{path}/user")["status"].get("phase") == "Running"  # noqa: E731
    until("the pod runs", running, _WITHIN)
    publisher.write_policies({"published.yaml": _NOTHING})
    _until_published(site.cluster, name, {_LICENCE: "3"})
    until("the metric counts it", lambda: 'amounts{state="retained"} 1.0' in publisher.metrics(), _WITHIN)
    api(site.cluster.kubeconfig).delete(f"{path}/user", gracePeriodSeconds="0")
    _until_published(site.cluster, name, {})


def test_a_client_that_edits_an_amount_is_corrected_but_not_for_ever(
    cluster: Cluster, name: str, publisher: GateProcess
) -> None:
    for _ in range(3):
        _patch_status(cluster, name, {_LICENCE: "5"}, "kubectl-edit")
        _until_published(cluster, name, _WHOLE)
    _patch_status(cluster, name, {_LICENCE: "5"}, "kubectl-edit")
    until("it is a problem", lambda: 'amounts{state="problem"} 1.0' in publisher.metrics(), _WITHIN)
    assert _read(cluster, name) == {**_WHOLE, _LICENCE: "5"}


class _WriteCounter:
    """A watch of the nodes that counts the changes of their amounts, of their managers, and of nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self.changes: Counter[str] = Counter()
        self._last: dict[str, OwnedNodeRecord] = {}
        self.informer = Informer(OWNED_NODE_CODEC, load_kubeconfig(cluster.kubeconfig), self._apply, lambda: 0)

    def _apply(self, event: WatchEvent[OwnedNodeRecord]) -> None:
        if isinstance(event, Bookmark):
            return
        if isinstance(event, Deleted):
            self._last.pop(event.item.uid, None)
            return
        for each in [event.item] if isinstance(event, Changed) else event.items:
            last = self._last.get(each.uid)
            if last is not None and isinstance(event, Changed):
                self.changes["amounts" if last.node.status != each.node.status else "other"] += 1
            self._last[each.uid] = each


def test_a_storm_of_new_nodes_and_labels_converges_without_a_vain_write(
    site: Site, publisher: GateProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compare the number of the gate's writes with the changes of amounts that a watch of the nodes has seen."""
    cluster = site.cluster
    publisher.write_policies({"published.yaml": _POLICY})
    names = [f"storm-{number:03}" for number in range(_STORM_NODES)]
    before = _count_writes(publisher)
    counter = _WriteCounter(cluster)
    counter.informer.start()
    client = api(cluster.kubeconfig)
    try:
        # What it lists is no change to it.
        until("the watch has begun", lambda: counter.informer.get_status().lists > 0, _WITHIN)
        for each in names:
            client.create("/api/v1/nodes", _manifest(each))
        wanted = dict.fromkeys(names, "25")
        for number, each in enumerate(names):
            if number % 2:
                wanted[each] = f"{number}"
                client.patch(f"/api/v1/nodes/{each}", {"metadata": {"labels": {"net.example.com/gbit": f"{number}"}}})
            if number % 5 == 0:
                client.delete(f"/api/v1/nodes/{each}")
                client.create("/api/v1/nodes", _manifest(each, gbit="40"))
                wanted[each] = "40"
        until("all nodes have their amounts", partial(_have_converged, cluster, wanted), _WITHIN)
        publisher.write_policies({"published.yaml": _POLICY, "elsewhere.yaml": _NOTHING})
        client.create("/api/v1/nodes", _manifest("storm-last"))
        _until_published(cluster, "storm-last", _WHOLE)
        writes = _count_writes(publisher) - before
        until("the watch has seen it", lambda: counter.changes["amounts"] >= writes, _WITHIN)
        with capsys.disabled():
            print(f"\nstorm: {_STORM_NODES} nodes, {writes} writes, changes seen: {dict(counter.changes)}")  # noqa: T201
        assert _STORM_NODES < writes <= counter.changes["amounts"]
    finally:
        counter.informer.stop()
        for each in (*names, "storm-last"):
            client.delete(f"/api/v1/nodes/{each}")


def _have_converged(cluster: Cluster, gbits: dict[str, str]) -> bool:
    items = api(cluster.kubeconfig).items("/api/v1/nodes", labelSelector="pool=published")
    found = {each["metadata"]["name"]: each["status"] for each in items}
    return all(
        found[name]["capacity"].get(_GBIT) == found[name]["allocatable"].get(_GBIT) == gbit
        and found[name]["allocatable"].get(_LICENCE) == "8"
        for name, gbit in gbits.items()
    )
