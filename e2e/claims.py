"""Devices that no machine has: their classes and slices, and claims for them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.api import Object, api
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.namespaces import new_namespace
from e2e.pods import make_deployment
from e2e.ports import Cluster, Site

GROUP = "resource.k8s.io/v1"
ROOT = f"/apis/{GROUP}"
DRIVER = "gpu.tallygate.example"
GPU = "example.com/claimed-gpu"
"""The extended resource of the class `GPUS`."""
GPUS, MORE_GPUS = "tallygate-gpus", "tallygate-more-gpus"
"""Two classes of the same devices; only the first has an extended resource."""


@contextmanager
def publish_devices(cluster: Cluster, node: str, count: int) -> Iterator[None]:
    """Publish devices on a node, and their classes, for as long as the block runs.

    Raises:
        ClusterError: if the API server refuses one of them.
    """
    ours = api(cluster.kubeconfig)
    made = [device_class(GPUS, GPU), device_class(MORE_GPUS), _slice(node, count)]
    try:
        for each in made:
            ours.create(ours.collection(each, ""), each)
        yield
    finally:
        for each in made:
            ours.delete(f"{ours.collection(each, '')}/{each['metadata']['name']}")


@contextmanager
def run_claim_gate(site: Site, folder: Path, policies: Mapping[str, str], count: int) -> Iterator[GateProcess]:
    """Run a gate with its ledgers in the cluster, on a node with this number of devices.

    Raises:
        NotHereError: if the site's gate is no process on this machine.
        ClusterError: if the gate does not start, or the API server refuses something.
    """
    with (
        new_namespace(site.cluster, "gate-") as own,
        publish_devices(site.cluster, site.node, count),
        run_ledger_gate(site, folder, policies, own) as gate,
    ):
        yield gate


def device_class(name: str, extended_resource: str = "") -> Object:
    """Return a class of all these devices."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    spec: Object = {"selectors": selectors}
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    return {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _slice(node: str, count: int) -> Object:
    devices = [{"name": f"gpu-{number}", "attributes": {"index": {"int": number}}} for number in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": GROUP,
        "kind": "ResourceSlice",
        "metadata": {"name": f"tallygate-{node}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def exactly(count: int, device_class_name: str = GPUS, **more: Any) -> Object:
    """Return a request for this number of devices of one class."""
    return {"name": "gpu", "exactly": {"deviceClassName": device_class_name, "count": count, **more}}


def first_available(*counts: int, device_class_name: str = GPUS) -> Object:
    """Return a request for the first available of several numbers of devices of one class."""
    alternatives = [
        {"name": f"choice-{index}", "deviceClassName": device_class_name, "count": count}
        for index, count in enumerate(counts)
    ]
    return {"name": "gpu", "firstAvailable": alternatives}


def claim(name: str, *requests: Object, **metadata: Any) -> Object:
    """Return a claim with these requests."""
    spec = {"devices": {"requests": list(requests)}}
    return {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": name, **metadata}, "spec": spec}


def claim_template(name: str, *requests: Object) -> Object:
    """Return a template of claims with these requests."""
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def claiming_pod(image: str, name: str, **reference: str) -> Object:
    """Return a pod that the real scheduler places, with a claim by its name or by that of its template."""
    container = {"name": "main", "image": image, "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **reference}], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def requesting_pod(image: str, name: str, amounts: Mapping[str, str]) -> Object:
    """Return a pod that the real scheduler places, which requests these amounts of extended resources."""
    resources = {"requests": dict(amounts), "limits": dict(amounts)}
    container = {"name": "main", "image": image, "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }


def list_events(cluster: Cluster, namespace: str, pod: str) -> list[Object]:
    """Return the events on a pod."""
    events = api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/events")
    return [each for each in events if each["involvedObject"]["name"] == pod]


def is_placed(cluster: Cluster, namespace: str, pod: str) -> bool:
    """Return whether a pod has a node."""
    return "nodeName" in api(cluster.kubeconfig).get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["spec"]


def claiming_deployment(image: str, name: str, replicas: int, template: str) -> Object:
    """Return a Deployment whose pods get a claim from a template each."""
    spec = claiming_pod(image, name, resourceClaimTemplateName=template)["spec"] | {"restartPolicy": "Always"}
    return make_deployment(name, replicas, spec, strategy={"type": "Recreate"})


def count_devices(cluster: Cluster, namespace: str) -> int:
    """Return the number of devices that are allocated to claims of a namespace, without admin access."""
    claims = api(cluster.kubeconfig).items(f"{ROOT}/namespaces/{namespace}/resourceclaims")
    results = [
        result
        for each in claims
        for result in each.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]
    return sum(not result.get("adminAccess") for result in results)


def list_allocated(cluster: Cluster, namespace: str, claim_name: str) -> list[tuple[str, str, str]]:
    """Return the request, the driver with the pool, and the name of each device that is allocated to a claim."""
    stored = api(cluster.kubeconfig).get(f"{ROOT}/namespaces/{namespace}/resourceclaims/{claim_name}")
    results = stored["status"]["allocation"]["devices"]["results"]
    return [(each["request"], f"{each['driver']}/{each['pool']}", each["device"]) for each in results]
