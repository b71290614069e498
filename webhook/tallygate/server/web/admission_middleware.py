"""The WSGI middleware for the two admission paths: it passes the body of a `POST` to the gate and sends its response.

It runs before Flask, in Flask's own way (`app.wsgi_app = AdmissionMiddleware(app.wsgi_app, …)`), since routing and
request objects cost three quarters of a request. It passes all other requests to Flask.
"""

import hmac
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from wsgiref.types import StartResponse, WSGIApplication

from tallygate.admission.request import Phase, ReviewError
from tallygate.admission.webhook_configuration import ADMIT_PATH_PREFIX
from tallygate.gate.decisions import Decision, DecisionRecord, UndecidedError
from tallygate.server.interfaces import Admit, ReadinessStatus
from tallygate.server.web.http_errors import STATUS_LINES, FirstAttempts, HttpError
from tallygate.server.web.request_body import BodyError, BodyReader, Environ, parse_timeout
from tallygate.server.web.request_log import RequestLog

_LATE_SECONDS = 5.0  # after its deadline a decision ends at once, unless something is stuck
_PATHS = {f"{ADMIT_PATH_PREFIX}{phase}": phase for phase in Phase}
_JSON_HEADER = ("Content-Type", "application/json")
_OK_LINE = STATUS_LINES[200]
_CRASH_ERROR = HttpError(500, "crash", "no decision could be made: the gate failed, and its log has the cause")
_METHOD_ERROR = HttpError(405, "method", "send an AdmissionReview by POST", {"Allow": "POST"})

TokenSource = Callable[[], tuple[bytes, ...]]
"""A function that returns the secret path segments that are valid now; without any, the paths are open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits of one request: its body in bytes, its decision in seconds by the clock `monotonic`.

    `threads` is the number of requests at a time.
    """

    max_body_bytes: int = 8 << 20
    timeout: float = 10.0
    threads: int = 256
    monotonic: Callable[[], float] = time.monotonic


class AdmissionMiddleware:
    """WSGI middleware with the two admission endpoints, in front of an application.

    Args:
        application: the WSGI application that handles all other requests.
        admit: the gate's `admit`, which decides on reviews.
        request_log: the log and counter of all responses.
        limits: the limits of one request.
        tokens: returns the secret path segments; with any, the paths without one do not exist.
    """

    def __init__(
        self,
        application: WSGIApplication,
        admit: Admit,
        request_log: RequestLog,
        limits: RequestLimits,
        tokens: TokenSource = tuple,
    ) -> None:
        self._application = application
        self._admit = admit
        self._request_log = request_log
        self._monotonic = limits.monotonic
        self.body_reader = BodyReader(limits.max_body_bytes, limits.timeout)
        self.progress = DecisionProgress(limits.timeout + _LATE_SECONDS, max(1, limits.threads // 2))
        self._timeout = limits.timeout
        self._first_attempts = FirstAttempts()
        self._tokens = tokens

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Respond to an admission request; pass any other request to the application."""
        phase = self._find_phase(environ["PATH_INFO"])
        if phase is None:
            return self._application(environ, start_response)
        if environ["REQUEST_METHOD"] != "POST":
            return self._send_error(_METHOD_ERROR, start_response)
        started_at = self._monotonic()
        try:
            decision = self._decide(environ, phase, started_at)
        except BodyError as error:
            remaining_seconds = self._compute_remaining(environ, started_at)
            return self._send_error(error.http_error, start_response, remaining_seconds=remaining_seconds)
        except ReviewError as error:
            return self._send_error(HttpError(400, "review", str(error)), start_response)
        except UndecidedError as error:
            message = f"no decision could be made: {error}"
            http_error = HttpError(500, "undecided", message, is_transient=error.is_transient)
            remaining_seconds = self._compute_remaining(environ, self._first_attempts.record(error.uid, started_at))
            return self._send_error(http_error, start_response, error, remaining_seconds)
        except Exception as error:  # noqa: BLE001 - the one place that turns a crash into an answer
            return self._send_error(_CRASH_ERROR, start_response, error)
        seconds = self._monotonic() - started_at
        start_response(_OK_LINE, [_JSON_HEADER])
        return _LoggedBody(decision.body, lambda: self._log_decision(decision.record, seconds))

    def _decide(self, environ: Environ, phase: Phase, started_at: float) -> Decision:
        timeout = parse_timeout(environ.get("QUERY_STRING", ""))
        deadline = started_at + (self._timeout if timeout is None else min(timeout, self._timeout))
        body, free_body = self.body_reader.read(environ, started_at)
        key = self.progress.begin()
        try:
            return self._admit(body, phase, deadline)
        finally:
            self.progress.end(key)
            if free_body is not None:
                free_body()

    def _log_decision(self, record: DecisionRecord, seconds: float) -> None:
        key = self.progress.begin()
        try:
            self._request_log.log_decision(record, seconds)
        finally:
            self.progress.end(key)

    def _compute_remaining(self, environ: Environ, first_at: float) -> float:
        """Return the seconds for which the client still waits, whose first attempt was received at `first_at`."""
        timeout = parse_timeout(environ.get("QUERY_STRING", "")) or self._timeout
        return first_at + timeout - self._monotonic()

    def _send_error(
        self,
        http_error: HttpError,
        start_response: StartResponse,
        error: BaseException | None = None,
        remaining_seconds: float = 0.0,
    ) -> Iterable[bytes]:
        """Log an HTTP error, and return its response to a client that waits for `remaining_seconds` more."""
        self._request_log.log_error(http_error, error)
        start_response(STATUS_LINES[http_error.code], [_JSON_HEADER, *http_error.create_headers(remaining_seconds)])
        return [http_error.body]

    def _find_phase(self, path: str) -> Phase | None:
        tokens = self._tokens()
        if not tokens:
            return _PATHS.get(path)
        token, _, rest = path.removeprefix(ADMIT_PATH_PREFIX).partition("/")
        phase = _PATHS.get(ADMIT_PATH_PREFIX + rest) if path.startswith(ADMIT_PATH_PREFIX) else None
        return phase if phase and _is_valid_token(token, tokens) else None


class _LoggedBody:
    """A response body that is logged after it is sent, so that the API server does not wait for the log line."""

    __slots__ = ("_body", "close")

    def __init__(self, body: bytes, close: Callable[[], None]) -> None:
        self._body = body
        self.close = close  # PEP 3333: the server calls it at the end of a request

    def __iter__(self) -> Iterator[bytes]:
        yield self._body


def _is_valid_token(token: str, tokens: tuple[bytes, ...]) -> bool:
    """Return whether the token is valid, in a time that does not depend on how much of which token matches."""
    encoded = token.encode()
    return any([hmac.compare_digest(encoded, valid) for valid in tokens])  # noqa: C419 - compares with all, always


_NAME = "decisions"
_LASTING_SECONDS = 60.0


class DecisionProgress:
    """The decisions in progress, with the log of each. Any thread calls it.

    A decision is stuck after `limit` seconds. Reviews are stuck if meanwhile none has ended, or if `max_stuck`
    decisions are stuck: each of them occupies a thread. One that does not end alone is no reason to stop the gate.
    """

    def __init__(self, limit: float, max_stuck: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._max_stuck = max_stuck
        self._monotonic = monotonic
        self._keys = itertools.count()
        self._began_at: dict[int, float] = {}
        self._ended_at = monotonic()

    def begin(self) -> int:
        """Begin a decision, or its log line; return the key for its end."""
        key = next(self._keys)
        self._began_at[key] = self._monotonic()
        return key

    def end(self, key: int) -> None:
        """End what `begin` began."""
        del self._began_at[key]
        self._ended_at = self._monotonic()

    def check(self) -> ReadinessStatus:
        """Return a status that is not ready while reviews are stuck."""
        ready = not self._are_stuck(self._limit)
        return ReadinessStatus(_NAME, ready, {"stuck": self._count_stuck(self._limit)})

    def is_alive(self) -> bool:
        """Return whether reviews are not stuck, or not for a minute: then only a restart helps."""
        return not self._are_stuck(self._limit + _LASTING_SECONDS)

    def _are_stuck(self, seconds: float) -> bool:
        stuck = self._count_stuck(seconds)
        return stuck >= self._max_stuck or (stuck > 0 and self._monotonic() - self._ended_at > seconds)

    def _count_stuck(self, seconds: float) -> int:
        now = self._monotonic()
        return sum(now - began_at > seconds for began_at in list(self._began_at.values()))
