"""The two webhook configurations of an API server: how they are read, and how what they trust is changed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubernetes.client import AdmissionregistrationV1Api, ApiClient

from certs.errors import CertsError

RAW: Any = {
    "_preload_content": False,  # the client's own types forget fields of newer versions, and mind what is new in others
    "_request_timeout": (5.0, 30.0),  # seconds, to connect and to answer
}
"""How every call of the client is made."""

MANAGER = "tallygate-certs"
"""Who `kubectl get --show-managed-fields` says it was."""

_JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Configurations:
    """How the configurations of one kind are read and changed."""

    kind: str
    read: Callable[..., Any]
    patch: Callable[..., Any]


def both(client: ApiClient) -> tuple[Configurations, Configurations]:
    """The two kinds, of this API server."""
    api = AdmissionregistrationV1Api(client)
    return (
        Configurations(
            "MutatingWebhookConfiguration",
            api.read_mutating_webhook_configuration,
            api.patch_mutating_webhook_configuration,
        ),
        Configurations(
            "ValidatingWebhookConfiguration",
            api.read_validating_webhook_configuration,
            api.patch_validating_webhook_configuration,
        ),
    )


def sent(response: Any, kind: str, name: str) -> Any:
    """An object as it was sent.

    Raises:
        CertsError: it is none of this kind.
    """
    try:
        found = json.loads(response.data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("kind") != kind:
        raise CertsError(f"what answered for the {kind} {name} is no API server")
    return found


def read(configurations: Configurations, name: str) -> Any:
    """One configuration as it was sent.

    Raises:
        ApiException, HTTPError: it cannot be read; 404: there is none.
        CertsError: what answered is no API server.
    """
    return sent(configurations.read(name, **RAW), configurations.kind, name)


def write_trust(configurations: Configurations, name: str, found: Any, trusted: str) -> bool:
    """Let every webhook of what was found trust this (PEM in base64); whether there was anything to write.

    Raises:
        ApiException, HTTPError: it cannot be written; 409: it was changed since it was read.
    """
    operations = _operations(found, trusted)
    if operations:
        configurations.patch(name, operations, field_manager=MANAGER, _content_type=_JSON_PATCH, **RAW)
    return bool(operations)


def _operations(found: Any, trusted: str) -> list[dict[str, Any]]:
    """The JSON patch that makes every webhook trust; it holds only for the very version that was read (409 else)."""
    entries = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": trusted}
        for index, webhook in enumerate(found.get("webhooks") or ())
        if webhook["clientConfig"].get("caBundle") != trusted
    ]
    version = {"op": "add", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]}
    return [version, *entries] if entries else []
