"""The HTTPS server of asks: Python's TLS and h11 in one event loop. It gives applications the certificates of clients.

granian verifies certificates of clients and does not pass them on (2.8.9, its issue 788), so it cannot tell who asks.
Here a client may show a certificate or none, of a user or of a front proxy. One that no CA signed, or that has expired,
fails in the handshake.

The loop waits for clients, and threads run the application:
- a handshake, and the header of a request, have `first_request_timeout` each; a connection that waits for its next
  request `idle_timeout`; a body and a response `request_timeout`;
- a header has at most 32 KiB, and no more of a body is read than the application asks for;
- at the limit of connections none is accepted; `ConnectionGuard` makes room, as before granian: it inspects the sockets
  of this process, whatever serves them. For it an answered connection is one with an answered ask, so that every other
  response closes its connection. There are no session tickets: they would look like an answer, and a resumed session
  would have a certificate that is not verified again;
- a request of an address with too many connections that have one gets 429 from the loop (`CrowdLimit`), before the
  guard would close one without an answer;
- what is not HTTP/1.1 gets 400, or 431 for a longer header, with a sentence that has nothing of it, and the end of the
  connection.
"""

import asyncio
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes
from wsgiref.types import WSGIApplication

import h11

from tallygate.server.https.client_authorities import ClientAuthorities, ClientRole
from tallygate.server.https.connection_guard import measure_handshake
from tallygate.server.https.https_server import HttpsSettings, HttpsStartError, filter_headers
from tallygate.server.https.tls_files import ServingCertificates, create_memory_files
from tallygate.server.interfaces import CLIENT_CERTIFICATE, PROXY_REQUEST, ProxyRequest

_SPARE_CONNECTIONS: Final = 256  # accepted between two sweeps of `ConnectionGuard`, which closes as many others
_MAX_HEADER_BYTES: Final = 32 * 1024  # a token has 16 KiB
_PIECE_BYTES: Final = 64 * 1024
_CLOSE_SECONDS: Final = 2.0
_MAX_DISCARDED_BYTES: Final = 16 << 20
"""The bytes that are read after a response to a request that was not: so its sender reads the response before the end.
"""

_REFUSAL: Final = b"this is not a request of HTTP/1.1, or its header has more than 32 KiB\n"
_REFUSAL_HEADERS: Final = (
    ("Content-Type", "text/plain; charset=utf-8"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
)
_HANDSHAKE_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 0.1
_OK: Final = 200
_BODILESS: Final = (204, 304)
_HTTP_VERSIONS: Final = (b"1.0", b"1.1")
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_FRAMING: Final = frozenset({"connection", "content-length", "transfer-encoding", "keep-alive"})
_BROKEN: Final = (OSError, TimeoutError, EOFError, h11.ProtocolError)

Environ = dict[str, Any]


class CrowdLimit(NamedTuple):
    """The most connections of one address that shake hands or have a request, and the body (JSON) for those beyond."""

    connections: int
    refusal: bytes


class CertifiedServer:
    """A server of an application over TLS, whose certificates can be replaced while it runs."""

    def __init__(
        self,
        application: WSGIApplication,
        listener: socket.socket,
        https_settings: HttpsSettings,
        crowd: CrowdLimit,
    ) -> None:
        self._crowd = crowd
        self.busy: Counter[str] = Counter()
        """The connections that shake hands or have a request, by address."""
        self._application = application
        self._listener = listener
        self._settings = https_settings
        self._tls: _Tls | None = None
        self._loop = asyncio.new_event_loop()
        self._threads = ThreadPoolExecutor(https_settings.threads, "asks")
        self._connections: dict[asyncio.Task[None], _Connection] = {}
        self._clients: dict[object, tuple[str, float]] = {}  # of the current requests
        self._accepting: asyncio.Task[None] | None = None
        self._is_draining = False
        self.handshake_bytes = 0
        """The bytes that the server sends in a handshake, 0 if that is not known."""

    @property
    def port(self) -> int:
        """The port of the listening socket."""
        port: int = self._listener.getsockname()[1]
        return port

    def install_certificates(self, certificates: ServingCertificates) -> None:
        """Start with these certificates, or use them for new connections from now on. Not thread-safe.

        Raises:
            HttpsStartError: if they cannot be used; the current certificates stay active.
        """
        is_first = self._tls is None
        self._tls = _create_tls(certificates, self._settings)
        if is_first:
            self._listener.setblocking(False)  # noqa: FBT003  # its only argument
            threading.Thread(target=self._loop.run_forever, name="asks-https", daemon=True).start()
            self._run(self._start())
        host = self._listener.getsockname()[0]
        local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - where it listens already
        self.handshake_bytes = measure_handshake((local, self.port))

    def find_clients(self) -> dict[str, float]:
        """Return the addresses of clients with requests in the application, and the time of the oldest of each."""
        clients: dict[str, float] = {}
        for address, began_at in list(self._clients.values()):
            clients[address] = min(began_at, clients.get(address, began_at))
        return clients

    def send_connection_close(self) -> None:
        """Send `Connection: close` with every response from now on."""
        self._is_draining = True

    def drain(self, timeout: float) -> bool:
        """Stop accepting, finish the current requests and close all connections.

        Return False if that takes longer than `timeout` seconds.
        """
        is_drained: bool = self._run(self._drain(self._loop.time() + timeout))
        return is_drained

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> None:
        self._accepting = self._loop.create_task(self._accept())

    async def _drain(self, deadline: float) -> bool:
        self._is_draining = True
        if self._accepting is not None:
            self._accepting.cancel()
        self._listener.close()
        # A client that connected a moment ago has sent nothing yet; closing now would interrupt its handshake.
        await asyncio.sleep(max(0.0, min(_HANDSHAKE_SECONDS, deadline - self._loop.time())))
        for connection in self._connections.values():
            connection.close_if_idle()
        tasks = list(self._connections)
        if not tasks:
            return True
        _, pending = await asyncio.wait(tasks, timeout=max(0.0, deadline - self._loop.time()))
        return not pending

    async def _accept(self) -> None:
        places = asyncio.Semaphore(self._settings.connections + _SPARE_CONNECTIONS)
        while True:
            await places.acquire()
            try:
                accepted, address = await self._loop.sock_accept(self._listener)
            except OSError:  # no descriptor is free, or the client has left
                places.release()
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            connection = _Connection(self, accepted, address[0])
            task = self._loop.create_task(connection.serve())
            self._connections[task] = connection

            def end(ended: asyncio.Task[None]) -> None:
                self._connections.pop(ended).leave()
                places.release()

            task.add_done_callback(end)

    async def open(self, accepted: socket.socket) -> "_Stream":
        """Shake hands on an accepted socket.

        Raises:
            OSError, TimeoutError, EOFError: if the handshake fails, or takes too long.
        """
        if self._tls is None:
            raise EOFError
        context, authorities = self._tls
        reader = asyncio.StreamReader(_PIECE_BYTES, self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        seconds = self._settings.first_request_timeout
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=context,
            ssl_handshake_timeout=seconds,
            ssl_shutdown_timeout=_CLOSE_SECONDS,
        )
        return _Stream(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop), authorities)

    @property
    def settings(self) -> HttpsSettings:
        """The limits of the server."""
        return self._settings

    async def call(self, environ: Environ) -> "_Response":
        """Return the application's response to a request, from a thread."""
        key = object()
        self._clients[key] = environ["REMOTE_ADDR"], time.monotonic()
        try:
            return await self._loop.run_in_executor(self._threads, self._call, environ)
        finally:
            del self._clients[key]

    def find_refusal(self, address: str) -> "_Response | None":
        """Return the response to a request of an address with too many connections; None if it has fewer."""
        if self.busy[address] <= self._crowd.connections:
            return None
        response = _Response(is_closing=True)
        response.start("429", [("Content-Type", "application/json"), ("Retry-After", "1")])
        response.body = self._crowd.refusal
        return response

    def wait_for_body(self, read: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        """Return a piece of a body that the event loop reads; called in a thread of a request."""
        piece: Future[bytes] = asyncio.run_coroutine_threadsafe(read(), self._loop)
        return piece.result()

    def _call(self, environ: Environ) -> "_Response":
        response = _Response(is_closing=self._is_draining)
        chunks = self._application(environ, response.start)
        try:
            response.body = b"".join(chunks)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        is_answer = response.status == _OK and environ["REQUEST_METHOD"] == "POST"
        response.is_closing |= self._is_draining or not is_answer
        return response


class _Tls(NamedTuple):
    """The inputs of one handshake."""

    context: ssl.SSLContext
    authorities: ClientAuthorities


def _create_tls(certificates: ServingCertificates, https_settings: HttpsSettings) -> _Tls:
    """Return the context of handshakes: a client may show a certificate if there is a CA that signs for clients.

    Raises:
        HttpsStartError: if the certificates cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[https_settings.tls_min_version]
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    try:
        with create_memory_files(certificates) as files:
            context.load_cert_chain(files.chain, files.key, password="")
        authorities = ClientAuthorities(certificates.client_ca, certificates.proxy_ca)
        if authorities.bundle:
            context.load_verify_locations(cadata=authorities.bundle)
            context.verify_mode = ssl.CERT_OPTIONAL
            # As Go verifies: each certificate of the bundle is an end of a chain, also one that another CA has signed.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    except (ssl.SSLError, OSError, ValueError) as error:
        raise HttpsStartError(f"the certificate files cannot be served with: {error}") from None
    return _Tls(context, authorities)


class _Stream:
    """The two directions of a connection after its handshake."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authorities: ClientAuthorities
    ) -> None:
        self.reader = reader
        self.writer = writer
        ssl_object: ssl.SSLObject = writer.get_extra_info("ssl_object")
        self.certificate = ssl_object.getpeercert(binary_form=True)
        """The client's verified certificate (DER), None if it has shown none."""
        self.role = authorities.find_role(ssl_object)
        """The use of the certificate; None without one."""


class _Response:
    """The response of an application; `start` is the `start_response` of PEP 3333."""

    def __init__(self, *, is_closing: bool) -> None:
        self.status = 500
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.is_closing = is_closing

    def start(self, status: str, headers: list[tuple[str, str]], _: Any = None, /) -> Callable[[bytes], object]:
        self.status = int(status[:3])
        self.headers = [each for each in filter_headers(headers) if each[0].lower() not in _FRAMING]
        return _reject_write


def _reject_write(_: bytes) -> None:
    raise RuntimeError("this server takes what an application returns, not what it writes")


class _Connection:
    """One accepted connection: its requests, one after the other. All but `_Body.read` runs in the event loop."""

    def __init__(self, server: CertifiedServer, accepted: socket.socket, address: str) -> None:
        self._server = server
        self._accepted = accepted
        self._address = address
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEADER_BYTES)
        self._stream: _Stream | None = None
        self._is_idle, self._is_first = False, True
        server.busy[address] += 1

    def leave(self) -> None:
        """Count the connection no more, at its end."""
        self._mark(is_idle=True)
        if not self._server.busy[self._address]:
            del self._server.busy[self._address]

    def _mark(self, *, is_idle: bool) -> None:
        """Record whether the connection waits for a request."""
        if is_idle is not self._is_idle:
            self._is_idle = is_idle
            self._server.busy[self._address] += -1 if is_idle else 1

    def close_if_idle(self) -> None:
        """Close the connection if it waits for a request."""
        if self._is_idle and self._stream is not None:
            self._stream.writer.transport.abort()

    async def serve(self) -> None:
        """Answer the requests of the connection until one side closes it."""
        try:
            self._stream = await self._server.open(self._accepted)
        except _BROKEN:
            self._accepted.close()
            return
        try:
            while await self._answer_next():
                self._http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint)
        except _BROKEN:
            pass
        finally:
            await self._close(self._stream.writer)

    async def _refuse(self, status: int) -> None:
        """Answer what is not a request of HTTP with a status, unless an answer has begun, and end the connection."""
        if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE} or self._stream is None:
            return
        response = _Response(is_closing=True)
        response.start(f"{status}", list(_REFUSAL_HEADERS))
        response.body = _REFUSAL
        with suppress(*_BROKEN):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._send(response, is_kept=False, is_head=False)

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await writer.wait_closed()
        except _BROKEN:
            pass
        finally:
            writer.transport.abort()

    async def _answer_next(self) -> bool:
        """Answer the next request; return whether the connection stays open."""
        request = await self._read_request()
        if request is None:
            return False
        response = self._server.find_refusal(self._address) or await self._server.call(self._create_environ(request))
        if self._http.their_state is h11.SEND_BODY:
            self._http.next_event()  # the end of a body of which all was read has not been asked for
        is_kept = not response.is_closing and self._http.their_state is h11.DONE
        async with asyncio.timeout(self._server.settings.request_timeout):
            await self._send(response, is_kept=is_kept, is_head=request.method == b"HEAD")
        if not is_kept and self._http.their_state is h11.SEND_BODY:
            await self._discard()
        return is_kept and self._http.our_state is h11.DONE

    async def _read_request(self) -> h11.Request | None:
        """Return the next request, None at the end of the connection.

        Raises:
            OSError, TimeoutError, h11.ProtocolError: if none arrives in time, or something else does.
        """
        settings = self._server.settings
        if self._http.trailing_data[0] == b"":
            self._mark(is_idle=True)
            seconds = settings.first_request_timeout if self._is_first else settings.idle_timeout
            async with asyncio.timeout(seconds):
                await self._receive()
        self._mark(is_idle=False)
        self._is_first = False
        async with asyncio.timeout(settings.first_request_timeout):
            event = await self._read_event()
        if not isinstance(event, h11.Request):
            return None
        _check_framing(event)
        return event

    async def _receive(self) -> None:
        if self._stream is None:
            raise EOFError
        self._http.receive_data(await self._stream.reader.read(_PIECE_BYTES))

    async def _read_event(self) -> Any:
        """Return the next event of h11."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await self._receive()
        return event

    async def read_body(self, deadline: float) -> bytes:
        """Return the next piece of the current request's body, b"" at its end.

        Raises:
            OSError, TimeoutError, h11.ProtocolError: if it does not arrive by the loop's time `deadline`.
        """
        async with asyncio.timeout_at(deadline):
            if self._http.they_are_waiting_for_100_continue and self._stream is not None:
                self._stream.writer.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
            event = await self._read_event()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def _discard(self) -> None:
        """Read what the client still sends of its body, for a moment."""
        discarded = 0
        with suppress(*_BROKEN):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while discarded < _MAX_DISCARDED_BYTES and isinstance(event := await self._read_event(), h11.Data):
                    discarded += len(event.data)

    async def _send(self, response: _Response, *, is_kept: bool, is_head: bool) -> None:
        if self._stream is None:
            raise EOFError
        headers = [*response.headers, ("Content-Length", str(len(response.body)))]
        if not is_kept:
            headers.append(("Connection", "close"))
        encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]
        content = self._http.send(h11.Response(status_code=response.status, headers=encoded)) or b""
        if not is_head and response.status not in _BODILESS:
            content += self._http.send(h11.Data(data=response.body)) or b""
        content += self._http.send(h11.EndOfMessage()) or b""
        self._stream.writer.write(content)
        await self._stream.writer.drain()

    def _create_environ(self, request: h11.Request) -> Environ:
        """Return the environment of PEP 3333, with the client's certificate; names of headers have no underscores."""
        path, _, query = bytes(request.target).partition(b"?")
        environ: Environ = {
            "REQUEST_METHOD": request.method.decode("ascii"),
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(b"/" + path.lstrip(b"/")).decode("latin-1"),
            "QUERY_STRING": query.decode("latin-1"),
            "SERVER_NAME": "tallygate",
            "SERVER_PORT": str(self._server.port),
            "SERVER_PROTOCOL": f"HTTP/{request.http_version.decode('ascii')}",
            "REMOTE_ADDR": self._address,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https",
            "wsgi.errors": sys.stderr,
            "wsgi.input": _Body(self, self._server),
            "wsgi.input_terminated": True,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        if self._stream is not None and (certificate := self._stream.certificate):
            if self._stream.role is ClientRole.USER:
                environ[CLIENT_CERTIFICATE] = certificate
            elif self._stream.role is ClientRole.FRONT_PROXY:
                environ[PROXY_REQUEST] = ProxyRequest(certificate, tuple(request.headers))
        for name, value in request.headers:
            key = name.decode("ascii").upper()
            if "_" in key:
                continue
            key = key.replace("-", "_")
            key = key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"
            text = value.decode("latin-1")
            environ[key] = f"{environ[key]},{text}" if key in environ else text
        return environ


def _check_framing(request: h11.Request) -> None:
    """Check that every server before this one has seen the same end of a request (RFC 9112, 6.1 and 11.2).

    A front proxy's connection has the requests of many users: what is a body for the proxy may be no request here.

    Raises:
        h11.RemoteProtocolError: if the version is not 1.0 or 1.1, or the length of the body is given in two ways.
    """
    names = {name for name, _ in request.headers}
    is_chunked = b"transfer-encoding" in names
    if request.http_version not in _HTTP_VERSIONS or (
        is_chunked and (b"content-length" in names or request.http_version == b"1.0")
    ):
        raise h11.RemoteProtocolError("the end of the request is ambiguous")


class _Body:
    """The `wsgi.input` of a request: a thread waits for the event loop, which reads as much as is asked for."""

    def __init__(self, connection: _Connection, server: CertifiedServer) -> None:
        self._connection = connection
        self._server = server
        self._rest = b""
        self._deadline: float | None = None

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, b"" at the end of the body, or if it does not arrive in time."""
        if not self._rest:
            self._rest = self._server.wait_for_body(self._read_piece)
        if size < 0:
            pieces = [self._rest]
            while pieces[-1]:
                pieces.append(self._server.wait_for_body(self._read_piece))
            self._rest = b""
            return b"".join(pieces)
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    async def _read_piece(self) -> bytes:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._server.settings.request_timeout
        try:
            return await self._connection.read_body(self._deadline)
        except _BROKEN:
            return b""
