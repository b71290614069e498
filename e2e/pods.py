"""Pods that cases put to the API server: one container, and nobody who would schedule them."""

import json
from subprocess import CompletedProcess
from typing import Any

from e2e.api import Answer, api
from e2e.ports import Site

DONGLE = "example.com/dongle"

_RESTRICTED = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
"""With what the container says, within the pod security standard `restricted`: the gate's own namespace wants that."""

Pod = dict[str, Any]


def pod(site: Site, name: str, dongles: str = "1") -> Pod:
    """A pod that asks for so many dongles, and that any namespace takes. The scheduler leaves it alone."""
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
        "spec": {"schedulerName": "nobody", "containers": [container], "securityContext": _RESTRICTED},
    }


def create(site: Site, namespace: str, name: str, dongles: str = "1") -> CompletedProcess[str]:
    """What kubectl says when it creates such a pod."""
    stdin = json.dumps(pod(site, name, dongles))
    return site.cluster.kubectl("create", f"--namespace={namespace}", "--filename=-", stdin=stdin)


def sent(site: Site, namespace: str, name: str, dongles: str = "1") -> Answer:
    """What the API server answers to the same.

    Raises:
        ClusterError: it does not answer.
    """
    return api(site.cluster.kubeconfig).ask("POST", _all(namespace), pod(site, name, dongles))


def stored(site: Site, namespace: str) -> set[str]:
    """The names of the pods that are stored there.

    Raises:
        ClusterError: they may not be read.
    """
    return {each["metadata"]["name"] for each in api(site.cluster.kubeconfig).items(_all(namespace))}


def _all(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"
