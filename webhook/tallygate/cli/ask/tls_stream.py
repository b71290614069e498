"""TLS over any transport of bytes: a TCP connection, or a port that the API server forwards.

The certificate of the server is verified by the context and by the server's name before a byte of a request is sent.
"""

import io
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from tallygate.kube.api_errors import ApiError

T = TypeVar("T")

_CHUNK_BYTES: Final = 64 * 1024


class ByteTransport(Protocol):
    """A connection that carries bytes. Its methods raise OSError or ApiError if it breaks, or its time is over."""

    def send(self, data: bytes) -> None:
        """Send all bytes."""
        ...

    def receive(self) -> bytes:
        """Return the next bytes, empty at the end."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class SocketTransport:
    """A TCP connection whose waits end at `deadline` (seconds of `time.monotonic`)."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def send(self, data: bytes) -> None:
        self._wait()
        self._sock.sendall(data)

    def receive(self) -> bytes:
        self._wait()
        return self._sock.recv(_CHUNK_BYTES)

    def close(self) -> None:
        self._sock.close()

    def _wait(self) -> None:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(remaining)


class TlsStream(io.RawIOBase):
    """A TLS connection over a transport, which its owner closes; `makefile` gives http.client what it reads from.

    Raises:
        ssl.SSLCertVerificationError: if the certificate of the server is not one for `server_name` by the context.
        ssl.SSLError: if there is no other TLS connection.
        OSError: if the transport breaks, or its time is over; ApiError likewise.
    """

    def __init__(self, transport: ByteTransport, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__()
        self._transport = transport
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=server_name)
        self._run(self._tls.do_handshake)

    def sendall(self, data: bytes) -> None:
        """Send all bytes."""
        for start in range(0, len(data), _CHUNK_BYTES):
            part = data[start : start + _CHUNK_BYTES]
            while part:
                written = self._run(lambda part=part: self._tls.write(part))  # type: ignore[misc]  # mypy infers no type for a bound default
                part = part[written:]

    def readable(self) -> bool:
        """Return that bytes can be read."""
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # what a reader passes
        """Read at most as many bytes as the buffer has; return their number, 0 at the end."""
        try:
            content = self._run(lambda: self._tls.read(len(buffer)))
        except ssl.SSLZeroReturnError:
            return 0
        buffer[: len(content)] = content
        return len(content)

    def makefile(self, _: str) -> io.BufferedReader:
        """Return a reader of the bytes that arrive."""
        return io.BufferedReader(self)

    def _run(self, act: Callable[[], T]) -> T:
        """Do a step of TLS; carry bytes from and to the transport until it is done."""
        while True:
            try:
                result = act()
            except ssl.SSLWantReadError:
                self._flush()
                if received := self._transport.receive():
                    self._received.write(received)
                else:
                    self._received.write_eof()
            except ssl.SSLError:
                with suppress(OSError, ApiError):
                    self._flush()  # the alert that tells the server
                raise
            else:
                self._flush()
                return result

    def _flush(self) -> None:
        if waiting := self._to_send.read():
            self._transport.send(waiting)
