"""Reads and writes of untyped objects over the API client, and its failures as sentences."""

import json
from typing import Any, Final

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig, ResponseLimits
from tallygate.kube.resource_codec import create_response_error
from tallygate.kube.transport import Response
from tallygate_certs.errors import CertsError, format_one_line

FIELD_MANAGER: Final = "tallygate-certs"
"""The client's name in `kubectl get --show-managed-fields` and in the API server's audit log."""

_LIMITS: Final = ResponseLimits(connect=5.0, silence=30.0, total=60.0, max_bytes=4 << 20)
"""A client sends an object in one request of at most 3 MiB (k8s.io/apiserver, pkg/server/config.go,
MaxRequestBodyBytes, v1.36), and etcd accepts half of that; a longer response is no object."""

_QUERY: Final = {"fieldManager": FIELD_MANAGER}
_SUCCESS_STATUSES: Final = range(200, 300)


def create_client(config: ClientConfig) -> ApiClient:
    """Return a client of an API server; it sends nothing yet."""
    return ApiClient(config, _LIMITS, FIELD_MANAGER)


def read_object(client: ApiClient, path: str, kind: str, name: str) -> Any:
    """Return the object at a path, of this kind and name.

    Raises:
        ApiError: if the object cannot be read; status 404: it does not exist.
        CertsError: if the response does not come from an API server.
    """
    response = client.get(path)
    check_status(response)
    try:
        decoded = json.loads(response.body)
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict) or decoded.get("kind") != kind:
        raise CertsError(f"what answered for the {kind} {name} is no API server")
    return decoded


def create_object(client: ApiClient, path: str, new_object: object) -> None:
    """Create an object in the collection at a path. Raises ApiError; status 409: the name exists already."""
    check_status(client.create(path, json.dumps(new_object).encode(), _QUERY))


def replace_object(client: ApiClient, path: str, new_object: object) -> None:
    """Replace the object at a path. Raises ApiError; status 409: the stored object has another version."""
    check_status(client.replace(path, json.dumps(new_object).encode(), _QUERY))


def patch_object(client: ApiClient, path: str, operations: list[dict[str, Any]]) -> None:
    """Apply a JSON patch (RFC 6902). Raises ApiError; status 409: as `replace_object`."""
    check_status(client.patch(path, json.dumps(operations).encode(), _QUERY))


def check_status(response: Response) -> None:
    """Raise ApiError unless the request succeeded."""
    if response.status not in _SUCCESS_STATUSES:
        raise create_response_error(response)


def create_certs_error(client: ApiClient, error: ApiError, operation: str) -> CertsError:
    """Return an error that says in a sentence why the operation failed."""
    server, message = f"the API server at {client.server}", error.detail
    if not error.status:
        return CertsError(f"{server} cannot be reached: {format_one_line(message)}")
    if error.reason is ApiErrorReason.TOO_LARGE:
        size = f"{_LIMITS.max_bytes >> 20} MiB"
        message = f"its answer is longer than {size}, and no object is: something else answers there"
    elif error.reason is ApiErrorReason.TIMEOUT:
        message = f"its answer is not whole after {_LIMITS.total:.0f} s"
    return CertsError(f"cannot {operation}: {server} answers {error.status}: {format_one_line(message)}")
