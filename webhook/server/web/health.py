"""Health: alive, and ready with the reasons. A blueprint, so that both ports serve it."""

from collections.abc import Sequence

import msgspec
from flask import Blueprint, Response

from webhook.server.ports import Check, Readiness


def health_views(checks: Sequence[Readiness]) -> Blueprint:
    """`/healthz`: this process answers. `/readyz`: every check is ready, else 503; with their detail."""
    views = Blueprint("health", __name__)

    @views.get("/healthz")
    def healthz() -> Response:
        return _json({"status": "ok"}, 200)

    @views.get("/readyz")
    def readyz() -> Response:
        states = [check() for check in checks]
        ready = all(state.ready for state in states)
        body = {"status": "ready" if ready else "not ready", "checks": {state.name: _shown(state) for state in states}}
        return _json(body, 200 if ready else 503)

    return views


def _shown(state: Check) -> dict[str, object]:
    return {"ready": state.ready, **state.detail}


def _json(body: object, code: int) -> Response:
    return Response(msgspec.json.encode(body), code, mimetype="application/json")
