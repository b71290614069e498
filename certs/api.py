"""An API server as certificates need it: objects read, written and watched as they are sent.

The official client says who asks and sets up the connections. Its typed classes are not used: to import them takes
longer than all the rest of a start, and they forget what is newer than they are.
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
"""Who `kubectl get --show-managed-fields` and the API server's audit log say it was."""

_CONNECT_TIMEOUT_SECONDS: Final = 5.0
_READ_TIMEOUT_SECONDS: Final = 30.0  # until it begins, and from one piece of it to the next
_BODY_TIMEOUT_SECONDS: Final = 60.0
_SUCCESS_STATUSES: Final = range(200, 300)
_MAX_RESPONSE_BYTES: Final = 4 << 20
"""Of one answer. An object is sent in one request, which may have 3 MiB (k8s.io/apiserver, pkg/server/config.go,
MaxRequestBodyBytes, v1.36), and etcd takes half of that; whatever goes on after this is no object."""

_TOO_LONG_MESSAGE: Final = (
    f"its answer is longer than {_MAX_RESPONSE_BYTES >> 20} MiB, and no object is: something else answers there"
)
_CHUNK_BYTES: Final = 1 << 16
_JSON: Final = "application/json"
_JSON_PATCH: Final = "application/json-patch+json"


class ApiError(Exception):
    """A request came to nothing: `status` is that of the answer, 0 when there is none, and `message` one line."""

    def __init__(self, server: str, status: int, message: str) -> None:
        super().__init__(message)
        self.server = server
        self.status = status
        self.message = message

    def to_certs_error(self, operation: str) -> CertsError:
        """Why what we tried to do (`doing`) cannot be done, in a sentence."""
        server = f"the API server at {self.server}"
        if not self.status:
            return CertsError(f"{server} cannot be reached: {self.message}")
        return CertsError(f"cannot {operation}: {server} answers {self.status}: {self.message}")


class ApiClient:
    """The API server of a configuration, asked as whom that names; by several threads, if need be."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._pool = RESTClientObject(configuration).pool_manager

    def close(self) -> None:
        """Give up the connections that are open."""
        self._pool.clear()

    def read(self, path: str, kind: str, name: str) -> Any:
        """The object at a path, of this kind and called so.

        Raises:
            ApiError: it cannot be read; 404: there is none.
            CertsError: what answered is no API server.
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
        """Put an object into the collection at a path. Raises ApiError; 409: there is one of its name."""
        self._write("POST", path, new_object)

    def replace(self, path: str, new_object: object) -> None:
        """Put another in the place of an object. Raises ApiError; 409: it is of another version than that says."""
        self._write("PUT", path, new_object)

    def patch(self, path: str, operations: list[dict[str, Any]]) -> None:
        """Carry out a JSON patch (RFC 6902). Raises ApiError; 409: as `replace`."""
        self._write("PATCH", path, operations, _JSON_PATCH)

    def watch(self, collection: str, name: str, duration_seconds: int, idle_timeout: float) -> BaseHTTPResponse:
        """What becomes of the object of this name for `lasts` seconds; after `silent` that say nothing it breaks off.

        By its name alone, an object that one may read by its name may be watched (k8s.io/apiserver,
        pkg/endpoints/request/requestinfo.go, v1.36). Who reads closes it, and may meet any HTTPError.

        Raises:
            ApiError: it cannot be watched.
        """
        query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": f"{duration_seconds}"}
        return self._send("GET", f"{collection}?{urlencode(query)}", read_timeout=idle_timeout)

    def convert_error(self, error: HTTPError) -> ApiError:
        """What it means that a connection cannot be made, or breaks off."""
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
        """The answer, when it is a good one; its body is still to be read, and what comes packed is not unpacked."""
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
        """The body of an answer, unless it is longer than any that an API server has to give, or takes for ever."""
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
        """What it means that an answer is not read to its end."""
        response.close()
        return ApiError(self.configuration.host, response.status, reason)

    def _get_authorization(self) -> dict[str, str]:
        """What says who asks, if it is said by a token; one that is about to expire is renewed."""
        try:
            token = self.configuration.auth_settings().get("BearerToken")
        except Exception as error:  # noqa: BLE001  # whatever renews it fails with: a file, a program, a server
            raise ApiError(
                self.configuration.host, 0, format_one_line(f"the token cannot be renewed: {error}")
            ) from None
        return {"Authorization": token["value"] or ""} if token else {}


def _parse_message(body: bytes, reason: str | None) -> str:
    """The message of the Status that the API server sends (metav1.Status), or what came instead."""
    try:
        status = json.loads(body)
    except (ValueError, RecursionError):
        status = None
    message = status.get("message") if isinstance(status, dict) else None
    return format_one_line(str(message or reason or body.decode("utf-8", "replace") or "no reason is given"))
