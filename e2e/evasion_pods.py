"""Pods by which a tenant tries to evade his cap, and what they are made of."""

from typing import Any

from e2e.pods import DONGLE, make_deployment, pod
from e2e.ports import Site


def asking(name: str, amount: str = "1") -> dict[str, Any]:
    """Return the container fields for a request and limit of one resource."""
    return asking_all({name: amount})


def asking_all(amounts: dict[str, str]) -> dict[str, Any]:
    """Return the container fields for these amounts in requests and limits."""
    return {"resources": {"requests": amounts, "limits": amounts}}


def merge(one: Any, other: Any) -> Any:
    """Return one manifest with the fields of another over it."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return other
    return {**one, **{key: merge(one.get(key), value) for key, value in other.items()}}


def container_of(name: str, **more: Any) -> dict[str, Any]:
    """Return a container of this name with further fields."""
    return {"name": name, "image": "example.com/none:1", **more}


def deployment_of(site: Site, container: dict[str, Any], replicas: int = 0) -> dict[str, Any]:
    """Return a Deployment of pods with this container."""
    return make_deployment("web", replicas, {**pod(site, "web")["spec"], "containers": [container]})


_FORGED_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "none/such", "uid": "u-1", "controller": True}

BARE = [container_of("main")]
"""Containers that ask for nothing."""

EVASIONS: dict[str, dict[str, Any]] = {
    "names its node, past the scheduler": {"spec": {"nodeName": "four-dongles"}},
    "names a scheduler of his own": {"spec": {"schedulerName": "my-own"}},
    "names a priority class": {"spec": {"priorityClassName": "system-cluster-critical"}},
    "says that it has ended": {"status": {"phase": "Succeeded"}},
    "says that it is being deleted": {
        "metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    },
    "has a deadline, and never starts again": {"spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 1}},
    "makes up an owner": {"metadata": {"ownerReferences": [_FORGED_OWNER]}},
    "has labels as an operator's": {"metadata": {"labels": {"app.kubernetes.io/name": "tallygate", "dongles": "no"}}},
    "has annotations of 250 KiB": {"metadata": {"annotations": {"example.com/all": "x" * 250_000}}},
    "has a finalizer": {"metadata": {"finalizers": ["example.com/stays"]}},
    "has no name but a beginning": {"metadata": {"name": None, "generateName": "third-"}},
    "asks in an init container": {
        "spec": {"initContainers": [container_of("i", **asking(DONGLE))], "containers": BARE}
    },
    "asks in a sidecar": {
        "spec": {
            "initContainers": [container_of("i", restartPolicy="Always", **asking(DONGLE))],
            "containers": BARE,
        }
    },
    "asks by a limit only": {"spec": {"containers": [container_of("main", resources={"limits": {DONGLE: "1"}})]}},
    "waits behind a gate of scheduling": {"spec": {"schedulingGates": [{"name": "example.com/wait"}]}},
}
"""Changes to a pod that requests one dongle more than is free."""
