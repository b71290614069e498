"""The relay as an application: what comes to the admission paths by POST is passed on, `/healthz` and `/readyz` not."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication

from flask import Flask

from webhook.admission.registration import ADMIT_PREFIX
from webhook.server.ports import ReadinessCheck
from webhook.server.relaying.ports import RELAY_HEADER, RelayResponse, RelayRequest, UnreachableError
from webhook.server.web.app import create_base_app
from webhook.server.web.bodies import BodyError, BodyReader, Environ
from webhook.server.web.deadlines import parse_timeout
from webhook.server.web.failures import STATUS_LINES, HttpError
from webhook.server.web.layer import CRASH_ERROR, JSON_HEADER, METHOD_ERROR, RequestLimits, TokenSource, send_error
from webhook.server.web.observer import RequestLog

_MAX_LARGE_BODIES: Final = 4  # bodies of more than 64 KiB, held while gates are asked; granian holds each as well
_RETURN_MARGIN_SECONDS: Final = 0.2  # seconds that the way back takes at most
_RELAY_ENVIRON_KEY: Final = f"HTTP_{RELAY_HEADER.upper().replace('-', '_')}"

ForwardReview = Callable[[RelayRequest, float], RelayResponse]
"""`Relay.answer`: what to pass on, and a deadline in monotonic seconds."""


class _RelayMiddleware:
    """WSGI middleware: asks `answer` for what comes under the admission paths; which there are, a gate knows."""

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
        if not environ["PATH_INFO"].startswith(ADMIT_PREFIX):
            return self._application(environ, start_response)
        if environ["REQUEST_METHOD"] != "POST":
            return self._send_error(METHOD_ERROR, start_response)
        try:
            response = self._forward_body(environ, self._limits.monotonic())
        except BodyError as error:
            return self._send_error(error.http_error, start_response)
        except UnreachableError as error:
            return self._send_error(HttpError(503, "silent", f"no gate answered: {error}"), start_response)
        except Exception as error:  # noqa: BLE001 - the one place that turns a crash into an answer
            return self._send_error(CRASH_ERROR, start_response, error)
        start_response(_format_status_line(response.status), [JSON_HEADER])
        return [response.body]

    def _forward_body(self, environ: Environ, started_at: float) -> RelayResponse:
        timeout = parse_timeout(environ.get("QUERY_STRING", "")) or self._limits.timeout
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
    """The relay as a web application; tokens are the gate's affair, which is given the whole path."""
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
