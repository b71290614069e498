"""Pods that cases create: one container, and a scheduler name that no scheduler has."""

import json
from http import HTTPStatus
from subprocess import CompletedProcess
from typing import Any

from e2e.api import Answer, api
from e2e.ports import Site
from e2e.waiting import until

DONGLE = "example.com/dongle"

_WITHIN = 60.0  # seconds

_RESTRICTED = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
"""With what the container says, within the pod security standard `restricted`: the gate's own namespace wants that."""

Pod = dict[str, Any]


def pod(site: Site, name: str, dongles: str = "1") -> Pod:
    """Return a pod that requests this number of dongles, and that any namespace accepts. The scheduler ignores it."""
    asks = {DONGLE: dongles}
    container = {
        "name": "main",
        "image": site.image,
        "resources": {"requests": asks, "limits": asks},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "no-scheduler", "containers": [container], "securityContext": _RESTRICTED},
    }


def make_deployment(name: str, replicas: int, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a Deployment of pods with this spec; `more` are further fields of its own spec."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **more},
    }


def create(site: Site, namespace: str, name: str, dongles: str = "1") -> CompletedProcess[str]:
    """Create such a pod by kubectl, and return the result."""
    stdin = json.dumps(pod(site, name, dongles))
    return site.cluster.kubectl("create", f"--namespace={namespace}", "--filename=-", stdin=stdin)


def submit(site: Site, namespace: str, name: str, dongles: str = "1") -> Answer:
    """Create such a pod by the API, and return the answer.

    Raises:
        ClusterError: if it does not answer.
    """
    return api(site.cluster.kubeconfig).ask("POST", _path(namespace), pod(site, name, dongles))


def submit_decided(site: Site, namespace: str, name: str, **metadata: Any) -> Answer:
    """Create such a pod with further metadata, and return the first answer that is no request to try again later.

    Raises:
        ClusterError: if the gate decides too late.
    """
    answers: list[Answer] = []
    made = pod(site, name)
    made["metadata"] |= metadata

    def is_decided() -> bool:
        answers.append(api(site.cluster.kubeconfig).ask("POST", _path(namespace), made))
        return answers[-1].status != HTTPStatus.TOO_MANY_REQUESTS

    until(f"the gate decides about {name}", is_decided, _WITHIN)
    return answers[-1]


def list_stored(site: Site, namespace: str) -> set[str]:
    """Return the names of the pods that are stored there.

    Raises:
        ClusterError: if they may not be read.
    """
    return {each["metadata"]["name"] for each in api(site.cluster.kubeconfig).items(_path(namespace))}


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"
