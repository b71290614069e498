"""Pods that are sent as a dry run: nothing is stored, and nothing is charged."""

import json
from collections.abc import Iterable
from typing import Any

from webhook.accounting.names import OPAQUE_PREFIX
from webhook.cli.doctoring.api import DoctorClient
from webhook.cli.doctoring.facts import DryRun, Unavailable
from webhook.cli.doctoring.matching import CREATE_POD, is_called_for, is_namespace_selected
from webhook.cli.doctoring.records import LabelledNamespace, WebhookConfiguration
from webhook.cli.progress import track

_FORBIDDEN = 403
DENIED_POD, ALLOWED_POD = "tallygate-doctor-refused", "tallygate-doctor-let-in"
_FRACTIONAL_AMOUNTS = {f"{OPAQUE_PREFIX}probes": "1500m"}
_SMALL_AMOUNTS = {"cpu": "1m", "memory": "1Mi"}
_DRY_RUN_PODS: tuple[tuple[str, dict[str, Any]], ...] = (
    (DENIED_POD, {"requests": _FRACTIONAL_AMOUNTS, "limits": _FRACTIONAL_AMOUNTS}),
    (ALLOWED_POD, {"requests": _SMALL_AMOUNTS}),
)


def send_dry_runs(api: DoctorClient, namespace: str) -> tuple[DryRun, ...] | Unavailable:
    """What is answered to one that the shipped rules refuse in the mutating phase, and one that both phases see."""
    dry_runs = []
    for name, resources in track("asking the gate about pods", _DRY_RUN_PODS):
        path = f"/api/v1/namespaces/{namespace}/pods"
        response = api.post(path, json.dumps(_build_pod(name, resources)).encode(), {"dryRun": "All"})
        if isinstance(response, Unavailable):
            return response
        message = response.parse_message()
        if response.status == _FORBIDDEN and "cannot create resource" in message:
            return Unavailable(message)
        dry_runs.append(DryRun(name, namespace, response.status, message))
    return tuple(dry_runs)


def choose_namespace(
    configurations: Iterable[WebhookConfiguration], namespaces: tuple[LabelledNamespace, ...] | Unavailable
) -> str:
    """A namespace in which the gate is asked about pods: `default`, where that is one."""
    pod_webhooks = [
        each for configuration in configurations for each in configuration.webhooks if is_called_for(each, CREATE_POD)
    ]
    known_namespaces = () if isinstance(namespaces, Unavailable) else namespaces
    candidates = sorted(known_namespaces, key=lambda each: (each.name != "default", each.name))
    return next(
        (
            each.name
            for each in candidates
            if pod_webhooks and all(is_namespace_selected(webhook, each) for webhook in pod_webhooks)
        ),
        "default",
    )


def _build_pod(name: str, resources: dict[str, Any]) -> dict[str, Any]:
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
