"""Devices that a driver publishes and a kubelet gives to containers: under a cap, and as predicted before.

The prediction names the node and the devices of each request before the pod exists; kube-scheduler allocates the same.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.api import Api, Object, api
from e2e.claims import (
    ROOT,
    claim_template,
    claiming_pod,
    count_devices,
    exactly,
)
from e2e.command_output import run_kubectl
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
from e2e.predicted_devices import DEVICES, find_prediction_differences
from e2e.waiting import until

_WITHIN = 300.0  # seconds; the controller waits longer after each refusal of a claim
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
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": list_driver_objects(image, DEVICES)})
        run_kubectl(cluster, "apply", "--server-side", "--filename=-", stdin=manifest)
        try:
            until("the devices are published", lambda: _has_slices(cluster), _WITHIN, lambda: _describe(cluster))
            yield cluster
        finally:
            run_kubectl(cluster, "delete", "--ignore-not-found", "--wait=false", "--filename=-", stdin=manifest)


@pytest.fixture
def namespace_under_cap(site: Site, driver_cluster: KindCluster, tmp_path: Path) -> Iterator[str]:
    """Run two gates; yield a namespace that may use two of the four devices."""
    shell, way = AdminShell(driver_cluster, tmp_path), KustomizeInstall("ha")
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


def test_each_pod_gets_the_devices_that_were_predicted_before_it_was_created(
    site: Site, driver_cluster: KindCluster, namespace: str
) -> None:
    try:
        assert list(find_prediction_differences(site, namespace, DRIVER, DRIVER, _is_running)) == []
    finally:
        _remove_pods(driver_cluster, namespace)


def _is_running(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _remove_pods(cluster: Cluster, namespace: str) -> None:
    """Delete the pods, and wait: without their driver, the kubelet can not end them, and they stay on the node."""
    ours, pods = api(cluster.kubeconfig), f"/api/v1/namespaces/{namespace}/pods"
    ours.delete(pods, gracePeriodSeconds="1")
    until("no pod has a device", lambda: not ours.items(pods), _WITHIN)


def _list_running(ours: Api, pods: str) -> list[str]:
    return [each["metadata"]["name"] for each in ours.items(pods) if _is_running(each)]


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
