"""Requests to the server of asks: over TLS with a verified certificate, with the credentials of a kubeconfig.

Redirects are not followed, and each length and wait has a limit.
"""

import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from tallygate.answers.columns import escape_control
from tallygate.cli.ask.gate_address import (
    GateAddress,
    GateOptions,
    PodPortFinder,
    describe_missing_right,
    find_address,
    find_pod_port,
)
from tallygate.cli.ask.tls_stream import ByteTransport, SocketTransport, TlsStream
from tallygate.cli.connection import Connection
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import JSON, ApiClient, ClientConfig
from tallygate.kube.port_forward import open_port_forward

CONNECT_SECONDS: Final = 10.0
TOTAL_SECONDS: Final = 30.0
"""The time of a connection, and of the whole request: the server answers within 10 s, or says that it cannot."""

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_MAX_MESSAGE_CHARACTERS: Final = 2000
_HTTPS_PORT: Final = 443


class GateError(TallygateError):
    """A request to the server of asks without an answer; `status` is that of the response, 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class GateResponse(NamedTuple):
    """The status, the headers and the body of an answer."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


class _Status(msgspec.Struct, frozen=True):
    message: str = ""


class GateClient:
    """A client of the server of asks at one address, with the credentials of a configuration."""

    def __init__(
        self, address: GateAddress, config: ClientConfig, find_pod_port: PodPortFinder, user_agent: str = "tallygate"
    ) -> None:
        self._address, self._config, self._find_pod_port = address, config, find_pod_port
        self._user_agent = user_agent

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._address.url

    def exchange(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None = None, content_type: str = JSON
    ) -> bytes:
        """Send a request, and return the body of its answer, which has status 200.

        Raises:
            GateError: if the gate cannot be reached, is not the one that its certificate has to name, or refuses.
        """
        headers = {"Accept": JSON} | ({} if body is None else {"Content-Type": content_type})
        response = self.forward(method, f"{path}?{urlencode(query)}", headers, body)
        if response.status != HTTPStatus.OK:
            raise _create_status_error(self._address.url, response.status, response.body)
        return response.body

    def forward(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> GateResponse:
        """Send a request with these headers, and return its answer whatever its status.

        `target` is a path with a query. The headers are valid ones, without line ends.

        Raises:
            GateError: if the gate cannot be reached, or is not the one that its certificate has to name.
        """
        deadline = time.monotonic() + TOTAL_SECONDS
        url = urlsplit(self._address.url)
        try:
            context = self._create_context()
            request = self._encode_request(f"{method} {url.path}{target} HTTP/1.1", url.netloc, headers, body)
            with self._connect(url, deadline) as transport:
                stream = TlsStream(transport, context, url.hostname or "")
                return _receive(stream, request, method, self._address.url)
        except ssl.SSLCertVerificationError as error:
            raise GateError(
                f"the certificate of {self._address.url} is not valid: {error.verify_message}; nothing was sent. "
                f"{self._address.describe_trust()}"
            ) from None
        except ApiError as error:
            raise GateError(f"{error}") from error
        except (OSError, HTTPException, ValueError) as error:
            reason = "it does not answer in time" if isinstance(error, TimeoutError) else f"{error}"
            raise GateError(f"{self._address.url} cannot be asked: {reason}") from None

    def _create_context(self) -> ssl.SSLContext:
        """Return the context that verifies the server, and that has the client certificate, if there is one.

        Raises:
            GateError: if the certificates of the authority cannot be read.
        """
        try:
            context = ssl.create_default_context(cadata=self._address.ca or None)
        except (ssl.SSLError, ValueError) as error:
            raise GateError(f"{self._address.ca_source}: it has no certificates in PEM: {error}") from None
        if self._config.certificate is not None:
            context.load_cert_chain(*self._config.certificate)
        return context

    def _encode_request(self, line: str, host: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [line, f"Host: {host}", f"User-Agent: {self._user_agent}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        authorization = self._config.get_authorization()
        if authorization:
            lines.append(f"Authorization: {authorization}")
        elif self._config.certificate is None:
            raise GateError("the kubeconfig has neither a token nor a client certificate: the gate answers users alone")
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")

    @contextmanager
    def _connect(self, url: SplitResult, deadline: float) -> Iterator[ByteTransport]:
        """Yield a connection to the gate: straight, or to one of its pods through the API server."""
        transport: ByteTransport
        if self._address.is_forwarded:
            try:
                transport = open_port_forward(self._config, self._find_pod_port(), deadline)
            except ApiError as error:
                raise GateError(describe_missing_right(error, self._address.url)) from error
        else:
            connection = _open_connection(url.hostname or "", url.port or _HTTPS_PORT)
            transport = SocketTransport(connection.sock, deadline)
        try:
            yield transport
        finally:
            transport.close()


def open_gate(connection: Connection, options: GateOptions) -> GateClient:
    """Return a client of the server of asks, with the credentials of a connection.

    Raises:
        ClientConfigError: if the API server is not configured.
        UsageError: if an option is not usable.
        NoGateError: if no server of asks is found.
        GateError: if the configuration impersonates another user: the gate answers the user of the credentials.
    """
    config = connection.load()
    if config.impersonates:  # checked first: the ConfigMap of the address may be forbidden to the other user
        raise GateError(
            "the gate answers the user of the token or of the certificate, and has no --as: ask without it and "
            "without `as` in the kubeconfig, or with a kubeconfig of that user"
        )
    client = ApiClient(config)
    address = find_address(options, client, in_cluster=connection.in_cluster)
    return GateClient(address, config, lambda: find_pod_port(address.url, client))


def _open_connection(host: str, port: int) -> HTTPConnection:
    """Return a TCP connection, through the proxy of the environment if there is one for the host, as curl does."""
    proxy_url = getproxies().get("https", "")
    if not proxy_url or _is_loopback(host) or proxy_bypass(f"{host}:{port}"):
        connection = HTTPConnection(host, port, timeout=CONNECT_SECONDS)
    else:
        proxy = urlsplit(proxy_url if "//" in proxy_url else f"http://{proxy_url}")
        connection_type = HTTPSConnection if proxy.scheme == "https" else HTTPConnection
        connection = connection_type(proxy.hostname or "", proxy.port, timeout=CONNECT_SECONDS)
        connection.set_tunnel(host, port, _create_proxy_headers(proxy))
    connection.connect()
    return connection


def _create_proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    from base64 import b64encode  # noqa: PLC0415  proxies with users are rare

    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(user.encode()).decode()}"}


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _receive(stream: TlsStream, request: bytes, method: str, url: str) -> GateResponse:
    """Send a request, and return its answer.

    Raises:
        GateError: if the answer is too large.
    """
    with suppress(OSError):  # a gate may refuse before it has read all; its answer says why
        stream.sendall(request)
    response = HTTPResponse(stream, method=method)  # type: ignore[arg-type]  # it uses `makefile` alone
    try:
        response.begin()
        chunks, length = list[bytes](), 0
        while chunk := response.read1(_CHUNK_BYTES):
            chunks.append(chunk)
            length += len(chunk)
            if length > MAX_ANSWER_BYTES:
                raise GateError(f"{url} sends an answer of more than {MAX_ANSWER_BYTES // 1024**2} MiB")
        if response.length:
            raise ConnectionError("it closed the connection in the middle of an answer")
    finally:
        response.close()
    return GateResponse(response.status, tuple(response.getheaders()), b"".join(chunks))


def _create_status_error(url: str, status: int, body: bytes) -> GateError:
    """Return the error for an answer without a result, with the sentence of the gate."""
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return GateError(f"{url} redirects to another address, which is not followed: name the address itself", status)
    try:
        message = msgspec.json.decode(body, type=_Status).message
    except (ValueError, RecursionError):
        message = ""
    text = escape_control(message[:_MAX_MESSAGE_CHARACTERS]) or "no reason given; is it the server of asks?"
    return GateError(f"{url} says {status}: {text}", status)
