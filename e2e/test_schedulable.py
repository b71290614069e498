"""Warnings about nodes for created pods, compared with what the scheduler then does with them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.api import Object, api
from e2e.extra_gates import require_gate_process
from e2e.gates.process import GateProcess
from e2e.local.cluster import LocalCluster
from e2e.node_resources import DONGLES, advertise, read_advertised
from e2e.pods import pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import AdvertisedResources, Cluster, Site
from e2e.registering import register, unregister
from e2e.suite_node import restore_node
from e2e.waiting import until

_WITHIN = 60.0
_MEGABYTES = 2 * 1024 * 1024  # a request may have three; a dry run stores nothing
_DONGLE = "example.com/dongle"
_BANANAS = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
_NOT_NOW = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: room-now}
spec: {resources: [example.com/dongle], enforcement: warn, checks: {schedulable: not-now}}
"""


@pytest.fixture(scope="module")
def watching_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate that watches the cluster, with the shipped policies and one that requires a feasible node now."""
    require_gate_process(site)
    arguments = ("--cluster=kubeconfig", f"--kubeconfig={site.cluster.kubeconfig}")
    gate = GateProcess(tmp_path_factory.mktemp("gate"), arguments=arguments)
    gate.write_policies({**SHIPPED_FILES, "now.yaml": _NOT_NOW})
    gate.start()
    register(site.cluster, gate)
    yield gate
    unregister(site.cluster)
    gate.stop()


def _send(cluster: Cluster, namespace: str, body: dict[str, Any]) -> str:
    """Create an object, and return the messages."""
    ours = api(cluster.kubeconfig)
    answer = ours.ask("POST", ours.collection(body, namespace), body)
    assert answer.is_done, answer.rejection
    return answer.messages


def _ask_dry(cluster: Cluster, namespace: str, body: dict[str, Any]) -> str:
    """Return the messages of its creation, as a dry run."""
    ours = api(cluster.kubeconfig)
    return ours.ask("POST", ours.collection(body, namespace), body, query={"dryRun": "All"}).messages


def _until_warned(cluster: Cluster, namespace: str, body: dict[str, Any], text: str) -> None:
    """Wait until a dry run returns this text: the gate sees a change a moment later."""
    until(f"the gate says {text}", lambda: text in _ask_dry(cluster, namespace, body), _WITHIN)


def _until_not_warned(cluster: Cluster, namespace: str, body: dict[str, Any]) -> None:
    """Wait until a dry run returns no message: pods of other cases end a while after those cases."""
    until("the gate has nothing to say", lambda: not _ask_dry(cluster, namespace, body), _WITHIN)


def _asking(site: Site, name: str, limits: dict[str, str]) -> dict[str, Any]:
    """Return a pod for the default scheduler."""
    body = pod(site, name)
    body["spec"]["containers"][0]["resources"] = {"limits": limits}
    del body["spec"]["schedulerName"]
    return body


def _read_scheduler_message(cluster: Cluster, namespace: str, name: str) -> str:
    """Return the scheduler's message about a pod, once it has tried it: empty if it found a node."""
    found: list[dict[str, str]] = []

    def is_tried() -> bool:
        status = api(cluster.kubeconfig).get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]
        found[:] = [each for each in status.get("conditions", ()) if each["type"] == "PodScheduled"]
        return bool(found)

    until(f"the scheduler has tried {name}", is_tried, _WITHIN)
    return found[0].get("message", "")


def _list_scheduled(cluster: Cluster, namespace: str) -> list[Object]:
    """Return the pods that have a node."""
    return [
        each
        for each in api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")
        if "nodeName" in each["spec"]
    ]


@pytest.mark.usefixtures("watching_gate")
def test_a_request_of_more_than_any_node_has_gets_a_warning_and_waits(site: Site, namespace: str) -> None:
    many = str(int(DONGLES[_DONGLE]) + 1)
    warning = _send(site.cluster, namespace, _asking(site, "large", {_DONGLE: many}))
    assert f"no node can ever run this pod: it requests {many} {_DONGLE}, the largest node has 4 (TG113" in warning
    assert f"Insufficient {_DONGLE}" in _read_scheduler_message(site.cluster, namespace, "large")


@pytest.mark.usefixtures("watching_gate")
def test_a_chimp_that_requests_more_bananas_than_any_node_has_is_warned_of_the_maximum(
    site: Site, namespace: str
) -> None:
    before = read_advertised(site.cluster, site.node)
    grown = {_BANANAS: "555"}
    advertise(
        site.cluster, site.node, AdvertisedResources({**before.capacity, **grown}, {**before.allocatable, **grown})
    )
    try:
        chimp = _asking(site, "superchimp", {_BANANAS: "10Ki"})
        most = f"it requests 10240 {_BANANAS}, the largest node has 555 (TG113, rule somewhere-to-run"
        _until_warned(site.cluster, namespace, chimp, most)
        assert f"no node can ever run this pod: {most}" in _send(site.cluster, namespace, chimp)
        assert f"Insufficient {_BANANAS}" in _read_scheduler_message(site.cluster, namespace, "superchimp")
    finally:
        advertise(site.cluster, site.node, before)


@pytest.mark.usefixtures("watching_gate")
def test_a_pod_that_waits_for_unhealthy_devices_is_warned_of_now_and_not_of_never(site: Site, namespace: str) -> None:
    """Play the kubelet of a node whose dongles are all unhealthy: its plugin reports them in the capacity alone."""
    if not isinstance(site.cluster, LocalCluster):
        pytest.skip("a real kubelet writes its own amounts")
    restore_node(site, namespace)
    before = read_advertised(site.cluster, site.node)
    advertise(site.cluster, site.node, AdvertisedResources(before.capacity, {**before.allocatable, _DONGLE: "0"}))
    waiting, large = (_asking(site, f"asks-{number}", {_DONGLE: str(number)}) for number in (1, 5))
    try:
        _until_warned(site.cluster, namespace, waiting, f"4 of 4 {_DONGLE} unhealthy on {site.node} (TG114")
        assert "TG112" not in _ask_dry(site.cluster, namespace, waiting)
        assert "TG113" not in _ask_dry(site.cluster, namespace, waiting)
        assert f"it requests 5 {_DONGLE}, the largest node has 4 (TG113" in _ask_dry(site.cluster, namespace, large)
        _send(site.cluster, namespace, waiting)
        assert f"Insufficient {_DONGLE}" in _read_scheduler_message(site.cluster, namespace, "asks-1")
    finally:
        advertise(site.cluster, site.node, before)
    until("the pod has its node", lambda: bool(_list_scheduled(site.cluster, namespace)), _WITHIN)


@pytest.mark.usefixtures("watching_gate")
def test_a_misspelt_name_is_reported_with_the_right_one(site: Site, namespace: str) -> None:
    warning = _send(site.cluster, namespace, _asking(site, "slip", {f"{_DONGLE}s": "1"}))
    assert f"no node advertises {_DONGLE}s: did you mean {_DONGLE}?" in warning
    assert f"Insufficient {_DONGLE}s" in _read_scheduler_message(site.cluster, namespace, "slip")


@pytest.mark.usefixtures("watching_gate")
def test_no_warning_names_the_resource_of_a_device_class_with_devices(site: Site, namespace: str) -> None:
    cluster, resource = site.cluster, "example.com/tallygate-licence"
    pool = {"name": "licences", "generation": 1, "resourceSliceCount": 1}
    sliced = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "tallygate-licences"},
        "spec": {"driver": "licences.tallygate.dev", "allNodes": True, "pool": pool, "devices": [{"name": "l0"}]},
    }
    made = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "tallygate-licences"},
        "spec": {"extendedResourceName": resource},
    }
    asking, warning = _asking(site, "licensed", {resource: "1"}), f"no node advertises {resource}"
    _until_warned(cluster, namespace, asking, warning)
    classes = api(cluster.kubeconfig).collection(made, namespace)
    stored = api(cluster.kubeconfig).create(classes, made)
    try:
        if "extendedResourceName" not in stored["spec"]:
            pytest.skip("this release drops the name, since DRAExtendedResource is off by default")
        served_by_none = "no ResourceSlice publishes a device of class tallygate-licences"
        _until_warned(cluster, namespace, asking, served_by_none)
        slices = api(cluster.kubeconfig).collection(sliced, namespace)
        api(cluster.kubeconfig).create(slices, sliced)
        _until_not_warned(cluster, namespace, asking)
        by_class = _asking(site, "by-class", {"deviceclass.resource.kubernetes.io/tallygate-licence": "1"})
        _until_warned(
            cluster, namespace, by_class, "no DeviceClass tallygate-licence: did you mean tallygate-licences?"
        )
        assert _send(cluster, namespace, asking) == ""
    finally:
        api(cluster.kubeconfig).delete(f"{classes}/tallygate-licences")
        api(cluster.kubeconfig).delete("/apis/resource.k8s.io/v1/resourceslices/tallygate-licences")
    _until_warned(cluster, namespace, _asking(site, "another", {resource: "1"}), warning)


@pytest.mark.usefixtures("watching_gate")
def test_a_claim_of_more_devices_than_a_node_has_gets_a_warning_and_the_pod_waits(site: Site, namespace: str) -> None:
    driver, ours = "devices.tallygate.dev", api(site.cluster.kubeconfig)
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    pool = {"name": site.node, "generation": 1, "resourceSliceCount": 1}
    sliced = {"driver": driver, "nodeName": site.node, "pool": pool, "devices": [{"name": "d0"}, {"name": "d1"}]}
    exactly = {"deviceClassName": "tallygate-devices", "allocationMode": "ExactCount", "count": 3}
    shared = [
        {"kind": "DeviceClass", "metadata": {"name": "tallygate-devices"}, "spec": {"selectors": [selector]}},
        {"kind": "ResourceSlice", "metadata": {"name": "tallygate-devices"}, "spec": sliced},
    ]
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "three"},
        "spec": {"devices": {"requests": [{"name": "all", "exactly": exactly}]}},
    }
    made = [{"apiVersion": "resource.k8s.io/v1", **each} for each in (*shared, claim)]
    for each in made:
        ours.create(ours.collection(each, namespace), each)
    try:
        claiming = _asking(site, "claiming", {})
        claiming["spec"]["resourceClaims"] = [{"name": "all", "resourceClaimName": "three"}]
        lacking = f"pool {driver}/{site.node} of node {site.node}: 2 devices, 2 suitable (TG113"
        _until_warned(site.cluster, namespace, claiming, lacking)
        assert lacking in _send(site.cluster, namespace, claiming)
        assert "cannot allocate all claims" in _read_scheduler_message(site.cluster, namespace, "claiming")
    finally:
        for each in made[:2]:
            ours.delete(f"{ours.collection(each, namespace)}/tallygate-devices")


@pytest.mark.usefixtures("watching_gate")
def test_a_pod_of_megabytes_of_affinity_is_accepted_unevaluated_and_others_are_evaluated(
    site: Site, namespace: str
) -> None:
    terms = [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": f"app-{number}"}}}
        for number in range(25_000)
    ]
    large = _asking(site, "large", {_DONGLE: "1"})
    large["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert len(json.dumps(large)) > _MEGABYTES
    message = _ask_dry(site.cluster, namespace, large)
    assert "the pod's constraints on nodes and other pods are too complex" in message
    many = _asking(site, "many", {_DONGLE: str(int(DONGLES[_DONGLE]) + 1)})
    _until_warned(site.cluster, namespace, many, "TG113")


@pytest.mark.usefixtures("watching_gate")
def test_the_use_of_other_pods_is_seen_and_reported_in_the_schedulers_words(site: Site, namespace: str) -> None:
    cluster, first = site.cluster, _asking(site, "first", {_DONGLE: "3"})
    _until_not_warned(cluster, namespace, first)
    assert _send(cluster, namespace, first) == ""
    until("the first is on a node", lambda: len(_list_scheduled(cluster, namespace)) == 1, _WITHIN)
    _until_warned(cluster, namespace, _asking(site, "second", {_DONGLE: "2"}), "TG114")
    warning = _send(cluster, namespace, _asking(site, "second", {_DONGLE: "2"}))
    message = _read_scheduler_message(cluster, namespace, "second").rstrip(".")
    assert f"no node is feasible for this pod now: {message} (TG114, rule room-now)" in warning


@pytest.mark.usefixtures("watching_gate")
def test_a_warning_says_how_many_pods_of_a_workload_fit_and_that_number_runs(site: Site, namespace: str) -> None:
    restore_node(site, namespace)
    cluster, labels = site.cluster, {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": _asking(site, "web", {_DONGLE: "1"})["spec"]}
    spec = {"replicas": 6, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    _until_warned(cluster, namespace, body, "only 4 of 6 replicas fit now: 0/")
    assert "only 4 of 6 replicas fit now: 0/" in _send(cluster, namespace, body)
    until(
        "four of them are on nodes", lambda: len(_list_scheduled(cluster, namespace)) == int(DONGLES[_DONGLE]), _WITHIN
    )
