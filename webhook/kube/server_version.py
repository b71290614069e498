"""The version of Kubernetes that an API server reports."""

import msgspec

from tallygate.webhook.kube.api_errors import ApiError
from tallygate.webhook.kube.client import ApiClient

_PATH = "/version"
_OK = 200


class _Version(msgspec.Struct, rename="camel"):
    """Info of apimachinery pkg/version/types.go."""

    git_version: str


def read_git_version(client: ApiClient, timeout: float | None = None) -> str | None:
    """Return the version of the API server, as `v1.37.2`; None if it does not report one within `timeout` seconds."""
    try:
        response = client.get(_PATH, timeout=timeout)
        return msgspec.json.decode(response.body, type=_Version).git_version if response.status == _OK else None
    except (ApiError, ValueError):
        return None
