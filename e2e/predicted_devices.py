"""A series of pods with claims on a node with four devices: each is predicted, created, and compared."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from e2e.api import Object, api
from e2e.claims import ROOT, claim, claim_template, claiming_pod, exactly, first_available, list_allocated
from e2e.command_output import run_tallygate
from e2e.ports import Cluster, Site
from e2e.waiting import until

_WITHIN = 300.0  # seconds
_NOW, _WAITS, _NEVER = "fits now", "not now", "never on these nodes"
DEVICES = 4
"""The number of devices of the node, `gpu-0` to `gpu-3`, each with its number as the attribute `index`."""


class _Step(NamedTuple):
    """A pod, its verdict, and the device names and requests that it gets; its claim is its own, or one of several pods.

    `ends` is the pod whose devices are given back before.
    """

    pod: str
    claim: str
    request: Object
    verdict: str
    devices: Mapping[str, str] = {}
    ends: str = ""


def _list_steps(driver: str, device_class: str) -> Iterator[_Step]:
    """Yield the steps: all devices, a number, a selector, a shared claim, two that wait, and the first available."""
    every = {"name": "gpu", "exactly": {"deviceClassName": device_class, "allocationMode": "All"}}
    is_last = {"cel": {"expression": f'device.attributes["{driver}"].index == {DEVICES - 1}'}}
    last = exactly(1, device_class, selectors=[is_last])
    one, too_many = exactly(1, device_class), exactly(DEVICES + 1, device_class)
    either = first_available(3, 2, device_class_name=device_class)
    yield _Step("every", "every", every, _NOW, {f"gpu-{number}": "gpu" for number in range(DEVICES)})
    yield _Step("pair", "pair", exactly(2, device_class), _NOW, {"gpu-0": "gpu", "gpu-1": "gpu"}, ends="every")
    yield _Step("last", "last", last, _NOW, {"gpu-3": "gpu"})
    yield _Step("shares", "shared", one, _NOW, {"gpu-2": "gpu"})
    yield _Step("shares-too", "shared", one, _NOW, {"gpu-2": "gpu"})
    yield _Step("waits", "waits", last, _WAITS)
    yield _Step("never", "never", too_many, _NEVER)
    yield _Step("either", "either", either, _NOW, {"gpu-0": "gpu/choice-1", "gpu-1": "gpu/choice-1"}, ends="pair")


def find_prediction_differences(
    site: Site, namespace: str, driver: str, device_class: str, is_settled: Callable[[Object], bool]
) -> Iterator[tuple[object, object]]:
    """Predict and create each pod, and yield each pair of an expected and a different found value.

    `is_settled` returns whether a pod that fits has got everything.

    Raises:
        ClusterError: if the cluster does not do what is predicted in time.
    """
    steps = list(_list_steps(driver, device_class))
    for step in steps:
        yield from (each for each in _compare(site, namespace, step, is_settled) if each[0] != each[1])
    stored = api(site.cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")
    waiting = {each["metadata"]["name"] for each in stored if "nodeName" not in each["spec"]}
    if waiting != (expected := {each.pod for each in steps if each.verdict != _NOW}):
        yield expected, waiting


def _compare(
    site: Site, namespace: str, step: _Step, is_settled: Callable[[Object], bool]
) -> Iterator[tuple[object, object]]:
    """Yield the expected and the found values: the prediction, then the pod and the devices of its claim."""
    cluster = site.cluster
    _prepare(cluster, namespace, step)
    written = _write_pod(site, step)
    found = _predict(cluster, namespace, written)
    predicted = {each["device"]: each["request"] for each in found["devices"]}
    yield (step.pod, step.verdict, step.devices), (step.pod, found["verdict"], predicted)
    api(cluster.kubeconfig).create(f"/api/v1/namespaces/{namespace}/pods", written)
    if step.verdict != _NOW:
        until(f"{step.pod} was tried", lambda: bool(_read_message(cluster, namespace, step.pod)), _WITHIN)
        yield found["message"], _read_message(cluster, namespace, step.pod)
        return
    until(f"{step.pod} has all", lambda: is_settled(_get_pod(cluster, namespace, step.pod)), _WITHIN)
    yield found["on"], [{"node": _get_pod(cluster, namespace, step.pod)["spec"]["nodeName"], "copies": 1}]
    allocated = list_allocated(cluster, namespace, _find_claim(cluster, namespace, step.pod))
    yield [(each["request"], each["pool"], each["device"]) for each in found["devices"]], allocated


def _prepare(cluster: Cluster, namespace: str, step: _Step) -> None:
    """End the pod that the step names, and wait for its devices; create the step's template, or the shared claim."""
    ours, root = api(cluster.kubeconfig), f"{ROOT}/namespaces/{namespace}"
    if step.ends:
        made = f"{root}/resourceclaims/{_find_claim(cluster, namespace, step.ends)}"
        ours.delete(f"/api/v1/namespaces/{namespace}/pods/{step.ends}", gracePeriodSeconds="1")
        until(f"the claim of {step.ends} is deleted", lambda: ours.find(made) is None, _WITHIN)
    if step.claim == step.pod:
        ours.create(f"{root}/resourceclaimtemplates", claim_template(step.claim, step.request))
    elif ours.find(f"{root}/resourceclaims/{step.claim}") is None:
        ours.create(f"{root}/resourceclaims", claim(step.claim, step.request))


def _write_pod(site: Site, step: _Step) -> Object:
    reference = "resourceClaimTemplateName" if step.claim == step.pod else "resourceClaimName"
    return claiming_pod(site.image, step.pod, **{reference: step.claim})


def _predict(cluster: Cluster, namespace: str, written: Object) -> Object:
    asked = ("predict", "-f", "-", "--namespace", namespace, "-o", "json", "--kubeconfig", str(cluster.kubeconfig))
    (found,) = json.loads(run_tallygate(cluster, *asked, stdin=json.dumps(written)).stdout)["items"]
    return dict(found)


def _get_pod(cluster: Cluster, namespace: str, name: str) -> Object:
    return api(cluster.kubeconfig).get(f"/api/v1/namespaces/{namespace}/pods/{name}")


def _find_claim(cluster: Cluster, namespace: str, pod: str) -> str:
    """Return the name of the claim of a pod, also of the one that is made from its template."""
    stored = _get_pod(cluster, namespace, pod)
    made = stored["status"].get("resourceClaimStatuses", ())
    (found,) = (each["resourceClaimName"] for each in made or stored["spec"]["resourceClaims"])
    return str(found)


def _read_message(cluster: Cluster, namespace: str, pod: str) -> str:
    """Return the message of kube-scheduler about a pod that it could not place; empty before it has tried."""
    conditions = _get_pod(cluster, namespace, pod)["status"].get("conditions", ())
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
