"""The pages of the gate for a browser on this machine: an HTTP server on loopback that has the user's credentials.

The browser gets a cookie for a code that counts once, and never a token. Other users and programs of this machine, and
other sites in the browser, can reach the port as well: without the cookie they get nothing. Its host is a name of its
own under `localhost` (RFC 6761, section 6.3), since a cookie of 127.0.0.1 would be sent to each of its ports.
"""

import secrets
from collections.abc import Callable, Mapping
from hmac import compare_digest
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tallygate.cli.ask.gate_client import GateError, GateResponse
from tallygate.server.web.pages.page_address import PAGE_PATH

COOKIE: Final = "tallygate-page"

PAGES_PATH: Final = f"{PAGE_PATH}/"
"""The path below which the pages are."""

MAX_BODY_BYTES: Final = 2 * 1024 * 1024

_START_PATH: Final = "/start"
_SECRET_BYTES: Final = 32
_NAME_BYTES: Final = 8
_SECONDS: Final = 30.0  # for the parts of one request of the browser
_FORWARDED: Final = ("accept", "accept-language", "content-type", "if-none-match")
_RETURNED: Final = frozenset(
    {
        *("cache-control", "content-security-policy", "content-type", "cross-origin-opener-policy", "etag"),
        *("cross-origin-resource-policy", "location", "referrer-policy", "vary", "x-content-type-options"),
        "x-frame-options",
    }
)
_OWN_SITES: Final = frozenset({"same-origin", "none"})  # Sec-Fetch-Site: a page of ours, or the user himself
_FORBIDDEN: Final = "open the address that `tallygate page` has printed: it counts once"

_START_PAGE: Final = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tallygate</title>
<meta http-equiv="refresh" content="0; url={PAGES_PATH}"></head>
<body><p><a href="{PAGES_PATH}">Open the pages</a></p></body></html>
""".encode()
"""A page and no redirect: a redirect that began on another site has no cookie (SameSite)."""

_START_HEADERS: Final = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)

Forward = Callable[[str, str, Mapping[str, str], bytes | None], GateResponse]
"""`GateClient.forward`."""


class BrowserRequest(NamedTuple):
    """A request of a browser; the names of its headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None


class PageProxy:
    """The answers to a browser, for any thread. `port` is that of the server on loopback."""

    def __init__(self, forward: Forward, port: int) -> None:
        self._forward = forward
        self._host = f"{secrets.token_hex(_NAME_BYTES)}.localhost:{port}"
        self._code: str | None = secrets.token_urlsafe(_SECRET_BYTES)
        self._secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._lock = Lock()

    @property
    def start_url(self) -> str:
        """The address for the browser, whose code counts once."""
        return f"http://{self._host}{_START_PATH}?code={self._code}"

    def answer(self, request: BrowserRequest) -> GateResponse:
        """Return the answer to a request: the gate's for the browser with the cookie, else 403."""
        if request.headers.get("host") != self._host:
            return _refuse(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name")
        path = urlsplit(request.target)
        if path.path == _START_PATH:
            return self._start(parse_qs(path.query).get("code", [""])[0])
        is_own = request.headers.get("sec-fetch-site", "none") in _OWN_SITES and self._has_cookie(request)
        if request.method == "POST" and "sec-fetch-site" not in request.headers:
            is_own = is_own and request.headers.get("origin") == f"http://{self._host}"
        if not is_own:
            return _refuse(HTTPStatus.FORBIDDEN, _FORBIDDEN)
        if path.path == "/":
            return GateResponse(HTTPStatus.SEE_OTHER, (("Location", PAGES_PATH),), b"")
        if not path.path.startswith(PAGES_PATH):
            return _refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        return self._ask(request)

    def _start(self, code: str) -> GateResponse:
        with self._lock:
            is_valid = self._code is not None and compare_digest(code.encode(), self._code.encode())
            if is_valid:
                self._code = None
        if not is_valid:
            return _refuse(HTTPStatus.FORBIDDEN, _FORBIDDEN)
        cookie = f"{COOKIE}={self._secret}; HttpOnly; SameSite=Strict; Path=/"
        headers = (*_START_HEADERS, ("Set-Cookie", cookie))
        return GateResponse(HTTPStatus.OK, headers, _START_PAGE)

    def _has_cookie(self, request: BrowserRequest) -> bool:
        try:
            found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and compare_digest(found.value.encode(), self._secret.encode())

    def _ask(self, request: BrowserRequest) -> GateResponse:
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        headers["sec-fetch-site"] = (
            "same-origin"  # for a gate that knows the user by his certificate: it is checked here
        )
        try:
            response = self._forward(request.method, request.target, headers, request.body)
        except GateError as error:
            return _refuse(HTTPStatus.BAD_GATEWAY, f"{error}")
        kept = tuple((name, value) for name, value in response.headers if name.lower() in _RETURNED)
        return response._replace(headers=kept)


def _refuse(status: HTTPStatus, sentence: str) -> GateResponse:
    headers = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
    return GateResponse(status, headers, f"{sentence}\n".encode())


class PageServer(ThreadingHTTPServer):
    """The HTTP server of a proxy, on a port of loopback; 0 is a free one."""

    daemon_threads = True

    def __init__(self, port: int, forward: Forward) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.proxy = PageProxy(forward, self.server_port)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that closes a connection before it has the answer."""


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = _SECONDS
    server_version, sys_version = "tallygate", ""

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY_BYTES:
            self._send(_refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a form has at most {MAX_BODY_BYTES} bytes"))
            return
        self._answer(self.rfile.read(int(length)))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  http.server's name
        """Log nothing: an address may have the code."""

    def _answer(self, body: bytes | None) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._send(self.server.proxy.answer(BrowserRequest(self.command, self.path, headers, body)))

    def _send(self, response: GateResponse) -> None:
        self.send_response(response.status)
        for name, value in response.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(response.body)
