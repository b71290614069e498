"""Objects that decide capacities, and states of clusters that have them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tallygate.cluster import kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.state_builder import StateBuilder
from tallygate.policy.lint_findings import Severity
from tallygate.policy.model import PolicySet
from tallygate.policy.parse import parse

GPU = "nvidia.com/gpu"
Object = dict[str, Any]

READ = (kinds.NODES, kinds.SLICES, kinds.CLASSES)


def node(name: str, amounts: Mapping[str, object], **more: Any) -> Object:
    """Return a node; `labels`, `taints`, `unready` (a time) and `unschedulable` are what decides whether it counts."""
    conditions = [{"type": "DiskPressure", "status": "False", "lastHeartbeatTime": "2026-12-01T11:59:00Z"}]
    if "unready" in more:
        conditions.append({"type": "Ready", "status": "Unknown", "lastTransitionTime": more["unready"]})
    else:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"})
    taints = [{"key": key, "effect": "NoSchedule"} for key in more.get("taints", ())]
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": more.get("labels", {})},
        "spec": {"taints": taints, "unschedulable": more.get("unschedulable", False)},
        "status": {"allocatable": {key: str(amount) for key, amount in amounts.items()}, "conditions": conditions},
    }


def resource_slice(
    name: str, devices: Sequence[Object], *, count: int = 1, generation: int = 1, **place: Any
) -> Object:
    """Return a slice of driver `gpu.example.com`, whose pool has the name before the last dash."""
    pool = {"name": name.rpartition("-")[0], "generation": generation, "resourceSliceCount": count}
    spec = {"driver": "gpu.example.com", "pool": pool, "devices": list(devices), **place}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def device(name: str, kind: str = "gpu", memory: str = "80Gi", **more: Any) -> Object:
    """Return a device with an attribute `type`, and with memory."""
    return {
        "name": name,
        "attributes": {"type": {"string": kind}},
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def device_class(name: str, resource: str = "", kind: str = "gpu") -> Object:
    """Return a class of devices of a type, and the extended resource that stands for them."""
    expression = f'device.attributes["gpu.example.com"].type == "{kind}"'
    spec = {
        "selectors": [{"cel": {"expression": expression}}],
        **({"extendedResourceName": resource} if resource else {}),
    }
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def create_state(objects: Sequence[Object], known: Sequence[str] = READ) -> ClusterState:
    """Return a state with these objects, in which the kinds of these resources are known."""
    builder = StateBuilder()
    for each in objects:
        assert builder.add(each["kind"], msgspec.Raw(json.dumps(each).encode()))
    for resource in kinds.KINDS_BY_RESOURCE:
        if resource in known:
            builder.make_known(resource)
        else:
            builder.add_problem(resource, kinds.KindProblem(kinds.UnknownReason.FORBIDDEN))
    return builder.finish()


def parse_cap(spec: Mapping[str, Any], *shapes: Object) -> PolicySet:
    """Return a policy set with one cap, and shapes of nodes."""
    documents = [_document("NamespaceCap", "gpus", spec), *(_document("NodeShape", "big", shape) for shape in shapes)]
    parsed = parse([("caps.yaml", "\n---\n".join(map(json.dumps, documents)).encode())])
    errors = [str(finding) for finding in parsed.findings if finding.severity is Severity.ERROR]
    assert not errors, errors
    return parsed.policies


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {"apiVersion": "tallygate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
