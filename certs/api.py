"""A client of an API server that reads, writes and watches untyped objects.

The official client authenticates and sets up the connections. Its typed classes are not used: their import takes
longer than all the rest of a start, and they drop fields that are newer than they are.
"""

import json
import time
from typing import Any, Final
from urllib.parse import urlencode

from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from urllib3 import BaseHTTPResponse, Timeout
from urllib3.exceptions import HTTPError, SSLError

from certs.errors import CertsError, format_one_line

FIELD_MANAGER: Final = "tallygate-certs"
"""The client's name in `kubectl get --show-managed-fields` and in the API server's audit log."""

_CONNECT_TIMEOUT_SECONDS: Final = 5.0
_READ_TIMEOUT_SECONDS: Final = 30.0  # until the response begins, and between two pieces of it
_BODY_TIMEOUT_SECONDS: Final = 60.0
_SUCCESS_STATUSES: Final = range(200, 300)
_MAX_RESPONSE_BYTES: Final = 4 << 20
"""Bytes of one response. A client sends an object in one request of at most 3 MiB (k8s.io/apiserver,
pkg/server/config.go, MaxRequestBodyBytes, v1.36), and etcd accepts half of that; a longer response is no object."""

_TOO_LONG_MESSAGE: Final = (
    f"its answer is longer than {_MAX_RESPONSE_BYTES >> 20} MiB, and no object is: something else answers there"
)
_CHUNK_BYTES: Final = 1 << 16
_JSON: Final = "application/json"
_JSON_PATCH: Final = "application/json-patch+json"


class ApiError(Exception):
    """A failed request: `status` is that of the response, 0 without a response, and `message` is one line."""

    def __init__(self, server: str, status: int, message: str) -> None:
        super().__init__(message)
        self.server = server
        self.status = status
        self.message = message

    def to_certs_error(self, operation: str) -> CertsError:
        """Return an error that says in a sentence why the operation failed."""
        server = f"the API server at {self.server}"
        if not self.status:
            return CertsError(f"{server} cannot be reached: {self.message}")
        return CertsError(f"cannot {operation}: {server} answers {self.status}: {self.message}")


class ApiClient:
    """A client of the API server of a configuration, with its credentials; safe for several threads."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._pool = RESTClientObject(configuration).pool_manager

    def close(self) -> None:
        """Close the open connections."""
        self._pool.clear()

    def read(self, path: str, kind: str, name: str) -> Any:
        """Return the object at a path, of this kind and name.

        Raises:
            ApiError: if the object cannot be read; status 404: it does not exist.
            CertsError: if the response does not come from an API server.
        """
        content = self._read_body(self._send("GET", path))
        try:
            decoded = json.loads(content)
        except (ValueError, RecursionError):
            decoded = None
        if not isinstance(decoded, dict) or decoded.get("kind") != kind:
            raise CertsError(f"what answered for the {kind} {name} is no API server")
        return decoded

    def create(self, path: str, new_object: object) -> None:
        """Create an object in the collection at a path. Raises ApiError; status 409: the name exists already."""
        self._write("POST", path, new_object)

    def replace(self, path: str, new_object: object) -> None:
        """Replace the object at a path. Raises ApiError; status 409: the stored object has another version."""
        self._write("PUT", path, new_object)

    def patch(self, path: str, operations: list[dict[str, Any]]) -> None:
        """Apply a JSON patch (RFC 6902). Raises ApiError; status 409: as `replace`."""
        self._write("PATCH", path, operations, _JSON_PATCH)

    def watch(self, collection: str, name: str, duration_seconds: int, idle_timeout: float) -> BaseHTTPResponse:
        """Watch the object of this name for `duration_seconds`; break off after `idle_timeout` seconds of silence.

        A client that may read an object by name may watch it with a selector of that name alone (k8s.io/apiserver,
        pkg/endpoints/request/requestinfo.go, v1.36). The caller closes the response; reads may raise any HTTPError.

        Raises:
            ApiError: if the object cannot be watched.
        """
        query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": f"{duration_seconds}"}
        return self._send("GET", f"{collection}?{urlencode(query)}", read_timeout=idle_timeout)

    def convert_error(self, error: HTTPError) -> ApiError:
        """Return the ApiError for a connection that cannot be made, or breaks off."""
        reason = f"{type(error).__name__} {error}" if isinstance(error, SSLError) else str(error)
        return ApiError(self.configuration.host, 0, format_one_line(reason))

    def _write(self, method: str, path: str, content: object, media_type: str = _JSON) -> None:
        headers = {"Content-Type": media_type}
        body = json.dumps(content).encode("utf-8")
        self._read_body(self._send(method, f"{path}?{urlencode({'fieldManager': FIELD_MANAGER})}", headers, body))

    def _send(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        read_timeout: float = _READ_TIMEOUT_SECONDS,
    ) -> BaseHTTPResponse:
        """Send a request and return a successful response, its body still to be read and not decompressed."""
        all_headers = {"Accept": _JSON, "User-Agent": FIELD_MANAGER, **self._get_authorization(), **(headers or {})}
        url, timeout = (
            self.configuration.host.rstrip("/") + path,
            Timeout(connect=_CONNECT_TIMEOUT_SECONDS, read=read_timeout),
        )
        try:
            response = self._pool.request(
                method,
                url,
                body,
                headers=all_headers,
                timeout=timeout,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except HTTPError as error:
            raise self.convert_error(error) from None
        if response.status not in _SUCCESS_STATUSES:
            raise ApiError(
                self.configuration.host, response.status, _parse_message(self._read_body(response), response.reason)
            )
        return response

    def _read_body(self, response: BaseHTTPResponse) -> bytes:
        """Return the body of a response. Raises ApiError if it is too long or too slow for an API server."""
        content, deadline = bytearray(), time.monotonic() + _BODY_TIMEOUT_SECONDS
        try:
            while piece := response.read1(_CHUNK_BYTES):
                content += piece
                if len(content) > _MAX_RESPONSE_BYTES:
                    raise self._abort(response, _TOO_LONG_MESSAGE)
                if time.monotonic() > deadline:
                    raise self._abort(response, f"its answer is not whole after {_BODY_TIMEOUT_SECONDS:.0f} s")
        except HTTPError as error:
            raise self.convert_error(error) from None
        return bytes(content)

    def _abort(self, response: BaseHTTPResponse, reason: str) -> ApiError:
        """Close a response that is not read to its end, and return the ApiError for it."""
        response.close()
        return ApiError(self.configuration.host, response.status, reason)

    def _get_authorization(self) -> dict[str, str]:
        """Return the header with the bearer token, if there is one; a token that is about to expire is renewed."""
        try:
            token = self.configuration.auth_settings().get("BearerToken")
        except Exception as error:  # noqa: BLE001  # any error of the renewal: a file, a program, a server
            raise ApiError(
                self.configuration.host, 0, format_one_line(f"the token cannot be renewed: {error}")
            ) from None
        return {"Authorization": token["value"] or ""} if token else {}


def _parse_message(body: bytes, reason: str | None) -> str:
    """Return the message of the Status that the API server sends (metav1.Status), or the text that came instead."""
    try:
        status = json.loads(body)
    except (ValueError, RecursionError):
        status = None
    message = status.get("message") if isinstance(status, dict) else None
    return format_one_line(str(message or reason or body.decode("utf-8", "replace") or "no reason is given"))
