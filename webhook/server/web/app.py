"""The application: Flask, with the admission layer around it."""

from collections.abc import Callable, Sequence

from flask import Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from werkzeug.exceptions import HTTPException

from webhook.server.ports import Admit, Readiness
from webhook.server.reporting.metrics import Metrics
from webhook.server.web.failures import Failure, status_body
from webhook.server.web.health import health_views
from webhook.server.web.layer import Admission, Limits, Tokens
from webhook.server.web.observer import Observer

_DEFAULT_LIMITS = Limits()


NewApp = Callable[[Observer, Sequence[Readiness], Limits, Tokens], Flask]
"""Makes an application of what `create_app` takes beside `admit`; its `extensions["bodies"]` reads bodies."""


def create_app(
    admit: Admit,
    observer: Observer,
    checks: Sequence[Readiness] = (),
    limits: Limits = _DEFAULT_LIMITS,
    tokens: Tokens = tuple,
) -> Flask:
    """The gate as a web application: the two admission endpoints, `/healthz`, `/readyz`, and JSON for every error.

    What reads request bodies is in the application's `extensions["bodies"]`.

    Args:
        admit: decides.
        observer: is told of every answer.
        checks: what `/readyz` asks.
        limits: bounds on one request.
        tokens: the secret path segments in force; none leaves the endpoints open.
    """
    app = bare_app("webhook", checks, observer)
    layer = Admission(app.wsgi_app, admit, observer, limits, tokens)
    app.extensions["bodies"] = layer.bodies
    app.wsgi_app = layer  # type: ignore[method-assign]  # Flask's own way of adding middleware
    return app


def create_monitor(metrics: Metrics, observer: Observer, checks: Sequence[Readiness] = ()) -> Flask:
    """What the second port serves: `/metrics`, `/healthz`, `/readyz`."""
    app = bare_app("monitor", checks, observer)

    @app.get("/metrics")
    def show_metrics() -> Response:
        return Response(generate_latest(metrics.registry), content_type=CONTENT_TYPE_LATEST)

    return app


def bare_app(name: str, checks: Sequence[Readiness], observer: Observer) -> Flask:
    """`/healthz` and `/readyz`, and JSON for every error."""
    app = Flask(name, static_folder=None)
    app.register_blueprint(health_views(checks))

    @app.errorhandler(HTTPException)
    def answer_http_error(error: HTTPException) -> Response:
        code = error.code or 500
        headers = [(name, value) for name, value in error.get_headers() if name != "Content-Type"]
        return Response(status_body(code, error.description or error.name), code, headers, "application/json")

    @app.errorhandler(Exception)
    def answer_crash(error: Exception) -> Response:
        failure = Failure(500, "crash", "the server failed; its log says how")
        observer.failed(failure, error)
        return Response(failure.body, failure.code, mimetype="application/json")

    return app
