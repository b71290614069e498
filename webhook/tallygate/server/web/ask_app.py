"""The Flask application of asks: `POST /v1/ask` and `/v1/headroom`, `GET /v1/usage` and `/v1/hours`, and the probes.

Every error is a Status as JSON.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, Protocol
from wsgiref.types import StartResponse, WSGIEnvironment

from flask import Flask, Response, request

from tallygate.admission.kinds import ReviewTargets
from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.live_hours import HoursQuestion
from tallygate.answers.namespace_list import NamespaceNames
from tallygate.manifests.manifest_objects import Manifest
from tallygate.server.asking.access import AccessReviewer
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.ask_request import (
    MAX_BODY_BYTES,
    check_access,
    find_visible_names,
    find_visible_names_of_usage,
    list_needed_access,
    read_hours_question,
    read_objects,
)
from tallygate.server.asking.certificate_identity import identify_by_certificate
from tallygate.server.asking.front_proxy import FrontProxies
from tallygate.server.asking.identity import Asker, TokenAuthenticator
from tallygate.server.asking.rate import RateLimit
from tallygate.server.interfaces import CLIENT_CERTIFICATE, PROXY_REQUEST, ReadinessCheck
from tallygate.server.web.admission_middleware import DecisionProgress, RequestLimits
from tallygate.server.web.flask_app import create_base_app
from tallygate.server.web.http_errors import HttpError, status_body
from tallygate.server.web.request_body import BodyError, BodyReader
from tallygate.server.web.request_log import RequestLog

ASK_PATH: Final = "/v1/ask"
HEADROOM_PATH: Final = "/v1/headroom"
USAGE_PATH: Final = "/v1/usage"
HOURS_PATH: Final = "/v1/hours"
DEFAULT_NAMESPACE: Final = "default"
"""The namespace of objects that name none, where the request names none either."""

_OWN_SITES: Final = ("same-origin", "none")  # Sec-Fetch-Site: a page of this server, or the user himself
_BODY_SECONDS: Final = 10.0
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",  # a browser may send the user's certificate to other sites' images
    "Cache-Control": "no-store",
}
"""The headers of every response that does not say otherwise."""


class AnswersAsks(Protocol):
    """A source of answers: `tallygate.server.asking.answerer.Answerer`."""

    def answer(self, manifests: Sequence[Manifest], namespace: str, visible: VisibleNames) -> bytes:
        """Return the answer as JSON."""
        ...

    def answer_headroom(self, manifests: Sequence[Manifest], namespace: str, visible: VisibleNames) -> bytes:
        """Return the numbers of further copies as JSON."""
        ...

    def answer_usage(self, namespace: str, visible: VisibleNames) -> bytes:
        """Return the usage of a namespace as JSON."""
        ...

    def answer_hours(self, question: HoursQuestion) -> bytes:
        """Return the hours of devices as JSON."""
        ...

    def list_namespaces(self) -> NamespaceNames:
        """Return the names of all namespaces."""
        ...

    def answer_caps(self, most_lines: int | None = None) -> bytes:
        """Return all caps as JSON, with at most a number of their lines."""
        ...

    def answer_nodes(self, visible: VisibleNames) -> bytes:
        """Return the nodes as JSON."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AskParts:
    """The parts of a server of asks.

    Args:
        authenticator: who asks.
        reviewer: what he may do.
        user_limit: how often he may ask.
        answerer: the answers.
        get_targets: returns the kinds that are read.
        front_proxies: the front proxies, and the headers by which they state users.
    """

    authenticator: TokenAuthenticator
    reviewer: AccessReviewer
    user_limit: RateLimit
    answerer: AnswersAsks
    get_targets: Callable[[], ReviewTargets]
    front_proxies: FrontProxies = field(default_factory=FrontProxies)


def create_ask_app(
    parts: AskParts, request_log: RequestLog, checks: Sequence[ReadinessCheck], limits: RequestLimits
) -> Flask:
    """Return the application; nothing of a request is read before its asker is known.

    It has its `BodyReader` in `extensions["body_reader"]`, and its `DecisionProgress` in
    `extensions["decision_progress"]`, as a lifecycle needs them.
    """
    progress = DecisionProgress(limits.timeout, limits.threads, limits.monotonic)
    body_reader = BodyReader(min(MAX_BODY_BYTES, limits.max_body_bytes), _BODY_SECONDS)
    app = create_base_app("ask", checks, request_log, progress.is_alive, has_details=False)
    app.extensions["body_reader"], app.extensions["decision_progress"] = body_reader, progress

    @app.post(ASK_PATH)
    def ask() -> Response:
        return _answer_objects(app, parts, parts.answerer.answer)

    @app.post(HEADROOM_PATH)
    def count_copies() -> Response:
        return _answer_objects(app, parts, parts.answerer.answer_headroom)

    @app.get(USAGE_PATH)
    def show_usage() -> Response:
        asker = _authenticate(parts)
        parts.user_limit.take(asker.username)
        with track_request(app):
            namespace = request.args.get("namespace") or DEFAULT_NAMESPACE
            visible = find_visible_names_of_usage(parts.reviewer, asker, namespace)
            return Response(parts.answerer.answer_usage(namespace, visible), mimetype="application/json")

    @app.get(HOURS_PATH)
    def show_hours() -> Response:
        asker = _authenticate(parts)
        parts.user_limit.take(asker.username)
        with track_request(app):
            question = read_hours_question(request.args, parts.reviewer, asker)
            return Response(parts.answerer.answer_hours(question), mimetype="application/json")

    @app.errorhandler(AskError)
    def send_ask_error(error: AskError) -> Response:
        if error.detail:
            request_log.log_error(HttpError(error.status, "ask", error.detail))
        content = status_body(error.status, error.message)
        return Response(content, error.status, error.create_headers(), "application/json")

    @app.errorhandler(BodyError)
    def send_body_error(error: BodyError) -> Response:
        http_error = error.http_error
        headers = http_error.create_headers(_BODY_SECONDS)
        return Response(http_error.body, http_error.code, headers, "application/json")

    _protect(app, parts.front_proxies)
    return app


def _protect(app: Flask, front_proxies: FrontProxies) -> None:
    """Hide the headers that state users from the application, and add the headers of answers that are data."""
    serve = app.wsgi_app

    def serve_without_headers(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        front_proxies.remove_headers(environ)
        return serve(environ, start_response)

    app.wsgi_app = serve_without_headers  # type: ignore[method-assign]  # Flask's own way of adding middleware

    @app.after_request
    def secure_answer(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response


def _answer_objects(
    app: Flask, parts: AskParts, answer: Callable[[Sequence[Manifest], str, VisibleNames], bytes]
) -> Response:
    """Return what `answer` returns about the objects in the body of the current request.

    Raises:
        AskError, BodyError: if the asker gets no answer.
    """
    asker = _authenticate(parts)
    parts.user_limit.take(asker.username)
    with track_request(app) as body:
        namespace = request.args.get("namespace") or DEFAULT_NAMESPACE
        manifests, visible = _read_ask(parts, asker, body, namespace)
        return Response(answer(manifests, namespace, visible), mimetype="application/json")


def _authenticate(parts: AskParts) -> Asker:
    """Return the user of the current request, in the order of the API server.

    He is the one whom a front proxy states, else that of his client certificate, else that of his token.

    Raises:
        AskError: as `TokenAuthenticator.authenticate`; with 401 for a certificate that names no user, or a front proxy
            that states none; with 403 if a page of another site made a browser send what is known without a token.
    """
    asker = find_proxied_asker(parts) or find_certified_asker()
    if asker is not None:
        _check_site()
        return asker
    return parts.authenticator.authenticate(request.headers.get("Authorization"), request.remote_addr or "")


def _check_site() -> None:
    """Check that no page of another site made the request: a browser adds certificates, and a proxy's cookie, itself.

    Raises:
        AskError: with 403 if one may have.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    is_own = origin in {None, f"https://{request.host}"} if site is None else site in _OWN_SITES
    if not is_own:
        raise AskError(HTTPStatus.FORBIDDEN, "a page of another site sent this: its user is known without a token")


def find_proxied_asker(parts: AskParts) -> Asker | None:
    """Return the user whom a front proxy states in the current request; None if no front proxy has sent it.

    Raises:
        AskError: with 401 if the front proxy does not count, or states no user.
    """
    proxied = request.environ.get(PROXY_REQUEST)
    return None if proxied is None else parts.front_proxies.identify(proxied, datetime.now(UTC))


def find_certified_asker() -> Asker | None:
    """Return the user of the client certificate of the current request; None without one.

    Raises:
        AskError: with 401 for a certificate that names no user, or is not valid now.
    """
    certificate = request.environ.get(CLIENT_CERTIFICATE)
    return None if certificate is None else identify_by_certificate(certificate, datetime.now(UTC))


@contextmanager
def track_request(app: Flask) -> Iterator[bytes]:
    """Yield the body of the current request; `/healthz` and the drain count the request as in progress.

    Raises:
        BodyError: as `BodyReader.read`.
    """
    body_reader: BodyReader = app.extensions["body_reader"]
    progress: DecisionProgress = app.extensions["decision_progress"]
    body, free = body_reader.read(request.environ, time.monotonic())
    key = progress.begin()
    try:
        yield body
    finally:
        progress.end(key)
        if free is not None:
            free()


def answer_body(parts: AskParts, asker: Asker, body: bytes, namespace: str) -> bytes:
    """Return the answer to an ask as JSON; `namespace` is that of objects that name none.

    Raises:
        AskError: if the body cannot be read, the asker may not ask about its objects, or there is no answer now.
    """
    manifests, visible = _read_ask(parts, asker, body, namespace)
    return parts.answerer.answer(manifests, namespace, visible)


def _read_ask(parts: AskParts, asker: Asker, body: bytes, namespace: str) -> tuple[list[Manifest], VisibleNames]:
    """Return the objects of an ask, and the names that its asker may see, who may create all of them.

    Raises:
        AskError: if the body cannot be read, or the asker may not ask about its objects.
    """
    manifests = read_objects(body)
    needed = list_needed_access(manifests, namespace, parts.get_targets())
    check_access(parts.reviewer, asker, needed)
    namespaces = dict.fromkeys(access.namespace for access in needed if access.namespace)
    return manifests, find_visible_names(parts.reviewer, asker, namespaces)
