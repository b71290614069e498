"""Defaults that Kubernetes fills in before any webhook looks, as far as they are about resources."""

from typing import Any

from webhook.cli.sequences.model import JsonObject

_CONTAINER_LISTS = ("containers", "initContainers")


def set_default_requests(pod: JsonObject) -> None:
    """Copy the limits of a pod of which there is no request (SetDefaults_Pod, pkg/apis/core/v1/defaults.go, v1.36).

    Of pods only: a template is stored as it was written. The pod has been decoded, so that its shape is right.
    """
    spec = pod.get("spec") or {}
    for name in _CONTAINER_LISTS:
        for container in spec.get(name) or ():
            _copy_limits_to_requests(container.get("resources"))


def _copy_limits_to_requests(resources: Any) -> None:
    if not resources or not resources.get("limits"):
        return
    resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
