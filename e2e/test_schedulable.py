"""What is said of nodes when pods are sent, held against what the scheduler then does with them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.advertised import DONGLES, advertise, advertised
from e2e.api import Object, api
from e2e.beside import see_that_gates_are_processes
from e2e.gates.process import GateProcess
from e2e.pods import pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Advertised, Cluster, Site
from e2e.registering import register, unregister
from e2e.site_node import restore_node
from e2e.waiting import until

_WITHIN = 60.0
_MEGABYTES = 2 * 1024 * 1024  # what is sent may have three; a dry run stores nothing
_DONGLE = "example.com/dongle"
_BANANAS = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
_NOT_NOW = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: room-now}
spec: {resources: [example.com/dongle], enforcement: warn, checks: {schedulable: not-now}}
"""


@pytest.fixture(scope="module")
def following(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """A gate that follows the cluster, with the shipped policies and one that asks for room now."""
    see_that_gates_are_processes(site)
    arguments = ("--cluster=kubeconfig", f"--kubeconfig={site.cluster.kubeconfig}")
    gate = GateProcess(tmp_path_factory.mktemp("gate"), arguments=arguments)
    gate.write_policies({**SHIPPED_FILES, "now.yaml": _NOT_NOW})
    gate.start()
    register(site.cluster, gate)
    yield gate
    unregister(site.cluster)
    gate.stop()


def _sent(cluster: Cluster, namespace: str, body: dict[str, Any]) -> str:
    """What whoever sends it is told when it is stored."""
    ours = api(cluster.kubeconfig)
    answer = ours.ask("POST", ours.collection(body, namespace), body)
    assert answer.is_done, answer.refusal
    return answer.told


def _would_be_said(cluster: Cluster, namespace: str, body: dict[str, Any]) -> str:
    """What whoever sends it would be told if it were stored now."""
    ours = api(cluster.kubeconfig)
    return ours.ask("POST", ours.collection(body, namespace), body, query={"dryRun": "All"}).told


def _until_told(cluster: Cluster, namespace: str, body: dict[str, Any], text: str) -> None:
    """Wait until that would be said: the gate sees what happens a moment later."""
    until(f"the gate says {text}", lambda: text in _would_be_said(cluster, namespace, body), _WITHIN)


def _until_nothing_is_told(cluster: Cluster, namespace: str, body: dict[str, Any]) -> None:
    """Wait until there is room: pods of other cases end a while after those cases."""
    until("the gate has nothing to say", lambda: not _would_be_said(cluster, namespace, body), _WITHIN)


def _asking(site: Site, name: str, limits: dict[str, str]) -> dict[str, Any]:
    """A pod for the scheduler that is there."""
    body = pod(site, name)
    body["spec"]["containers"][0]["resources"] = {"limits": limits}
    del body["spec"]["schedulerName"]
    return body


def _said_of(cluster: Cluster, namespace: str, name: str) -> str:
    """What the scheduler says of a pod, once it has tried it: nothing where it found a node."""
    found: list[dict[str, str]] = []

    def is_tried() -> bool:
        status = api(cluster.kubeconfig).get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]
        found[:] = [each for each in status.get("conditions", ()) if each["type"] == "PodScheduled"]
        return bool(found)

    until(f"the scheduler has tried {name}", is_tried, _WITHIN)
    return found[0].get("message", "")


def _on_nodes(cluster: Cluster, namespace: str) -> list[Object]:
    """The pods that the scheduler has found a node for."""
    return [
        each
        for each in api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")
        if "nodeName" in each["spec"]
    ]


@pytest.mark.usefixtures("following")
def test_who_asks_for_more_than_any_node_has_is_told_and_waits(site: Site, namespace: str) -> None:
    many = str(int(DONGLES[_DONGLE]) + 1)
    told = _sent(site.cluster, namespace, _asking(site, "large", {_DONGLE: many}))
    assert f"no node can ever run this pod: it requests {many} {_DONGLE}, the largest node has 4 (TG113" in told
    assert f"Insufficient {_DONGLE}" in _said_of(site.cluster, namespace, "large")


@pytest.mark.usefixtures("following")
def test_a_chimp_that_wants_more_bananas_than_any_node_has_is_told_the_most(site: Site, namespace: str) -> None:
    before = advertised(site.cluster, site.node)
    grown = {_BANANAS: "555"}
    advertise(site.cluster, site.node, Advertised({**before.capacity, **grown}, {**before.allocatable, **grown}))
    try:
        chimp = _asking(site, "superchimp", {_BANANAS: "10Ki"})
        most = f"it asks for 10240 {_BANANAS}, the largest node has 555 (TG113, rule somewhere-to-run"
        _until_told(site.cluster, namespace, chimp, most)
        assert f"no node can ever run this pod: {most}" in _sent(site.cluster, namespace, chimp)
        assert f"Insufficient {_BANANAS}" in _said_of(site.cluster, namespace, "superchimp")
    finally:
        advertise(site.cluster, site.node, before)


@pytest.mark.usefixtures("following")
def test_a_slip_in_a_name_is_told_with_the_right_one(site: Site, namespace: str) -> None:
    told = _sent(site.cluster, namespace, _asking(site, "slip", {f"{_DONGLE}s": "1"}))
    assert f"no node advertises {_DONGLE}s: did you mean {_DONGLE}?" in told
    assert f"Insufficient {_DONGLE}s" in _said_of(site.cluster, namespace, "slip")


@pytest.mark.usefixtures("following")
def test_of_what_a_device_class_stands_for_nothing_is_said_until_it_has_gone(site: Site, namespace: str) -> None:
    cluster, resource = site.cluster, "example.com/tallygate-licence"
    made = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "tallygate-licences"},
        "spec": {"extendedResourceName": resource},
    }
    asking, told = _asking(site, "licensed", {resource: "1"}), f"no node advertises {resource}"
    _until_told(cluster, namespace, asking, told)
    classes = api(cluster.kubeconfig).collection(made, namespace)
    api(cluster.kubeconfig).create(classes, made)
    try:
        _until_nothing_is_told(cluster, namespace, asking)
        by_class = _asking(site, "by-class", {"deviceclass.resource.kubernetes.io/tallygate-licence": "1"})
        _until_told(cluster, namespace, by_class, "DeviceClass tallygate-licence does not exist, so no node can run")
        assert _sent(cluster, namespace, asking) == ""
    finally:
        api(cluster.kubeconfig).delete(f"{classes}/tallygate-licences")
    _until_told(cluster, namespace, _asking(site, "another", {resource: "1"}), told)


@pytest.mark.usefixtures("following")
def test_a_pod_of_megabytes_of_affinity_is_let_through_unjudged_and_others_are_judged(
    site: Site, namespace: str
) -> None:
    terms = [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": f"app-{number}"}}}
        for number in range(25_000)
    ]
    large = _asking(site, "large", {_DONGLE: "1"})
    large["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert len(json.dumps(large)) > _MEGABYTES
    said = _would_be_said(site.cluster, namespace, large)
    assert "what the pod says of nodes and other pods is too much to go through" in said
    many = _asking(site, "many", {_DONGLE: str(int(DONGLES[_DONGLE]) + 1)})
    _until_told(site.cluster, namespace, many, "TG113")


@pytest.mark.usefixtures("following")
def test_what_others_hold_is_seen_and_told_in_the_schedulers_words(site: Site, namespace: str) -> None:
    cluster, first = site.cluster, _asking(site, "first", {_DONGLE: "3"})
    _until_nothing_is_told(cluster, namespace, first)
    assert _sent(cluster, namespace, first) == ""
    until("the first is on a node", lambda: len(_on_nodes(cluster, namespace)) == 1, _WITHIN)
    _until_told(cluster, namespace, _asking(site, "second", {_DONGLE: "2"}), "TG114")
    told = _sent(cluster, namespace, _asking(site, "second", {_DONGLE: "2"}))
    said = _said_of(cluster, namespace, "second").rstrip(".")
    assert f"no node is feasible for this pod now: {said} (TG114, rule room-now)" in told


@pytest.mark.usefixtures("following")
def test_a_workload_is_told_how_many_of_its_pods_fit_and_so_many_run(site: Site, namespace: str) -> None:
    restore_node(site, namespace)
    cluster, labels = site.cluster, {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": _asking(site, "web", {_DONGLE: "1"})["spec"]}
    spec = {"replicas": 6, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    _until_told(cluster, namespace, body, "only 4 of 6 replicas fit now: 0/")
    assert "only 4 of 6 replicas fit now: 0/" in _sent(cluster, namespace, body)
    until("four of them are on nodes", lambda: len(_on_nodes(cluster, namespace)) == int(DONGLES[_DONGLE]), _WITHIN)
