"""Devices that a driver publishes and a kubelet gives to containers: under a cap, and as predicted before.

The prediction names the node and the devices of each request before the pod exists; kube-scheduler allocates the same.
"""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from e2e.api import Api, Object, api
from e2e.claims import (
    ROOT,
    claim,
    claim_template,
    claiming_pod,
    count_devices,
    exactly,
    first_available,
    list_allocated,
)
from e2e.command_output import run_kubectl, run_tallygate
from e2e.dra_driver.build import build_driver_image
from e2e.dra_driver.manifests import DRIVER, NAMESPACE, list_driver_objects
from e2e.image import temporary_image
from e2e.installation.admin_shell import AdminShell
from e2e.installation.install_methods import KustomizeInstall
from e2e.installation.installed_checks import read_logs, until_it_rejects
from e2e.installation.vacant_cluster import vacate
from e2e.kind.cluster import KindCluster
from e2e.namespaces import new_namespace
from e2e.ports import Cluster, NotHereError, Site
from e2e.waiting import until

_WITHIN = 300.0  # seconds; the controller waits longer after each refusal of a claim
_DEVICES = 4
_COUNTED = f"{DRIVER}.deviceclass.resource.k8s.io/devices"
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: gpus}}
spec:
  namespaces: {{include: [{namespace}]}}
  hard: {{{counted}: 2}}
"""


@pytest.fixture(scope="module")
def driver_cluster(site: Site) -> Iterator[KindCluster]:
    """Run the driver; yield the cluster, whose node has four devices."""
    cluster = site.cluster
    if not isinstance(cluster, KindCluster):
        raise NotHereError("it takes a kubelet with a driver for devices, whose image only the nodes of kind get")
    with temporary_image("tallygate-dra-driver", build_driver_image) as image:
        cluster.load(image)
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": list_driver_objects(image, _DEVICES)})
        run_kubectl(cluster, "apply", "--server-side", "--filename=-", stdin=manifest)
        try:
            until("the devices are published", lambda: _has_slices(cluster), _WITHIN, lambda: _describe(cluster))
            yield cluster
        finally:
            run_kubectl(cluster, "delete", "--ignore-not-found", "--wait=false", "--filename=-", stdin=manifest)


@pytest.fixture(scope="module")
def namespace_under_cap(
    site: Site, driver_cluster: KindCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Run two gates; yield a namespace that may use two of the four devices."""
    shell, way = AdminShell(driver_cluster, tmp_path_factory.mktemp("driver")), KustomizeInstall("ha")
    with vacate(site) as vacant, new_namespace(driver_cluster) as namespace:
        try:
            way.install(shell, vacant.image, _CAP.format(namespace=namespace, counted=_COUNTED))
            until_it_rejects(driver_cluster)
            yield namespace
            way.uninstall(shell)
        finally:
            _remove_pods(driver_cluster, namespace)


def test_a_third_pod_of_a_template_runs_once_one_of_two_has_returned_its_device(
    site: Site, namespace_under_cap: str
) -> None:
    ours, pods = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{namespace_under_cap}/pods"
    templates = f"{ROOT}/namespaces/{namespace_under_cap}/resourceclaimtemplates"
    ours.create(templates, claim_template("one-gpu", exactly(1, DRIVER)))
    for number in range(3):
        ours.create(pods, claiming_pod(site.image, f"pod-{number}", resourceClaimTemplateName="one-gpu"))
    until("two pods run", lambda: len(_list_running(ours, pods)) == 2, _WITHIN, lambda: read_logs(site.cluster))
    until("an event has the reason", lambda: _has_reason(ours, namespace_under_cap), _WITHIN)
    assert count_devices(site.cluster, namespace_under_cap) == 2
    first, _ = running = _list_running(ours, pods)
    ours.delete(f"{pods}/{first}", gracePeriodSeconds="1")
    (third,) = {f"pod-{number}" for number in range(3)} - set(running)
    until("the third runs", lambda: third in _list_running(ours, pods), _WITHIN, lambda: read_logs(site.cluster))
    assert count_devices(site.cluster, namespace_under_cap) == 2


class _Step(NamedTuple):
    """A pod with a claim of its own or one that others share, its verdict, and the requests and devices that it gets.

    `ends` is the pod whose devices are given back before.
    """

    pod: str
    claim: str
    request: Object
    verdict: str
    devices: Mapping[str, str] = {}
    ends: str = ""


def _any_devices(count: int) -> Object:
    return exactly(count, DRIVER)


_EVERY = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "allocationMode": "All"}}
_LAST = {"cel": {"expression": f'device.attributes["{DRIVER}"].index == {_DEVICES - 1}'}}
_FREED_PAIR = {"gpu-0": "gpu/choice-1", "gpu-1": "gpu/choice-1"}
_NOW, _WAITS, _NEVER = "fits now", "not now", "never on these nodes"
_STEPS = (
    _Step("every", "every", _EVERY, _NOW, {f"gpu-{number}": "gpu" for number in range(_DEVICES)}),
    _Step("pair", "pair", _any_devices(2), _NOW, {"gpu-0": "gpu", "gpu-1": "gpu"}, ends="every"),
    _Step("last", "last", exactly(1, DRIVER, selectors=[_LAST]), _NOW, {"gpu-3": "gpu"}),
    _Step("shares", "shared", _any_devices(1), _NOW, {"gpu-2": "gpu"}),
    _Step("shares-too", "shared", _any_devices(1), _NOW, {"gpu-2": "gpu"}),
    _Step("waits", "waits", exactly(1, DRIVER, selectors=[_LAST]), _WAITS),
    _Step("never", "never", _any_devices(_DEVICES + 1), _NEVER),
    _Step("either", "either", first_available(3, 2, device_class_name=DRIVER), _NOW, _FREED_PAIR, ends="pair"),
)


@pytest.mark.usefixtures("driver_cluster")
def test_each_pod_gets_the_devices_that_were_predicted_before_it_was_created(site: Site, namespace: str) -> None:
    ours, pods = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{namespace}/pods"
    try:
        for step in _STEPS:
            _compare(site, namespace, step)
        waiting = {each["metadata"]["name"] for each in ours.items(pods) if each["status"]["phase"] == "Pending"}
        assert waiting == {each.pod for each in _STEPS if each.verdict != _NOW}
    finally:
        _remove_pods(site.cluster, namespace)


def _compare(site: Site, namespace: str, step: _Step) -> None:
    """Compare the prediction with the table, then the pod and its claim with the prediction."""
    ours, pods = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{namespace}/pods"
    _prepare(site.cluster, namespace, step)
    written = _create_pod(site, step)
    found = _predict(site.cluster, namespace, written)
    predicted = {each["device"]: each["request"] for each in found["devices"]}
    assert (step.pod, found["verdict"], predicted) == (step.pod, step.verdict, step.devices)
    ours.create(pods, written)
    if step.verdict == _NOW:
        until(f"{step.pod} runs", lambda: step.pod in _list_running(ours, pods), _WITHIN)
        assert found["on"] == [{"node": ours.get(f"{pods}/{step.pod}")["spec"]["nodeName"], "copies": 1}]
        assert list_allocated(site.cluster, namespace, _find_claim(ours, pods, step.pod)) == [
            (each["request"], each["pool"], each["device"]) for each in found["devices"]
        ]
    else:
        until(f"{step.pod} was tried", lambda: bool(_read_message(ours, pods, step.pod)), _WITHIN)
        assert _read_message(ours, pods, step.pod) == found["message"]


def _prepare(cluster: Cluster, namespace: str, step: _Step) -> None:
    """End the pod that the step names, and wait for its devices; create the step's template, or the shared claim."""
    ours, root = api(cluster.kubeconfig), f"{ROOT}/namespaces/{namespace}"
    if step.ends:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        made = f"{root}/resourceclaims/{_find_claim(ours, pods, step.ends)}"
        ours.delete(f"{pods}/{step.ends}", gracePeriodSeconds="1")
        until(f"the claim of {step.ends} is deleted", lambda: ours.find(made) is None, _WITHIN)
    if step.claim == step.pod:
        ours.create(f"{root}/resourceclaimtemplates", claim_template(step.claim, step.request))
    elif ours.find(f"{root}/resourceclaims/{step.claim}") is None:
        ours.create(f"{root}/resourceclaims", claim(step.claim, step.request))


def _create_pod(site: Site, step: _Step) -> Object:
    reference = "resourceClaimTemplateName" if step.claim == step.pod else "resourceClaimName"
    return claiming_pod(site.image, step.pod, **{reference: step.claim})


def _predict(cluster: Cluster, namespace: str, written: Object) -> Object:
    asked = ("predict", "-f", "-", "--namespace", namespace, "-o", "json", "--kubeconfig", str(cluster.kubeconfig))
    (found,) = json.loads(run_tallygate(cluster, *asked, stdin=json.dumps(written)).stdout)["items"]
    return dict(found)


def _find_claim(ours: Api, pods: str, name: str) -> str:
    """Return the name of the claim of a pod, also of the one that is made from its template."""
    stored = ours.get(f"{pods}/{name}")
    made = stored["status"].get("resourceClaimStatuses", ())
    (found,) = (each["resourceClaimName"] for each in made or stored["spec"]["resourceClaims"])
    return str(found)


def _read_message(ours: Api, pods: str, name: str) -> str:
    """Return the message of kube-scheduler about a pod that it could not place; empty before it has tried."""
    conditions = ours.get(f"{pods}/{name}")["status"].get("conditions", ())
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def _remove_pods(cluster: Cluster, namespace: str) -> None:
    """Delete the pods, and wait: without their driver, the kubelet can not end them, and they stay on the node."""
    ours, pods = api(cluster.kubeconfig), f"/api/v1/namespaces/{namespace}/pods"
    ours.delete(pods, gracePeriodSeconds="1")
    until("no pod has a device", lambda: not ours.items(pods), _WITHIN)


def _list_running(ours: Api, pods: str) -> list[str]:
    return [each["metadata"]["name"] for each in ours.items(pods) if each["status"].get("phase") == "Running"]


def _has_reason(ours: Api, namespace: str) -> bool:
    """Return whether an event has the cap and its arithmetic."""
    reason = f"cap gpus of this namespace exceeded: requested 1 {_COUNTED}, used 2"
    return any(reason in each.get("message", "") for each in ours.items(f"/api/v1/namespaces/{namespace}/events"))


def _has_slices(cluster: Cluster) -> bool:
    return any(each["spec"]["driver"] == DRIVER for each in api(cluster.kubeconfig).items(f"{ROOT}/resourceslices"))


def _describe(cluster: Cluster) -> str:
    """Return the description of the driver's pods, and their logs."""
    namespace = f"--namespace={NAMESPACE}"
    logs = cluster.kubectl("logs", namespace, "--selector=app=dra-example-driver", "--tail=40").stdout
    return cluster.kubectl("describe", "pods", namespace).stdout[-3000:] + logs
