"""Short constructors of claims, volumes, storage classes and CSI nodes."""

from typing import Any

from tests.accounting.scheduling.clusters import pod

Json = dict[str, Any]

WAIT_FOR_CONSUMER = "WaitForFirstConsumer"


def pod_with_claims(*claims: str, name: str = "new", **more: Any) -> Json:
    """Return a pod that mounts the claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **more)


def claim(name: str = "data", size: str = "1Gi", *, bound: str = "", meta: Json | None = None, **spec: Any) -> Json:
    """Return a claim, bound to a volume or waiting for its first consumer."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    status = {"phase": spec.pop("phase", "Pending")}
    defaults = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "late",
    }
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": annotations,
            **(meta or {}),
        },
        "spec": defaults | ({"volumeName": bound} if bound else {}) | spec,
        "status": status,
    }


def volume(
    name: str = "pv", size: str = "1Gi", *, hosts: tuple[str, ...] = (), meta: Json | None = None, **spec: Any
) -> Json:
    """Return an available volume that is accessible from the hosts, or from every node."""
    terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": list(hosts)}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if hosts else {}
    phase = spec.pop("phase", "Available")
    defaults = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name, **(meta or {})},
        "spec": defaults | affinity | spec,
        "status": {"phase": phase},
    }


def storage_class(name: str = "late", provisioner: str = "csi.io", mode: str = WAIT_FOR_CONSUMER, **more: Any) -> Json:
    """Return a storage class."""
    return {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **more,
    }


def csi_node(count: int) -> Json:
    """Return a CSINode whose only driver attaches at most `count` volumes."""
    return {
        "kind": "CSINode",
        "metadata": {"name": "n0"},
        "spec": {"drivers": [{"name": "csi.io", "allocatable": {"count": count}}]},
    }


def csi_claim(name: str, handle: str) -> list[Json]:
    """Return a bound claim, and its CSI volume."""
    return [claim(name, bound=f"pv-{name}"), volume(f"pv-{name}", csi={"driver": "csi.io", "volumeHandle": handle})]
