"""Claims, volumes, classes and limits as short as a test can write them."""

from typing import Any

from tests.accounting.scheduling.clusters import pod

Json = dict[str, Any]

LATE = "WaitForFirstConsumer"


def mounting(*claims: str, name: str = "new", **more: Any) -> Json:
    """A pod that mounts these claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **more)


def claim(name: str = "data", size: str = "1Gi", *, bound: str = "", meta: Json | None = None, **spec: Any) -> Json:
    """A claim, bound to a volume or waiting for a pod."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    status = {"phase": spec.pop("phase", "Pending")}
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": "late"}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": annotations,
            **(meta or {}),
        },
        "spec": given | ({"volumeName": bound} if bound else {}) | spec,
        "status": status,
    }


def volume(
    name: str = "pv", size: str = "1Gi", *, hosts: tuple[str, ...] = (), meta: Json | None = None, **spec: Any
) -> Json:
    """A volume, free and reached from these hosts."""
    terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": list(hosts)}]}]
    reach = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if hosts else {}
    phase = spec.pop("phase", "Available")
    given = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name, **(meta or {})},
        "spec": given | reach | spec,
        "status": {"phase": phase},
    }


def storage_class(name: str = "late", provisioner: str = "csi.io", mode: str = LATE, **more: Any) -> Json:
    """A storage class."""
    return {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **more,
    }


def limited(count: int) -> Json:
    """A CSINode that says how many volumes its only driver attaches there."""
    return {
        "kind": "CSINode",
        "metadata": {"name": "n0"},
        "spec": {"drivers": [{"name": "csi.io", "allocatable": {"count": count}}]},
    }


def csi(name: str, handle: str) -> list[Json]:
    """A bound claim, and its volume."""
    return [claim(name, bound=f"pv-{name}"), volume(f"pv-{name}", csi={"driver": "csi.io", "volumeHandle": handle})]
