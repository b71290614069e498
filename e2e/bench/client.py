"""A light client of the API server: one open connection, and the time of each create on it."""

import base64
import json
import ssl
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

_WITHIN = 60.0  # seconds for a response
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}


@dataclass(frozen=True, slots=True)
class CreateResponse:
    """The response to a create, and the seconds from the first byte sent to the last byte read."""

    status: int
    body: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class Access:
    """The address of the API server, and the TLS context with the client certificate."""

    host: str
    port: int
    trust: ssl.SSLContext


def load_access(kubeconfig: Path, folder: Path) -> Access:
    """Return the access of a kubeconfig of the local control plane; the certificate is written to `folder` for ssl.

    All connections share the context, which reads the files once.
    """
    content = json.loads(kubeconfig.read_text())
    (cluster,), (user,) = (
        [each["cluster"] for each in content["clusters"]],
        [each["user"] for each in content["users"]],
    )
    trust = ssl.create_default_context(cadata=_text(cluster["certificate-authority-data"]))
    pair = folder / "client.pem"
    pair.touch(mode=0o600)
    pair.write_text(_text(user["client-certificate-data"]) + _text(user["client-key-data"]))
    trust.load_cert_chain(pair)
    server = urlsplit(cluster["server"])
    return Access(str(server.hostname), int(server.port or 443), trust)


class Client:
    """One HTTP/1.1 connection to the API server, kept open. Not for two threads at once."""

    def __init__(self, access: Access) -> None:
        self._connection = HTTPSConnection(access.host, access.port, timeout=_WITHIN, context=access.trust)

    def create(self, namespace: str, pod: bytes) -> CreateResponse:
        """Create a pod and return the response, also an error."""
        started_at = perf_counter()
        self._connection.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod, _JSON)
        response = self._connection.getresponse()
        body = response.read()
        return CreateResponse(response.status, body, perf_counter() - started_at)

    def delete_pods(self, namespace: str) -> None:
        """Delete all pods of the namespace at once, because no node has them."""
        self._connection.request("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0", None, _JSON)
        self._connection.getresponse().read()

    def read(self, path: str) -> str:
        """Return the text at a path."""
        self._connection.request("GET", path)
        return self._connection.getresponse().read().decode()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()
