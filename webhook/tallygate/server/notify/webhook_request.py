"""Requests to receivers: one POST on a connection of its own, with limits on every length and wait.

Address and headers are read from their files for each request, so that a rotated Secret counts at once. They are
secret: no error has a part of them. TLS is verified. `http.client` follows no redirect, which would carry body and
headers elsewhere, and uses no proxy of the environment. Of an answer the header alone is read. A timer ends what takes
too long, since the limits of a socket are those of one call. The lookup of the name is not ended, but nothing is sent
after it then.
"""

import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    RemoteDisconnected,
    UnknownProtocol,
)
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from tallygate.errors import TallygateError
from tallygate.server.notify.notify_config import Receiver

CONNECT_SECONDS: Final = 5.0
"""The longest wait for a connection to one address."""
TOTAL_SECONDS: Final = 10.0
"""The longest time from the connection to the header of the answer."""

_OK: Final = 200
_REDIRECT: Final = 300
_CLIENT_ERROR: Final = 400
_FINAL: Final = frozenset({400, 413, 422})
"""The statuses for a body that the receiver does not take, now or later."""
_MAX_SECRET_BYTES: Final = 16 * 1024
_MAX_CA_BYTES: Final = 1024 * 1024
_MAX_RETRY_SECONDS: Final = 3600.0
_HOSTNAME_MISMATCH: Final = 62  # X509_V_ERR_HOSTNAME_MISMATCH (OpenSSL, x509_vfy.h)
_IP_MISMATCH: Final = 64
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")  # RFC 9110, section 5.1: a token
_OWN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-type"})


class NotifyError(TallygateError):
    """A message was not taken; the text has nothing of the address and the headers.

    `retry_after` is the wait in seconds that the receiver asks for, at most an hour. `is_final` is true if it would not
    take the message at a later time either.
    """

    def __init__(self, message: str, *, retry_after: float = 0.0, is_final: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_final = is_final


class Answer(NamedTuple):
    """The status of an answer, and the wait in seconds that it asks for, 0 without one."""

    status: int
    retry_after: float


class WebhookRequests:
    """The requests to one receiver, for one thread; any thread may call `close`. `total` is `TOTAL_SECONDS`."""

    def __init__(self, receiver: Receiver, total: float = TOTAL_SECONDS) -> None:
        self._receiver = receiver
        self._total = total
        self._lock = Lock()
        self._open: socket.socket | None = None
        self._is_closed = False

    def send(self, body: bytes) -> None:
        """Send a body in JSON.

        Raises:
            NotifyError: if the receiver has not taken it.
        """
        answer = self._exchange(body)
        if _OK <= answer.status < _REDIRECT:
            return
        if _REDIRECT <= answer.status < _CLIENT_ERROR:
            raise NotifyError(f"it redirects ({answer.status}), which is not followed; write the final address")
        message = f"it answers {answer.status}"
        raise NotifyError(message, retry_after=answer.retry_after, is_final=answer.status in _FINAL)

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        with self._lock:
            self._is_closed = True
        self._break()

    def _exchange(self, body: bytes) -> Answer:
        url = read_address(Path(self._receiver.url_file), plain_http=self._receiver.plain_http)
        headers = _read_headers(Path(self._receiver.headers_file)) if self._receiver.headers_file else []
        context = _create_context(self._receiver.ca_file) if url.scheme == "https" else None
        late, answer = Event(), None
        try:
            with self._limit(late), self._connect(url, context, late) as connection:
                answer = _post(connection, url, headers, body)
        except (OSError, HTTPException, ValueError) as error:
            if not late.is_set():
                raise NotifyError(_describe_failure(error)) from None
        if late.is_set() or answer is None:  # a header that was broken off looks like one that ends
            raise NotifyError(_describe_failure(TimeoutError()))
        return answer

    @contextmanager
    def _limit(self, late: Event) -> Iterator[None]:
        """Break the connection at the end of the time, and set `late`."""

        def expire() -> None:
            late.set()
            self._break()

        timer = Timer(self._total, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def _connect(self, url: SplitResult, context: ssl.SSLContext | None, late: Event) -> Iterator[socket.socket]:
        """Yield a connection, after its handshake if there is a context for one; none once `late` is set."""
        address = url.hostname or "", url.port or (443 if context else 80)
        with socket.create_connection(address, timeout=CONNECT_SECONDS) as plain:
            plain.settimeout(self._total)
            self._register(plain, late)
            try:
                if context is None:
                    yield plain
                    return
                host = url.hostname
                with context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False) as connection:
                    self._register(connection, late)
                    connection.do_handshake()
                    yield connection
            finally:
                with self._lock:
                    self._open = None

    def _register(self, connection: socket.socket, late: Event) -> None:
        with self._lock:
            if self._is_closed:
                raise NotifyError("the gate ends")
            if late.is_set():
                raise TimeoutError
            self._open = connection

    def _break(self) -> None:
        with self._lock, suppress(OSError):
            if self._open is not None:
                # not SSLSocket.shutdown, which lets the other thread write the rest of the request in the clear
                socket.socket.shutdown(self._open, socket.SHUT_RDWR)


def read_address(path: Path, *, plain_http: bool) -> SplitResult:
    """Return the address in a file.

    Raises:
        NotifyError: if the file cannot be read, or has no address of HTTPS; one of HTTP is for this host, or with
            `plain_http`.
    """
    lines = [line for line in _read_secret(path, "urlFile").split("\n") if line.strip()]
    text = lines[0].strip() if len(lines) == 1 else ""
    try:
        url = urlsplit(text) if text.isascii() and text.isprintable() and " " not in text else urlsplit("")
        is_usable = bool(url.hostname) and url.port != 0 and url.username is None and not url.fragment
    except ValueError:
        is_usable = False
    if not is_usable or url.scheme not in ("https", "http"):
        raise NotifyError(f"urlFile {path}: it has no address in one line, as in https://hooks.slack.com/services/…")
    if url.scheme == "http" and not (plain_http or _is_loopback(url.hostname or "")):
        raise NotifyError(f"urlFile {path}: the address is one of HTTP; write one of HTTPS, or plainHttp: true")
    return url


class _FinalResponse(HTTPResponse):
    """The response after the interim ones (1xx); http.client alone skips those of 100 only."""

    def begin(self) -> None:
        super().begin()
        while self.status < _OK and self.status != HTTPStatus.SWITCHING_PROTOCOLS:
            vars(self)["headers"] = None  # else it has begun already
            super().begin()


def _post(connection: socket.socket, url: SplitResult, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
    """Return the answer to a POST by its status and header."""
    client = HTTPConnection(url.hostname or "")
    client.response_class = _FinalResponse
    client.sock = connection
    client.putrequest("POST", (url.path or "/") + (f"?{url.query}" if url.query else ""), skip_host=True)
    own = (("Host", url.netloc), ("Content-Type", "application/json"), ("Content-Length", f"{len(body)}"))
    for name, value in (*own, ("User-Agent", "tallygate"), ("Connection", "close"), *headers):
        client.putheader(name, value)
    client.endheaders(body)
    answer = client.getresponse()
    return Answer(answer.status, _parse_retry_after(answer.getheader("Retry-After") or ""))


def _read_headers(path: Path) -> list[tuple[str, str]]:
    """Return the headers in a file.

    Raises:
        NotifyError: if the file cannot be read, or a line is no header that may be sent.
    """
    headers: list[tuple[str, str]] = []
    for number, line in enumerate(_read_secret(path, "headersFile").split("\n"), 1):
        name, colon, value = line.strip().partition(":")
        if not name and not colon:
            continue
        value = value.strip()
        if not colon or not _HEADER_NAME.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise NotifyError(
                f"headersFile {path}:{number}: it is not a header; write it as in Authorization: Bearer …"
            )
        if name.lower() in _OWN_HEADERS:
            raise NotifyError(f"headersFile {path}:{number}: {name} is set by the gate; remove it")
        headers.append((name, value))
    return headers


def _read_secret(path: Path, field: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise NotifyError(f"{field} {path} cannot be read: {error.strerror}") from None
    if len(content) > _MAX_SECRET_BYTES:
        raise NotifyError(f"{field} {path}: it has more than {_MAX_SECRET_BYTES} bytes")
    try:
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise NotifyError(f"{field} {path}: it is not UTF-8") from None


def _create_context(ca_file: str) -> ssl.SSLContext:
    """Return a context that verifies certificates and host names, by the CAs of a file or those of the system.

    Raises:
        NotifyError: if the file has no certificate.
    """
    if not ca_file:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it verifies, and trusts no CA of the system
    try:
        with Path(ca_file).open("rb") as file:
            context.load_verify_locations(cadata=file.read(_MAX_CA_BYTES).decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise NotifyError(f"caFile {ca_file}: it has no certificate in PEM") from None
    except OSError as error:
        raise NotifyError(f"caFile {ca_file} cannot be read: {error.strerror}") from None
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _describe_failure(error: Exception) -> str:
    """Return why there is no answer, without a part of the address."""
    match error:
        case ssl.SSLCertVerificationError():
            return _describe_certificate(error)
        case TimeoutError():
            return "it does not answer in time"
        case ssl.SSLError():
            return f"TLS fails: {error.reason or 'the connection was closed'}"
        case RemoteDisconnected():
            return "it closes the connection without an answer"
        case BadStatusLine() | UnknownProtocol():
            return "its answer is not HTTP"
        case HTTPException():
            return "its answer has too long a header"
    reason = error.strerror if isinstance(error, OSError) else ""
    return f"it cannot be reached: {reason or type(error).__name__}"


def _describe_certificate(error: ssl.SSLCertVerificationError) -> str:
    """Return why a certificate is not trusted; OpenSSL's text of a mismatch would have the host."""
    if error.verify_code in (_HOSTNAME_MISMATCH, _IP_MISMATCH):
        return "its certificate is for another host"
    return f"its certificate is not trusted: {error.verify_message}"


def _parse_retry_after(text: str) -> float:
    """Return the wait in seconds, at most an hour; 0 if the text is neither seconds nor a date (RFC 9110, 10.2.3)."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:10])
    else:
        try:
            date = parsedate_to_datetime(text)
            seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), _MAX_RETRY_SECONDS)
