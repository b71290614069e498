"""Short constructors of typed objects, which are decoded from JSON as in a request."""

import json
from typing import Any

import msgspec

from tallygate.objects.core import LimitRange, Node, Pod, PodSpec, PodStatus, ResourceQuota

Json = dict[str, Any]


def container(name: str, requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    """Return a container with requests and limits."""
    lists = {"requests": requests, "limits": limits}
    return {"name": name, "resources": {key: listed for key, listed in lists.items() if listed is not None}, **more}


def sidecar(name: str, requests: Json | None = None, limits: Json | None = None) -> Json:
    """Return an init container with restart policy Always."""
    return container(name, requests, limits, restartPolicy="Always")


def container_status(name: str, **more: Any) -> Json:
    """Return the status of a container."""
    return {"name": name, **more}


def pod(*containers: Json, status: Json | None = None, metadata: Json | None = None, **spec: Any) -> Pod:
    """Return a pod of the containers; further keywords are fields of its spec."""
    written = {"metadata": metadata, "spec": {"containers": list(containers), **spec}, "status": status}
    return msgspec.json.decode(json.dumps(written), type=Pod)


def pod_spec(*containers: Json, **spec: Any) -> PodSpec:
    """Return the spec of such a pod."""
    found = pod(*containers, **spec).spec
    assert found is not None
    return found


def status(**fields: Any) -> PodStatus:
    """Return the status of a pod."""
    return msgspec.json.decode(json.dumps(fields), type=PodStatus)


def node(capacity: Json | None = None, allocatable: Json | None = None) -> Node:
    """Return a node with capacity and allocatable."""
    return msgspec.json.decode(json.dumps({"status": {"capacity": capacity, "allocatable": allocatable}}), type=Node)


def quota(hard: Json | None = None, **more: Any) -> ResourceQuota:
    """Return a ResourceQuota; further keywords are fields of its spec."""
    return msgspec.json.decode(json.dumps({"spec": {"hard": hard, **more}}), type=ResourceQuota)


def limit_range(*items: Json) -> LimitRange:
    """Return a LimitRange of the entries."""
    return msgspec.json.decode(json.dumps({"spec": {"limits": list(items)}}), type=LimitRange)
