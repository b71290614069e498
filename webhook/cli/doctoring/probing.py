"""Pods that are sent as a dry run: nothing is stored, and nothing is charged."""

import json
from collections.abc import Iterable
from typing import Any

from webhook.accounting.names import OPAQUE_PREFIX
from webhook.cli.doctoring.api import Api
from webhook.cli.doctoring.facts import Attempt, Unseen
from webhook.cli.doctoring.matching import NEW_POD, asks, selects
from webhook.cli.doctoring.records import Configuration, Space
from webhook.cli.progress import shown

_FORBIDDEN = 403
REFUSED, LET_IN = "tallygate-doctor-refused", "tallygate-doctor-let-in"
_HALVES = {f"{OPAQUE_PREFIX}probes": "1500m"}
_LITTLE = {"cpu": "1m", "memory": "1Mi"}
_PODS: tuple[tuple[str, dict[str, Any]], ...] = (
    (REFUSED, {"requests": _HALVES, "limits": _HALVES}),
    (LET_IN, {"requests": _LITTLE}),
)


def attempts(api: Api, namespace: str) -> tuple[Attempt, ...] | Unseen:
    """What is answered to one that the shipped rules refuse in the mutating phase, and one that both phases see."""
    found = []
    for name, resources in shown("asking the gate about pods", _PODS):
        path = f"/api/v1/namespaces/{namespace}/pods"
        answer = api.post(path, json.dumps(_pod(name, resources)).encode(), {"dryRun": "All"})
        if isinstance(answer, Unseen):
            return answer
        message = answer.message()
        if answer.status == _FORBIDDEN and "cannot create resource" in message:
            return Unseen(message)
        found.append(Attempt(name, namespace, answer.status, message))
    return tuple(found)


def where(configurations: Iterable[Configuration], spaces: tuple[Space, ...] | Unseen) -> str:
    """A namespace in which the gate is asked about pods: `default`, where that is one."""
    asking = [each for found in configurations for each in found.webhooks if asks(each, NEW_POD)]
    known = () if isinstance(spaces, Unseen) else spaces
    wanted = sorted(known, key=lambda each: (each.name != "default", each.name))
    return next(
        (each.name for each in wanted if asking and all(selects(webhook, each) for webhook in asking)), "default"
    )


def _pod(name: str, resources: dict[str, Any]) -> dict[str, Any]:
    """A pod that Pod Security lets in wherever it is most strict."""
    container = {
        "name": "main",
        "image": "none",
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "containers": [container],
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
