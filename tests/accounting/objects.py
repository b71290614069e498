"""Objects as short as a test can write them, put through JSON as everything that reaches the gate is."""

import json
from typing import Any

import msgspec

from webhook.objects.core import LimitRange, Node, Pod, PodSpec, PodStatus, ResourceQuota

Listed = dict[str, Any]


def container(name: str, requests: Listed | None = None, limits: Listed | None = None, **more: Any) -> Listed:
    """A container with these requests and limits."""
    lists = {"requests": requests, "limits": limits}
    return {"name": name, "resources": {key: listed for key, listed in lists.items() if listed is not None}, **more}


def sidecar(name: str, requests: Listed | None = None, limits: Listed | None = None) -> Listed:
    """An init container that keeps running."""
    return container(name, requests, limits, restartPolicy="Always")


def running(name: str, **more: Any) -> Listed:
    """A container's status."""
    return {"name": name, **more}


def pod(*containers: Listed, status: Listed | None = None, metadata: Listed | None = None, **spec: Any) -> Pod:
    """A pod of these containers; further fields of its spec by keyword."""
    whole = {"metadata": metadata, "spec": {"containers": list(containers), **spec}, "status": status}
    return msgspec.json.decode(json.dumps(whole), type=Pod)


def spec_of(*containers: Listed, **spec: Any) -> PodSpec:
    """The spec of such a pod."""
    found = pod(*containers, **spec).spec
    assert found is not None
    return found


def status(**fields: Any) -> PodStatus:
    """A pod's status."""
    return msgspec.json.decode(json.dumps(fields), type=PodStatus)


def node(capacity: Listed | None = None, allocatable: Listed | None = None) -> Node:
    """A node with these lists."""
    return msgspec.json.decode(json.dumps({"status": {"capacity": capacity, "allocatable": allocatable}}), type=Node)


def quota(hard: Listed | None = None, **more: Any) -> ResourceQuota:
    """A ResourceQuota; further fields of its spec by keyword."""
    return msgspec.json.decode(json.dumps({"spec": {"hard": hard, **more}}), type=ResourceQuota)


def limit_range(*items: Listed) -> LimitRange:
    """A LimitRange of these entries."""
    return msgspec.json.decode(json.dumps({"spec": {"limits": list(items)}}), type=LimitRange)
