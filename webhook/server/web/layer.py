"""The admission layer: takes `POST` on the two admission paths, hands bytes to the gate and bytes back.

It stands in front of Flask, in Flask's own way (`app.wsgi_app = Admission(app.wsgi_app, …)`), since routing and request
objects cost three quarters of a request. Everything else is passed on.
"""

import hmac
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from wsgiref.types import StartResponse, WSGIApplication

from webhook.admission.change import Phase
from webhook.admission.registration import ADMIT_PREFIX
from webhook.admission.review import ReviewError
from webhook.gate.decisions import Decision
from webhook.gate.gate import UndecidedError
from webhook.server.ports import Admit
from webhook.server.web.bodies import BodyError, BodyReader, Environ
from webhook.server.web.deadlines import seconds_asked
from webhook.server.web.failures import PHRASES, Failure
from webhook.server.web.observer import Observer

_PATHS = {f"{ADMIT_PREFIX}{phase}": phase for phase in Phase}
JSON = ("Content-Type", "application/json")
_OK = PHRASES[200]
CRASHED = Failure(500, "crash", "the gate failed and has decided nothing; its log says how")
NOT_POST = Failure(405, "method", "send an AdmissionReview by POST", {"Allow": "POST"})

Tokens = Callable[[], tuple[bytes, ...]]
"""The secret path segments in force now; none: the paths are open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one request: its body in bytes, its decision in seconds by the clock `monotonic`."""

    body: int = 8 << 20
    seconds: float = 10.0
    monotonic: Callable[[], float] = time.monotonic


class Admission:
    """WSGI middleware: the two admission endpoints in front of an application.

    Args:
        application: what answers everything else.
        admit: decides.
        observer: is told of every answer.
        limits: bounds on one request.
        tokens: the secret path segments; with any, the paths without one do not exist.
    """

    def __init__(
        self,
        application: WSGIApplication,
        admit: Admit,
        observer: Observer,
        limits: Limits,
        tokens: Tokens = tuple,
    ) -> None:
        self._application = application
        self._admit = admit
        self._observer = observer
        self._fail = partial(fail, observer)
        self._monotonic = limits.monotonic
        self.bodies = BodyReader(limits.body, limits.seconds)
        self._timeout = limits.seconds
        self._tokens = tokens

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer an admission request; pass anything else on."""
        phase = self._phase(environ["PATH_INFO"])
        if phase is None:
            return self._application(environ, start_response)
        if environ["REQUEST_METHOD"] != "POST":
            return self._fail(NOT_POST, start_response)
        begun = self._monotonic()
        try:
            answer = self._decide(environ, phase, begun)
        except BodyError as error:
            return self._fail(error.failure, start_response)
        except ReviewError as error:
            return self._fail(Failure(400, "review", str(error)), start_response)
        except UndecidedError as error:
            return self._fail(Failure(500, "undecided", f"the gate could not decide: {error}"), start_response, error)
        except Exception as error:  # noqa: BLE001 - the one place that turns a crash into an answer
            return self._fail(CRASHED, start_response, error)
        taken = self._monotonic() - begun
        start_response(_OK, [JSON])
        return _Sent(answer.body, lambda: self._observer.answered(answer.record, taken))

    def _decide(self, environ: Environ, phase: Phase, begun: float) -> Decision:
        asked = seconds_asked(environ.get("QUERY_STRING", ""))
        deadline = begun + (self._timeout if asked is None else min(asked, self._timeout))
        return self._admit(self.bodies.read(environ, begun), phase, deadline)

    def _phase(self, path: str) -> Phase | None:
        tokens = self._tokens()
        if not tokens:
            return _PATHS.get(path)
        token, _, rest = path.removeprefix(ADMIT_PREFIX).partition("/")
        phase = _PATHS.get(ADMIT_PREFIX + rest) if path.startswith(ADMIT_PREFIX) else None
        return phase if phase and _is_one_of(token, tokens) else None


def fail(
    observer: Observer, failure: Failure, start_response: StartResponse, error: BaseException | None = None
) -> Iterable[bytes]:
    """Tell a failure, and answer it."""
    observer.failed(failure, error)
    start_response(PHRASES[failure.code], [JSON, *failure.headers.items()])
    return [failure.body]


class _Sent:
    """A body, and what is done once it is sent: nobody who waits for a decision need wait for its log line."""

    __slots__ = ("_body", "close")

    def __init__(self, body: bytes, close: Callable[[], None]) -> None:
        self._body = body
        self.close = close  # as PEP 3333 calls what a server does at the end of a request

    def __iter__(self) -> Iterator[bytes]:
        yield self._body


def _is_one_of(token: str, tokens: tuple[bytes, ...]) -> bool:
    """Whether the token is valid, in a time that tells nothing of how nearly it is, nor of which."""
    given = token.encode()
    return any([hmac.compare_digest(given, valid) for valid in tokens])  # noqa: C419 - compares with all, always
