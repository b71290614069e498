"""The relay as an application: what comes to the admission paths by POST is passed on, `/healthz` and `/readyz` not."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication

from flask import Flask

from webhook.admission.registration import ADMIT_PREFIX
from webhook.server.ports import Readiness
from webhook.server.relaying.ports import RELAYED, Answered, Asked, SilentError
from webhook.server.web.app import bare_app
from webhook.server.web.bodies import BodyError, BodyReader, Environ
from webhook.server.web.deadlines import seconds_asked
from webhook.server.web.failures import PHRASES, Failure
from webhook.server.web.layer import CRASHED, JSON, NOT_POST, Limits, Tokens, fail
from webhook.server.web.observer import Observer

_MOST_LARGE: Final = 4  # bodies of more than 64 KiB, held while gates are asked; granian holds each as well
_MARGIN: Final = 0.2  # seconds that the way back takes at most
_RELAYED: Final = f"HTTP_{RELAYED.upper().replace('-', '_')}"

Answer = Callable[[Asked, float], Answered]
"""`Relay.answer`: what to pass on, and a deadline in monotonic seconds."""


class Passing:
    """WSGI middleware: asks `answer` for what comes under the admission paths; which there are, a gate knows."""

    def __init__(self, application: WSGIApplication, answer: Answer, observer: Observer, limits: Limits) -> None:
        self._application = application
        self._answer = answer
        self._fail = partial(fail, observer)
        self._limits = limits
        self.bodies = BodyReader(limits.body, limits.seconds, _MOST_LARGE)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass a review on; leave anything else to the application."""
        if not environ["PATH_INFO"].startswith(ADMIT_PREFIX):
            return self._application(environ, start_response)
        if environ["REQUEST_METHOD"] != "POST":
            return self._fail(NOT_POST, start_response)
        try:
            answered = self._pass_on(environ, self._limits.monotonic())
        except BodyError as error:
            return self._fail(error.failure, start_response)
        except SilentError as error:
            return self._fail(Failure(503, "silent", f"no gate answered: {error}"), start_response)
        except Exception as error:  # noqa: BLE001 - the one place that turns a crash into an answer
            return self._fail(CRASHED, start_response, error)
        start_response(_phrase(answered.status), [JSON])
        return [answered.body]

    def _pass_on(self, environ: Environ, begun: float) -> Answered:
        given = seconds_asked(environ.get("QUERY_STRING", "")) or self._limits.seconds
        with self.bodies.held(environ, begun) as body:
            asked = Asked(environ["PATH_INFO"], body, environ.get(_RELAYED, ""))
            return self._answer(asked, begun + min(given, self._limits.seconds) - _MARGIN)


def create_relay(answer: Answer, observer: Observer, checks: Sequence[Readiness], limits: Limits, _: Tokens) -> Flask:
    """The relay as a web application; tokens are the gate's affair, which is given the whole path."""
    app = bare_app("relay", checks, observer)
    passing = Passing(app.wsgi_app, answer, observer, limits)
    app.extensions["bodies"] = passing.bodies
    app.wsgi_app = passing  # type: ignore[method-assign]  # Flask's own way of adding middleware
    return app


def _phrase(code: int) -> str:
    try:
        return PHRASES.get(code) or f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return f"{code} Unknown"
