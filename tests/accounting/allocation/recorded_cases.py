"""Cases of Kubernetes' own allocator, read from JSON, and the product's answers to them."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tallygate.accounting.allocation.allocations import AllocatedState, Allocation
from tallygate.accounting.allocation.allocator import Allocator, AllocatorRules
from tallygate.accounting.allocation.planned_requests import AllocationError
from tallygate.accounting.allocation.published_devices import read_slice
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.scheduling.plugins.dynamic_resources import ClusterNode
from tallygate.objects.devices import DeviceClass, ResourceClaim, ResourceSlice
from tallygate.objects.scheduling import SchedulingNode

_MISSING_CLASS = re.compile(r'deviceclass\.resource\.k8s\.io "[^"]+" not found')
"""The error of a real API server, where Kubernetes' tests have a lister with an error of its own."""

_FIELDS_OF_DRIVERS = ("tolerations", "bindingConditions", "bindingFailureConditions")
"""Fields of a result that an allocation copies for the kubelet, and that decide nothing."""

Case = Mapping[str, Any]

CASES = Path(__file__).parents[1] / "devices" / "cases"


def read_cases(name: str) -> Iterator[Case]:
    """Yield the cases of a file."""
    for line in (CASES / name).read_text().splitlines():
        yield json.loads(line)


def answer(case: Case, version: KubernetesVersion) -> dict[str, Any]:
    """Return the product's answer in the form of the case: results, or the text of an error."""
    classes = {each["metadata"]["name"]: _decode(each, DeviceClass) for each in case["classes"]}
    slices = [read_slice(_decode(each, ResourceSlice)) for each in case["slices"]]
    claims = [_decode(each, ResourceClaim) for each in case["claims"]]
    cluster = Cluster()
    cluster.put_node(_decode(case["node"], SchedulingNode))
    allocator = Allocator(slices, classes, _read_state(case["allocated"]), AllocatorRules(version))
    try:
        allocations = allocator.allocate(ClusterNode(cluster, 0), claims)
    except AllocationError as error:
        return {"error": _MISSING_CLASS.sub(' "CLASS" not found', str(error))}
    return {"results": [_write(each) for each in allocations]} if allocations is not None else {}


def select_answer(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded answer with the fields that the product has."""
    if "error" in recorded:
        return {"error": recorded["error"].replace(' "not found" not found', ' "CLASS" not found')}
    if recorded["results"] is None:
        return {}
    return {"results": [_select_fields(each) for each in recorded["results"]]}


def _select_fields(allocation: dict[str, Any]) -> dict[str, Any]:
    results = [
        {name: value for name, value in each.items() if name not in _FIELDS_OF_DRIVERS}
        for each in allocation["devices"].get("results", [])
    ]
    return {**allocation, "devices": {"results": results} if results else {}}


def _decode(written: Any, kind: type[Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(written), type=kind)


def _read_state(allocated: Mapping[str, Any]) -> AllocatedState:
    state = AllocatedState()
    for device in allocated.get("devices", ()):
        state.take(_read_id(device))
    for device in allocated.get("shared", ()):
        state.take(_read_id(device.rpartition("/")[0]), {})
    for device, amounts in allocated.get("capacity", {}).items():
        state.consumed[_read_id(device)] = {name: Quantity.parse(amount) for name, amount in amounts.items()}
    return state


def _read_id(text: str) -> DeviceId:
    driver, pool, device = text.split("/")
    return DeviceId(driver, pool, device)


def _write(allocation: Allocation) -> dict[str, Any]:
    results = []
    for each in allocation.results:
        result: dict[str, Any] = {**each.device._asdict(), "request": each.request}
        if each.has_admin_access:
            result["adminAccess"] = True
        if each.consumed:
            result["consumedCapacity"] = {name: str(amount) for name, amount in each.consumed.items()}
        if each.is_shared:
            result["shareID"] = ""
        results.append(result)
    written: dict[str, Any] = {"devices": {"results": results} if results else {}}
    if allocation.node_selector is not None:
        written["nodeSelector"] = json.loads(msgspec.json.encode(allocation.node_selector))
    return written
