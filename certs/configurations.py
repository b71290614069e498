"""The two webhook configurations of an API server: how they are read, and how what they trust is changed."""

from typing import Any, Final
from urllib.parse import quote

from certs.api import Api

KINDS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def collection(kind: str) -> str:
    """The path of all configurations of a kind."""
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"


def read(api: Api, kind: str, name: str) -> Any:
    """One configuration as it was sent.

    Raises:
        ApiError: it cannot be read; 404: there is none.
        CertsError: what answered is no API server.
    """
    return api.read(_path(kind, name), kind, name)


def write_trust(api: Api, name: str, found: Any, trusted: str) -> bool:
    """Let every webhook of what was found trust this (PEM in base64); whether there was anything to write.

    Raises:
        ApiError: it cannot be written; 409: it was changed since it was read.
    """
    operations = _operations(found, trusted)
    if operations:
        api.patch(_path(found["kind"], name), operations)
    return bool(operations)


def _path(kind: str, name: str) -> str:
    return f"{collection(kind)}/{quote(name, safe='')}"


def _operations(found: Any, trusted: str) -> list[dict[str, Any]]:
    """The JSON patch that makes every webhook trust; it holds only for the very version that was read (409 else)."""
    entries = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": trusted}
        for index, webhook in enumerate(found.get("webhooks") or ())
        if webhook["clientConfig"].get("caBundle") != trusted
    ]
    version = {"op": "add", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]}
    return [version, *entries] if entries else []
