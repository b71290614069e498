"""The two webhook configurations of an API server: how they are read, and how what they trust is changed."""

from typing import Any, Final
from urllib.parse import quote

from certs.api import ApiClient

CONFIGURATION_KINDS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def get_collection_path(kind: str) -> str:
    """The path of all configurations of a kind."""
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"


def read_configuration(client: ApiClient, kind: str, name: str) -> Any:
    """One configuration as it was sent.

    Raises:
        ApiError: it cannot be read; 404: there is none.
        CertsError: what answered is no API server.
    """
    return client.read(_get_configuration_path(kind, name), kind, name)


def patch_trust(client: ApiClient, name: str, configuration: Any, encoded_bundle: str) -> bool:
    """Let every webhook of what was found trust this (PEM in base64); whether there was anything to write.

    Raises:
        ApiError: it cannot be written; 409: it was changed since it was read.
    """
    operations = _create_operations(configuration, encoded_bundle)
    if operations:
        client.patch(_get_configuration_path(configuration["kind"], name), operations)
    return bool(operations)


def _get_configuration_path(kind: str, name: str) -> str:
    return f"{get_collection_path(kind)}/{quote(name, safe='')}"


def _create_operations(configuration: Any, encoded_bundle: str) -> list[dict[str, Any]]:
    """The JSON patch that makes every webhook trust; it holds only for the very version that was read (409 else)."""
    entries = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded_bundle}
        for index, webhook in enumerate(configuration.get("webhooks") or ())
        if webhook["clientConfig"].get("caBundle") != encoded_bundle
    ]
    version = {"op": "add", "path": "/metadata/resourceVersion", "value": configuration["metadata"]["resourceVersion"]}
    return [version, *entries] if entries else []
