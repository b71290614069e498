"""The objects of the driver, as its chart v0.4.0 makes them, without what its webhook and its metrics need."""

from typing import Any

from e2e.claims import GROUP

NAMESPACE = "dra-example-driver"
DRIVER = "gpu.example.com"
"""The name of the driver, and of the class of its devices."""

_NAME = "dra-example-driver"
_LABELS = {"app": _NAME}
_FOLDERS = {
    "plugins-registry": "/var/lib/kubelet/plugins_registry",
    "plugins": "/var/lib/kubelet/plugins",
    "cdi": "/var/run/cdi",
}

Object = dict[str, Any]


def list_driver_objects(image: str, devices: int) -> list[Object]:
    """Return the objects of a driver that publishes this number of devices on each node."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _NAME, "namespace": NAMESPACE}},
        *_list_rights(),
        _create_class(),
        _create_daemon_set(image, devices),
    ]


def _create_class() -> Object:
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    return {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": {"selectors": selectors}}


def _list_rights() -> list[Object]:
    devices = ["resource.k8s.io"]
    rules = [
        {"apiGroups": devices, "resources": ["resourceclaims"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": devices, "resources": ["resourceclaims/status"], "verbs": ["update"]},
        {
            "apiGroups": devices,
            "resources": ["resourceclaims/driver"],
            "verbs": ["associated-node:update", "associated-node:patch"],
            "resourceNames": [DRIVER],
        },
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {
            "apiGroups": devices,
            "resources": ["resourceslices"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        },
    ]
    group, metadata = "rbac.authorization.k8s.io", {"name": _NAME}
    return [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": _NAME},
            "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": NAMESPACE}],
        },
    ]


def _create_daemon_set(image: str, devices: int) -> Object:
    fields = {"NODE_NAME": "spec.nodeName", "NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
    values = {"DEVICE_PROFILE": "gpu", "CDI_ROOT": _FOLDERS["cdi"], "NUM_DEVICES": str(devices)}
    container = {
        "name": "plugin",
        "image": image,
        "imagePullPolicy": "Never",
        "securityContext": {"privileged": True},
        "env": [
            *({"name": name, "value": value} for name, value in values.items()),
            *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        ],
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in _FOLDERS.items()],
    }
    volumes = [
        {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in _FOLDERS.items()
    ]
    spec = {
        "serviceAccountName": _NAME,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": volumes,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _NAME, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": spec},
        },
    }
