"""Short constructors of device classes, slices and claims, as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

DRIVER = "gpu.example.com"

Json = dict[str, Any]


def device_class(name: str = "gpu", *expressions: str, resource: str = "") -> Json:
    """Return a class whose devices meet the expressions, by default those of one driver."""
    selectors = [{"cel": {"expression": each}} for each in expressions or (f'device.driver == "{DRIVER}"',)]
    extended = {"extendedResourceName": resource} if resource else {}
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors, **extended}}


def device_slice(node: str, devices: Sequence[str | Mapping[str, Any]], **spec: Any) -> Json:
    """Return the slice of a pool of one node, named as the node; a device is its name or its JSON."""
    written = [{"name": each} if isinstance(each, str) else dict(each) for each in devices]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1} | spec.pop("pool", {})
    where = {"nodeName": node} if not {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & set(spec) else {}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{node}"},
        "spec": {"driver": DRIVER, "pool": pool, "devices": written, **where, **spec},
    }


def device(name: str, memory: str = "", **fields: Any) -> Json:
    """Return a device with an amount of memory."""
    return {"name": name, **({"capacity": {"memory": {"value": memory}}} if memory else {}), **fields}


def request(name: str = "r", of: str = "gpu", count: int = 1, **fields: Any) -> Json:
    """Return a request for a number of devices of a class; `selectors` are expressions."""
    selectors = [{"cel": {"expression": each}} for each in fields.pop("selectors", ())]
    exactly = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **fields}
    return {"name": name, "exactly": exactly | ({"selectors": selectors} if selectors else {})}


def claim(name: str, *requests: Json, allocated: Sequence[str] = (), pods: Sequence[str] = (), **fields: Any) -> Json:
    """Return a claim of namespace default; `allocated` are its devices as NODE/DEVICE, `pods` are those with it."""
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", **fields.pop("metadata", {})}
    constraints = {"constraints": fields["constraints"]} if "constraints" in fields else {}
    status: Json = {}
    if allocated:
        results = [
            {"request": "r", "driver": DRIVER, "pool": each.split("/")[0], "device": each.split("/")[1]}
            for each in allocated
        ]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [allocated[0].split("/")[0]]}]}]
        status["allocation"] = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": terms},
            "allocationTimestamp": "2026-01-01T10:00:00Z",
        }
    if pods:
        status["reservedFor"] = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in pods]
    spec = {"devices": {"requests": list(requests) or [request()], **constraints}}
    return {"kind": "ResourceClaim", "metadata": meta, "spec": spec, "status": status}


def claim_template(name: str, *requests: Json) -> Json:
    """Return a template of claims of namespace default."""
    spec = {"devices": {"requests": list(requests) or [request()]}}
    meta = {"name": name, "namespace": "default"}
    return {"kind": "ResourceClaimTemplate", "metadata": meta, "spec": {"spec": spec}}


def taint_rule(
    name: str, selector: Mapping[str, str] | None, *, key: str = "k", value: str = "", effect: str = "NoSchedule"
) -> Json:
    """Return a DeviceTaintRule; without a selector it selects no device."""
    selected = {} if selector is None else {"deviceSelector": dict(selector)}
    taint = {"key": key, "effect": effect} | ({"value": value} if value else {})
    return {"kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": {**selected, "taint": taint}}
