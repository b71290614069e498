"""Manifests with GPUs, and `tallygate check` of them under a cap."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tallygate.cli.app import root

CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  namespaces: {selector: {matchLabels: {gpu: "yes"}}}
  shared: %s
  hard: {nvidia.com/gpu: 8, limits.memory: 8Gi}
"""


def pod(name: str, gpus: int, namespace: str = "a", **more: Any) -> dict[str, Any]:
    """Return a pod with GPUs and a memory limit."""
    limits = {"nvidia.com/gpu": str(gpus), "memory": "1Gi"}
    metadata = {"name": name, "namespace": namespace, "labels": more.pop("labels", {})}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **more}


def workload(kind: str, gpus: int, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Return a workload of such pods."""
    template = pod("", gpus, labels=labels)
    made = {"metadata": {"labels": labels}, "spec": template["spec"]}
    version = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1", "PodTemplate": "v1"}
    body: dict[str, Any] = {"spec": {"template": made, **spec}}
    if kind == "CronJob":
        body = {"spec": {"jobTemplate": body}}
    if kind == "PodTemplate":
        body = {"template": made}
    metadata = {"name": "w", "namespace": "a"}
    return {"apiVersion": version.get(kind, "apps/v1"), "kind": kind, "metadata": metadata, **body}


def namespaces(**labels: str) -> list[dict[str, Any]]:
    """Return namespaces with the label that the cap selects."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n, "labels": {"gpu": v}}}
        for n, v in labels.items()
    ]


def check(
    folder: Path,
    manifests: list[dict[str, Any]],
    snapshot: list[dict[str, Any]] | str | None,
    *,
    shared: bool = False,
    cap: str = CAP,
) -> list[tuple[str, str, str]]:
    """Return level, code and message of every finding."""
    (folder / "cap.yaml").write_text(cap % str(shared).lower())
    (folder / "all.json").write_text("\n".join(map(json.dumps, manifests)))
    arguments = ["check", "-o", "json", "--policies", str(folder / "cap.yaml"), str(folder / "all.json")]
    if snapshot is not None:
        text = snapshot if isinstance(snapshot, str) else json.dumps({"kind": "List", "items": snapshot})
        (folder / "snapshot").write_text(text)
        arguments += ["--snapshot", str(folder / "snapshot")]
    result = CliRunner().invoke(root, arguments)
    assert result.exit_code in {0, 1}, result.stderr
    return [(each["level"], each["code"], each["message"]) for each in json.loads(result.stdout)["findings"]]


def device_class(name: str = "gpu.example.com", resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    """Return a class of devices."""
    spec = {"extendedResourceName": resource}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def claim(name: str, count: int, *, class_name: str = "gpu.example.com", owner: str = "") -> dict[str, Any]:
    """Return a claim; kube-scheduler seems to have made it for the pod with the UID `owner`."""
    exactly = {"deviceClassName": class_name, "count": count}
    metadata: dict[str, Any] = {"name": name, "namespace": "a"}
    status: dict[str, Any] = {}
    if owner:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
        ]
        status["reservedFor"] = [{"resource": "pods", "name": "p", "uid": owner}]
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "status": status}
    return {**body, "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}}
