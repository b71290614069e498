"""The Flask applications of both ports: the gate with its admission middleware, and the monitor."""

from collections.abc import Callable, Sequence

import msgspec
from flask import Flask, Response, request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from werkzeug.exceptions import HTTPException

from tallygate.server.interfaces import Admit, ReadinessCheck
from tallygate.server.telemetry.metrics import ServerMetrics
from tallygate.server.web.admission_middleware import AdmissionMiddleware, RequestLimits, TokenSource
from tallygate.server.web.http_errors import HttpError, status_body
from tallygate.server.web.request_log import RequestLog


def _create_json_response(body: object, code: int) -> Response:
    return Response(msgspec.json.encode(body), code, mimetype="application/json")


_DEFAULT_LIMITS = RequestLimits()
_STUCK = {"status": "no decision comes through"}


AppFactory = Callable[[RequestLog, Sequence[ReadinessCheck], RequestLimits, TokenSource], Flask]
"""A function that creates an application from the arguments of `create_app` without `admit`.

The application has its `BodyReader` in `extensions["body_reader"]`, and its `DecisionProgress` in
`extensions["decision_progress"]`.
"""


def create_app(
    admit: Admit,
    request_log: RequestLog,
    checks: Sequence[ReadinessCheck] = (),
    limits: RequestLimits = _DEFAULT_LIMITS,
    tokens: TokenSource = tuple,
) -> Flask:
    """Return the application of the gate: the two admission endpoints, `/healthz`, `/readyz`, and JSON for every error.

    `/readyz` has no details here: they contain texts of policies, and any client of the port may read it.

    The application has its `BodyReader` in `extensions["body_reader"]`, and its `DecisionProgress` in
    `extensions["decision_progress"]`.

    Args:
        admit: the gate's `admit`, which decides on reviews.
        request_log: the log and counter of all responses.
        checks: the readiness checks of `/readyz`.
        limits: the limits of one request.
        tokens: returns the valid secret path segments; without any, the endpoints are open.
    """

    def is_alive() -> bool:
        return middleware.progress.is_alive()

    app = create_base_app("webhook", checks, request_log, is_alive, has_details=False)
    middleware = AdmissionMiddleware(app.wsgi_app, admit, request_log, limits, tokens)
    app.extensions["body_reader"] = middleware.body_reader
    app.extensions["decision_progress"] = middleware.progress
    app.wsgi_app = middleware  # type: ignore[method-assign]  # Flask's own way of adding middleware
    return app


def create_monitor_app(
    metrics: ServerMetrics,
    request_log: RequestLog,
    checks: Sequence[ReadinessCheck] = (),
    is_alive: Callable[[], bool] = lambda: True,
) -> Flask:
    """Return the application of the monitor port: `/metrics`, `/healthz`, `/readyz`."""
    app = create_base_app("monitor", checks, request_log, is_alive, has_details=True)

    @app.get("/metrics")
    def show_metrics() -> Response:
        return Response(generate_latest(metrics.registry), content_type=CONTENT_TYPE_LATEST)

    return app


def create_base_app(
    name: str,
    checks: Sequence[ReadinessCheck],
    request_log: RequestLog,
    is_alive: Callable[[], bool],
    *,
    has_details: bool,
) -> Flask:
    """Return an application: JSON for every error, `/healthz` (503 if decisions are stuck for long), `/readyz`.

    `/readyz` is 503 unless all is ready.

    `/readyz?exclude=NAME` leaves a check out, as in an API server (k8s.io/apiserver, pkg/server/healthz, v1.36).
    """
    app = Flask(name, static_folder=None)

    @app.get("/healthz")
    def healthz() -> Response:
        return _create_json_response({"status": "ok"}, 200) if is_alive() else _create_json_response(_STUCK, 503)

    @app.get("/readyz")
    def readyz() -> Response:
        excluded = set(request.args.getlist("exclude"))
        statuses = [status for check in checks if (status := check()).name not in excluded]
        is_ready = all(status.ready for status in statuses)
        body: dict[str, object] = {"status": "ready" if is_ready else "not ready"}
        if has_details:
            body["checks"] = {status.name: {"ready": status.ready, **status.detail} for status in statuses}
        return _create_json_response(body, 200 if is_ready else 503)

    @app.errorhandler(HTTPException)
    def send_http_error(error: HTTPException) -> Response:
        code = error.code or 500
        headers = [(name, value) for name, value in error.get_headers() if name != "Content-Type"]
        return Response(status_body(code, error.description or error.name), code, headers, "application/json")

    @app.errorhandler(Exception)
    def send_crash(error: Exception) -> Response:
        http_error = HttpError(500, "crash", "the server failed; its log says how")
        request_log.log_error(http_error, error)
        return Response(http_error.body, http_error.code, mimetype="application/json")

    return app
