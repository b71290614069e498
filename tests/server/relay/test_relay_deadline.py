"""The deadline that the relay's middleware gives to a review."""

import pytest

from tallygate.webhook.server.relay.failover import RelayRequest, RelayResponse
from tallygate.webhook.server.relay.serve_relay import create_relay_app
from tallygate.webhook.server.telemetry.metrics import ServerMetrics
from tallygate.webhook.server.web.admission_middleware import RequestLimits
from tallygate.webhook.server.web.request_log import RequestLog
from tests.server.app_harness import MUTATE, Log

NOW = 1000.0
LIMIT = 10.0
MARGIN = 0.2

DEADLINES = {
    "the API server waits for less than the limit": ("timeout=3s", 3.0),
    "the API server waits for as long as the limit": ("timeout=10s", LIMIT),
    "the API server waits for longer than the limit": ("timeout=30s", LIMIT),
    "the request has no timeout": ("", LIMIT),
    "the timeout of the request is invalid": ("timeout=soon", LIMIT),
    "the timeout of the request is zero": ("timeout=0s", LIMIT),
}


@pytest.mark.parametrize("name", DEADLINES)
def test_the_deadline_is_the_shorter_of_timeout_and_limit_less_the_way_back(name: str) -> None:
    query, seconds = DEADLINES[name]
    deadlines: list[float] = []

    def forward(_: RelayRequest, deadline: float) -> RelayResponse:
        deadlines.append(deadline)
        return RelayResponse(200, b"{}")

    limits = RequestLimits(max_body_bytes=1 << 10, timeout=LIMIT, monotonic=lambda: NOW)
    app = create_relay_app(forward, RequestLog(Log().logger, ServerMetrics("0")), (), limits, tuple)
    assert app.test_client().post(f"{MUTATE}?{query}", data=b"{}").status_code == 200
    assert deadlines == pytest.approx([NOW + seconds - MARGIN])
