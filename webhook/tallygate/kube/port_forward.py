"""A TCP connection to a port of a pod through the API server, as `kubectl port-forward` opens it, over a WebSocket.

The API server passes the WebSocket on to the kubelet of the pod's node. Its subprotocol is `v4.channel.k8s.io`: each
message is binary, and its first byte is a channel, 0 for the data and 1 for an error. The first message on each channel
is the port (k8s.io/cri-streaming v0.36, pkg/streaming/portforward/websocket.go). The frames are those of RFC 6455.

Who reads the bytes in between is not checked here: what is secret needs TLS inside of the connection.
"""

import os
import struct
import time
from base64 import b64encode
from contextlib import suppress
from hashlib import sha1
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import urllib3
from urllib3.connection import HTTPConnection

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ClientConfig
from tallygate.kube.http1 import connect
from tallygate.kube.resource_codec import create_response_error
from tallygate.kube.transport import Response

_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_CONTINUATION, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x2, 0x8, 0x9, 0xA
_MAX_FRAME_BYTES: Final = 1024 * 1024
_MAX_SENT_BYTES: Final = 16 * 1024
_MAX_ERROR_BYTES: Final = 64 * 1024
_MAX_LINE_BYTES: Final = 64 * 1024
_LENGTH_16, _LENGTH_64 = 126, 127
_BROKEN = (OSError, HTTPException, ValueError)


class PodPort(NamedTuple):
    """A TCP port of a pod."""

    namespace: str
    pod: str
    port: int


class PortForward:
    """A connection to the port of a pod, for one thread. Each wait ends at `deadline` (seconds of `time.monotonic`)."""

    def __init__(self, connection: HTTPConnection, reader: BinaryIO, deadline: float) -> None:
        self._connection, self._reader, self._deadline = connection, reader, deadline
        self._seen_ports: set[int] = set()

    def send(self, data: bytes) -> None:
        """Send bytes to the port.

        Raises:
            ApiError: if the connection is broken, or the time is over.
        """
        for start in range(0, len(data), _MAX_SENT_BYTES):
            self._send_frame(_BINARY, bytes((_DATA,)) + data[start : start + _MAX_SENT_BYTES])

    def receive(self) -> bytes:
        """Return the next bytes of the port, empty at the end.

        Raises:
            ApiError: if the port cannot be reached, the connection is broken, or the time is over.
        """
        while True:
            message = self._receive_message()
            if message is None:
                return b""
            channel, content = message[0], message[1:]
            if channel not in self._seen_ports:  # the port, which the first message on each channel repeats
                self._seen_ports.add(channel)
            elif channel == _ERROR:
                text = " ".join(content.decode("utf-8", "replace").split())[:500]
                raise ApiError(ApiErrorReason.RESET, f"the pod cannot be reached through the API server: {text}")
            elif content:
                return content

    def close(self) -> None:
        """End the connection."""
        with suppress(ApiError):
            self._send_frame(_CLOSE, b"")
        with suppress(*_BROKEN):
            self._reader.close()
        self._connection.close()

    def _receive_message(self) -> bytes | None:
        """Return the next message, None at the end."""
        message = b""
        while True:
            is_last, opcode, content = self._receive_frame()
            if opcode == _CLOSE:
                return None
            if opcode == _PING:
                self._send_frame(_PONG, content)
            elif opcode in {_BINARY, _CONTINUATION}:
                message += content
                if len(message) > _MAX_FRAME_BYTES:
                    raise ApiError(ApiErrorReason.TOO_LARGE, "a message of a port-forward is too large")
                if is_last and message:
                    return message

    def _receive_frame(self) -> tuple[bool, int, bytes]:
        """Return whether a frame is the last one of its message, its opcode, and its content."""
        try:
            first, second = self._read(2)
            length = second & 0x7F
            if length == _LENGTH_16:
                (length,) = struct.unpack(">H", self._read(2))
            elif length == _LENGTH_64:
                (length,) = struct.unpack(">Q", self._read(8))
            if second & 0x80 or first & 0x70 or length > _MAX_FRAME_BYTES:
                raise ApiError(ApiErrorReason.UNREADABLE, "a port-forward has a frame that no server sends")
            return bool(first & 0x80), first & 0x0F, self._read(length)
        except _BROKEN as error:
            raise _create_broken_error(error) from None

    def _read(self, length: int) -> bytes:
        self._wait()
        content = self._reader.read(length)
        if len(content) < length:
            raise ConnectionError("it was closed")
        return content

    def _send_frame(self, opcode: int, content: bytes) -> None:
        mask = os.urandom(4)  # a client masks what it sends (section 5.3)
        masked = int.from_bytes(content) ^ int.from_bytes((mask * (len(content) // 4 + 1))[: len(content)])
        length = len(content)
        if length < _LENGTH_16:
            header = struct.pack(">BB", 0x80 | opcode, 0x80 | length)
        else:
            header = struct.pack(">BBH", 0x80 | opcode, 0x80 | _LENGTH_16, length)
        try:
            self._wait()
            self._connection.sock.sendall(header + mask + masked.to_bytes(length))
        except _BROKEN as error:
            raise _create_broken_error(error) from None

    def _wait(self) -> None:
        """Let the next read or write end at the deadline."""
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the time is over")
        self._connection.sock.settimeout(remaining)


def open_port_forward(config: ClientConfig, target: PodPort, deadline: float) -> PortForward:
    """Return a connection to the port of a pod, until `deadline` (seconds of `time.monotonic`).

    Raises:
        ApiError: if the API server refuses it or cannot be reached; that the pod has no such port is known later.
    """
    if type(config.pool) not in {urllib3.PoolManager, urllib3.ProxyManager}:
        message = "a port cannot be forwarded through the proxy of the kubeconfig, which is a SOCKS proxy"
        raise ApiError(ApiErrorReason.REFUSED, message, may_be_applied=False)
    server = urlsplit(config.server)
    path = f"{server.path}/api/v1/namespaces/{target.namespace}/pods/{target.pod}/portforward?ports={target.port}"
    connection = connect(server, config.pool, max(deadline - time.monotonic(), 0.001))
    try:
        reader = _upgrade(connection, path, server, config)
    except BaseException:
        connection.close()
        raise
    return PortForward(connection, reader, deadline)


def _upgrade(connection: HTTPConnection, path: str, server: SplitResult, config: ClientConfig) -> BinaryIO:
    """Change a connection into a WebSocket, and return the reader of it."""
    key = b64encode(os.urandom(16))
    headers = config.create_headers(
        {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": key.decode(),
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": _PROTOCOL,
        }
    )
    lines = [f"GET {path} HTTP/1.1", f"Host: {server.netloc}", *(f"{name}: {text}" for name, text in headers.items())]
    try:
        connection.sock.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
    except _BROKEN as error:
        raise _create_broken_error(error) from None
    reader: BinaryIO = connection.sock.makefile("rb")
    try:
        _check_upgrade(reader, key)
    except BaseException as error:
        reader.close()
        if isinstance(error, (*_BROKEN, IndexError)):
            raise _create_broken_error(error) from None
        raise
    return reader


def _check_upgrade(reader: BinaryIO, key: bytes) -> None:
    """Check that a response changes the protocol to that of forwarded ports.

    Raises:
        ApiError: if it does not; IndexError and others if it is no response.
    """
    status = int(reader.readline(_MAX_LINE_BYTES).split(None, 2)[1])
    answer = parse_headers(reader)
    if status != HTTPStatus.SWITCHING_PROTOCOLS:
        length = min(int(answer.get("Content-Length") or 0), _MAX_ERROR_BYTES)
        raise create_response_error(Response(status, reader.read(length)))
    accepted = b64encode(sha1(key + _GUID).digest()).decode()  # noqa: S324  # the handshake of RFC 6455, no secret
    if answer.get("Sec-WebSocket-Accept") != accepted or answer.get("Sec-WebSocket-Protocol") != _PROTOCOL:
        raise ApiError(ApiErrorReason.UNREADABLE, "the API server does not forward ports by WebSockets")


def _create_broken_error(error: Exception) -> ApiError:
    if isinstance(error, TimeoutError):
        return ApiError(ApiErrorReason.TIMEOUT, "a port-forward of the API server does not answer in time")
    return ApiError(ApiErrorReason.RESET, f"a port-forward of the API server broke: {error}", detail=f"{error}")
