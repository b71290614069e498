"""Health: alive, and ready with the reasons. A blueprint, so that both ports serve it."""

from collections.abc import Sequence

import msgspec
from flask import Blueprint, Response

from webhook.server.ports import ReadinessStatus, ReadinessCheck


def create_health_views(checks: Sequence[ReadinessCheck]) -> Blueprint:
    """`/healthz`: this process answers. `/readyz`: every check is ready, else 503; with their detail."""
    views = Blueprint("health", __name__)

    @views.get("/healthz")
    def healthz() -> Response:
        return _create_json_response({"status": "ok"}, 200)

    @views.get("/readyz")
    def readyz() -> Response:
        statuses = [check() for check in checks]
        is_ready = all(state.ready for state in statuses)
        body = {
            "status": "ready" if is_ready else "not ready",
            "checks": {state.name: _format_status(state) for state in statuses},
        }
        return _create_json_response(body, 200 if is_ready else 503)

    return views


def _format_status(status: ReadinessStatus) -> dict[str, object]:
    return {"ready": status.ready, **status.detail}


def _create_json_response(body: object, code: int) -> Response:
    return Response(msgspec.json.encode(body), code, mimetype="application/json")
