"""Pods, claims and namespaces as an API server sends them, with all their fields: owner, volumes, managed fields.

Five Deployments to a namespace, four pods to a Deployment: 25,000 charge groups for 100,000 pods. Four claims from a
template to a namespace, each with two devices of its own.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

PODS = 100_000
CLAIMS = 20_000
NAMESPACES = 5_000
REVISION = 1_000_000
EVENTS = 20_000
RELIST_REVISION = REVISION + EVENTS + 1
_PODS_OF_A_DEPLOYMENT = 4


def create_namespace(number: int) -> dict[str, Any]:
    """Return a namespace as an object of JSON."""
    name = _get_namespace_name(number)
    return {
        "metadata": {
            "name": name,
            "uid": f"10000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(1 + number),
            "labels": {"kubernetes.io/metadata.name": name, "team": f"team-{number % 50}"},
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def encode_pod(number: int, revision: int, phase: str = "RunningServer") -> bytes:
    """Return a pod as JSON text of about 7 KB."""
    deployment = number // _PODS_OF_A_DEPLOYMENT
    text = _TEMPLATE
    for mark, value in (
        (b"@NAME@", f"worker-{deployment % 5}-7c9d8f6b5d-{number:06x}"),
        (b"@APP@", f"worker-{deployment % 5}"),
        (b"@HASH@", f"{deployment:010x}"),
        (b"@NAMESPACE@", _get_namespace_name(deployment % NAMESPACES)),
        (b"@UID@", f"{number:08x}-0000-4000-8000-000000000000"),
        (b"@REVISION@", str(revision)),
        (b"@NODE@", f"node-{number % 2000:04d}"),
        (b"@GPUS@", str(1 + deployment % 8)),
        (b"@PHASE@", phase),
        (
            b"@START@",
            f"2026-01-{1 + deployment % 28:02}T{deployment % 24:02}:{deployment % 60:02}:{deployment % 59:02}Z",
        ),
    ):
        text = text.replace(mark, value.encode())
    return text


def create_claim(number: int) -> dict[str, Any]:
    """Return a claim from a template, whose devices are allocated, as an object of JSON."""
    pod = f"worker-0-{number:06x}"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"{number:08x}-0000-4000-8000-000000000000"}
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
    devices = [
        {"request": "gpus", "driver": "gpu.example.com", "pool": f"node-{number % 2000:04d}", "device": f"gpu-{index}"}
        for index in range(2)
    ]
    return {
        "metadata": {
            "name": f"{pod}-gpus-{number:05d}",
            "generateName": f"{pod}-gpus-",
            "namespace": _get_namespace_name(number % NAMESPACES),
            "uid": f"20000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(1 + number),
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpus"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"devices": {"requests": [request]}},
        "status": {
            "allocation": {"devices": {"results": devices}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": owner["uid"]}],
        },
    }


_TOTALS = {"pods": PODS, "namespaces": NAMESPACES, "resourceclaims": CLAIMS}
_ENCODERS: dict[str, Callable[[int], bytes]] = {
    "pods": lambda number: encode_pod(number, 1 + number),
    "namespaces": lambda number: json.dumps(create_namespace(number)).encode(),
    "resourceclaims": lambda number: json.dumps(create_claim(number)).encode(),
}


def encode_page(kind: str, first: int, limit: int, revision: int = REVISION) -> bytes:
    """Return a page of a list at a revision; of other kinds than pods, claims and namespaces there are no objects."""
    total = _TOTALS.get(kind, 0)
    numbers = range(first, min(first + limit, total))
    items = [_ENCODERS[kind](number) for number in numbers]
    meta: dict[str, object] = {"resourceVersion": str(revision)}
    if numbers and numbers[-1] + 1 < total:
        meta |= {"continue": str(numbers[-1] + 1), "remainingItemCount": total - numbers[-1] - 1}
    head = f'{{"kind":"List","apiVersion":"v1","metadata":{json.dumps(meta)},"items":['
    return head.encode() + b",".join(items) + b"]}"


def encode_changes() -> Iterator[bytes]:
    """Yield lines of a watch of pods: of every four, one pod is added, two are modified, one is deleted."""
    for number in range(EVENTS):
        revision = REVISION + 1 + number
        kind, which = [
            ("ADDED", PODS + number),
            ("MODIFIED", number),
            ("MODIFIED", number * 7 % PODS),
            ("DELETED", number),
        ][number % 4]
        yield b'{"type":"%s","object":%s}\n' % (kind.encode(), encode_pod(which, revision))


def _get_namespace_name(number: int) -> str:
    return f"team-{number % 50}-project-{number:04d}"


def _create_container(name: str, requests: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"registry.example.com/platform/{name}:v1.2.3",
        "args": ["--config=/etc/worker/config.yaml", "--log-level=info"],
        "env": [{"name": f"SETTING_{n}", "value": f"some value {n}"} for n in range(8)],
        "resources": {"requests": requests, "limits": requests},
        "volumeMounts": [{"name": f"volume-{n}", "mountPath": f"/mnt/{n}", "readOnly": True} for n in range(3)],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _create_container_status(name: str, requests: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": f"registry.example.com/platform/{name}:v1.2.3",
        "imageID": f"registry.example.com/platform/{name}@sha256:{'0' * 64}",
        "containerID": f"containerd://{'1' * 64}",
        "started": True,
        "allocatedResources": requests,
        "resources": {"requests": requests, "limits": requests},
    }


_MAIN = {"cpu": "500m", "memory": "2Gi", "nvidia.com/gpu": "@GPUS@"}
_SIDE = {"cpu": "100m", "memory": "128Mi"}
_FIELDS: dict[str, Any] = {
    f"f:field-{n}": {".": {}, "f:name": {}, "f:value": {}, "f:resources": {"f:limits": {}}} for n in range(12)
}

_TEMPLATE = json.dumps(
    {
        "metadata": {
            "name": "@NAME@",
            "generateName": "@APP@-7c9d8f6b5d-",
            "namespace": "@NAMESPACE@",
            "uid": "@UID@",
            "resourceVersion": "@REVISION@",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "@APP@", "pod-template-hash": "@HASH@", "app.kubernetes.io/part-of": "platform"},
            "annotations": {"example.com/config-hash": "0" * 64, "example.com/owner": "platform@example.com"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "@APP@-7c9d8f6b5d", "uid": "x"}
            ],
            "managedFields": [
                {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": _FIELDS}}
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "volumes": [{"name": f"volume-{n}", "configMap": {"name": f"config-{n}"}} for n in range(3)],
            "containers": [_create_container("main", _MAIN), _create_container("side", _SIDE)],
            "restartPolicy": "Always",
            "nodeName": "@NODE@",
            "serviceAccountName": "default",
            "schedulerName": "default-scheduler",
            "priorityClassName": "batch",
            "nodeSelector": {"gpu": "a100"},
            "tolerations": [
                {"key": f"node.kubernetes.io/{n}", "operator": "Exists"} for n in ("not-ready", "unreachable")
            ],
        },
        "status": {
            "phase": "@PHASE@",
            "startTime": "@START@",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": "10.0.0.1",
            "podIPs": [{"ip": "10.1.0.1"}],
            "containerStatuses": [_create_container_status("main", _MAIN), _create_container_status("side", _SIDE)],
        },
    },
    separators=(",", ":"),
).encode()
