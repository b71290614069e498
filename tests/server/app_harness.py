"""The application around a small gate, its log and its metrics."""

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from flask.testing import FlaskClient

from tallygate.server.interfaces import ReadinessCheck
from tallygate.server.telemetry.json_log import LineWriter, Logger, create_logger
from tallygate.server.telemetry.metrics import ServerMetrics
from tallygate.server.web.admission_middleware import RequestLimits, TokenSource
from tallygate.server.web.flask_app import create_app
from tallygate.server.web.request_log import RequestLog
from tests.server.tiny import TinyGate

MUTATE, VALIDATE = "/v1/admit/mutate", "/v1/admit/validate"


def create_review(name: str = "fine", **fields: Any) -> bytes:
    """Return a review that the tiny gate answers."""
    request = {"uid": "u-1", "name": name, "namespace": "ns", "operation": "CREATE", "kind": {"kind": "Pod"}, **fields}
    return json.dumps({"request": request}).encode()


class Log:
    """A log in memory."""

    def __init__(self, level: str = "debug") -> None:
        self._file = io.BytesIO()
        self._lines = LineWriter(self._file)
        self.logger: Logger = create_logger(level, line_writer=self._lines, clock=lambda: 1_700_000_000_123_456_789)

    @property
    def text(self) -> str:
        """Everything logged."""
        self._lines.flush()
        return self._file.getvalue().decode()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Every line, decoded."""
        return [json.loads(line) for line in self.text.splitlines()]


class AppHarness:
    """The application around a tiny gate, with its log and its metrics."""

    def __init__(
        self,
        *,
        limits: RequestLimits | None = None,
        checks: Sequence[ReadinessCheck] = (),
        tokens: TokenSource = tuple,
        monotonic: Callable[[], float] = lambda: 1000.0,
    ) -> None:
        self.gate = TinyGate()
        self.log = Log()
        self.metrics = ServerMetrics("1.2.3")
        self.request_log = RequestLog(self.log.logger, self.metrics)
        limits = limits or RequestLimits(max_body_bytes=1 << 20, timeout=10.0, monotonic=monotonic)
        self.app = create_app(self.gate.admit, self.request_log, checks, limits, tokens)

    @property
    def client(self) -> FlaskClient:
        """Flask's test client; its requests pass the middleware."""
        return self.app.test_client()

    def count(self, name: str, **labels: str) -> float:
        """Return the value of a metric, 0 if it was never counted."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0
