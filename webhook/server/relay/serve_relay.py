"""The relay as a server: POST to an admission path is passed on, `/healthz` and `/readyz` are its own."""

import gc
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication

from flask import Flask

from tallygate.webhook.admission.webhook_configuration import ADMIT_PATH_PREFIX
from tallygate.webhook.server.interfaces import ReadinessCheck
from tallygate.webhook.server.lifecycle import Lifecycle, ServeError
from tallygate.webhook.server.relay.failover import (
    RELAY_HEADER,
    PeerService,
    Relay,
    RelayRequest,
    RelayResponse,
    UnreachableError,
)
from tallygate.webhook.server.relay.upstreams import LocalUpstream, PeerUpstream
from tallygate.webhook.server.settings.table import Settings
from tallygate.webhook.server.settings.value_types import Address
from tallygate.webhook.server.telemetry.json_log import Logger, forward_library_logs
from tallygate.webhook.server.telemetry.metrics import start_telemetry
from tallygate.webhook.server.web.admission_middleware import (
    CRASH_ERROR,
    JSON_HEADER,
    METHOD_ERROR,
    RequestLimits,
    TokenSource,
    send_error,
)
from tallygate.webhook.server.web.flask_app import create_base_app
from tallygate.webhook.server.web.http_errors import STATUS_LINES, HttpError, create_retry_headers
from tallygate.webhook.server.web.request_body import BodyError, BodyReader, Environ, parse_timeout
from tallygate.webhook.server.web.request_log import RequestLog

_MAX_LARGE_BODIES: Final = (
    4  # bodies of more than 64 KiB, kept in memory while gates are asked; granian keeps each as well
)
_RETURN_MARGIN_SECONDS: Final = 0.2  # seconds that the way back takes at most
_RELAY_ENVIRON_KEY: Final = f"HTTP_{RELAY_HEADER.upper().replace('-', '_')}"

ForwardReview = Callable[[RelayRequest, float], RelayResponse]
"""`Relay.forward`: a request, and a deadline in monotonic seconds."""


class _RelayMiddleware:
    """WSGI middleware that forwards requests under the admission prefix; the gate knows which paths exist."""

    def __init__(
        self, application: WSGIApplication, forward: ForwardReview, request_log: RequestLog, limits: RequestLimits
    ) -> None:
        self._application = application
        self._forward = forward
        self._send_error = partial(send_error, request_log)
        self._limits = limits
        self.body_reader = BodyReader(limits.max_body_bytes, limits.timeout, _MAX_LARGE_BODIES)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass a review on; leave anything else to the application."""
        if not environ["PATH_INFO"].startswith(ADMIT_PATH_PREFIX):
            return self._application(environ, start_response)
        if environ["REQUEST_METHOD"] != "POST":
            return self._send_error(METHOD_ERROR, start_response)
        started_at = self._limits.monotonic()
        try:
            response = self._forward_body(environ, started_at)
        except BodyError as error:
            remaining_seconds = started_at + self._parse_timeout(environ) - self._limits.monotonic()
            return self._send_error(error.http_error, start_response, remaining_seconds=remaining_seconds)
        except UnreachableError as error:
            return self._send_error(HttpError(503, "silent", f"no gate answered: {error}"), start_response)
        except Exception as error:  # noqa: BLE001 - the one place that turns a crash into an answer
            return self._send_error(CRASH_ERROR, start_response, error)
        retry_headers = create_retry_headers(response.retry_after) if response.retry_after else ()
        start_response(_format_status_line(response.status), [JSON_HEADER, *retry_headers])
        return [response.body]

    def _parse_timeout(self, environ: Environ) -> float:
        """Return the seconds for which the API server waits."""
        return parse_timeout(environ.get("QUERY_STRING", "")) or self._limits.timeout

    def _forward_body(self, environ: Environ, started_at: float) -> RelayResponse:
        timeout = self._parse_timeout(environ)
        with self.body_reader.open_body(environ, started_at) as body:
            request = RelayRequest(environ["PATH_INFO"], body, environ.get(_RELAY_ENVIRON_KEY, ""))
            return self._forward(request, started_at + min(timeout, self._limits.timeout) - _RETURN_MARGIN_SECONDS)


def create_relay_app(
    forward: ForwardReview,
    request_log: RequestLog,
    checks: Sequence[ReadinessCheck],
    limits: RequestLimits,
    _: TokenSource,
) -> Flask:
    """Return the relay as a web application; the gate checks tokens, since it gets the whole path."""
    app = create_base_app("relay", checks, request_log)
    middleware = _RelayMiddleware(app.wsgi_app, forward, request_log, limits)
    app.extensions["body_reader"] = middleware.body_reader
    app.wsgi_app = middleware  # type: ignore[method-assign]  # Flask's own way of adding middleware
    return app


def _format_status_line(status: int) -> str:
    try:
        return STATUS_LINES.get(status) or f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"


_FILE_TIMEOUT_SECONDS: Final = 60.0  # seconds; a gate beside it that makes its certificates itself takes one or two
_FILE_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Upstreams:
    """The upstreams: the address of the local gate, and the name of its peers with the file of their CA."""

    local: Address
    peer: tuple[PeerService, Path] | None = None


def serve_relay(settings: Settings, upstreams: Upstreams) -> int:
    """Relay until SIGTERM or SIGINT, and return the exit code: 0, or 1 when requests had to be aborted.

    Must be called in the main thread, where signals arrive.

    Raises:
        tallygate.webhook.errors.TallygateError: it cannot start; the text says why, and what would help.
    """
    with start_telemetry(settings.log_level) as telemetry:
        name = secrets.token_hex(8)
        send_to_peer = PeerUpstream(*upstreams.peer, name).send if upstreams.peer else None
        failover = Relay(LocalUpstream(upstreams.local).send, send_to_peer, telemetry, name)
        _wait_for_files([path for path in (settings.tls_cert, settings.tls_key) if path], telemetry.log)
        lifecycle = Lifecycle(partial(create_relay_app, failover.forward), settings, telemetry)
        forward_library_logs(telemetry.log)
        gc.collect()
        gc.freeze()  # as `serve` does
        return lifecycle.run()


def _wait_for_files(paths: Sequence[Path], log: Logger) -> None:
    """Wait until files exist: the local gate may be about to write them.

    Raises:
        ServeError: if they do not exist after a minute.
    """
    deadline = time.monotonic() + _FILE_TIMEOUT_SECONDS
    missing = [path for path in paths if not path.exists()]
    if missing:
        log.info("waiting", files=[str(path) for path in missing])
    while missing := [path for path in missing if not path.exists()]:
        if time.monotonic() > deadline:
            raise ServeError(f"{missing[0]}: not there after {_FILE_TIMEOUT_SECONDS:.0f} s; who is to write it?")
        time.sleep(_FILE_POLL_SECONDS)
