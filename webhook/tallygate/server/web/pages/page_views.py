"""The pages: their addresses, who may open them, and the templates that show their content.

Each page shows the content that its address also answers as JSON (`?o=json`), which the asker's rights have redacted.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from flask import Blueprint, Flask, Response, request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from werkzeug.exceptions import HTTPException, NotFound

from tallygate.accounting.amounts import format_amount
from tallygate.answers.answer_records import AskAnswer
from tallygate.answers.node_overview import AskNodes
from tallygate.answers.prediction_lines import drop_repeated, format_amounts, format_counts, format_details
from tallygate.answers.usage_columns import format_scope
from tallygate.cluster import kinds
from tallygate.server.asking.access import ResourceAccess
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.ask_request import check_lists, find_visible_names, find_visible_names_of_usage
from tallygate.server.asking.identity import Asker
from tallygate.server.asking.own_namespaces import offer_namespaces
from tallygate.server.interfaces import CLIENT_CERTIFICATE, PROXY_REQUEST
from tallygate.server.web.ask_app import (
    DEFAULT_NAMESPACE,
    AskParts,
    answer_body,
    find_certified_asker,
    find_proxied_asker,
    track_request,
)
from tallygate.server.web.http_errors import HttpError, status_body
from tallygate.server.web.pages import drawings
from tallygate.server.web.pages.gate_facts import AskGate, GateSources, describe_gate
from tallygate.server.web.pages.page_access import add_headers, check_origin, find_authorization
from tallygate.server.web.pages.page_address import PAGE_PATH, choose_target
from tallygate.server.web.pages.page_forms import AskForm, read_ask_form, read_sign_in_form
from tallygate.server.web.pages.sessions import COOKIE, Sessions
from tallygate.server.web.request_body import BodyError
from tallygate.server.web.request_log import RequestLog

_FOLDER: Final = Path(__file__).parent
_REVALIDATED: Final = "private, no-cache"
_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"
_MOST_OBJECTS: Final = 200
_MOST_NODES: Final = 200
_MOST_ROWS: Final = 100
_MOST_OPTIONS: Final = 1000
"""What one page shows of a long answer; its JSON has all."""

_BODY_SECONDS: Final = 0.0  # a browser does not send a form again by itself
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"  # k8s.io/apiserver pkg/authentication/serviceaccount/util.go, v1.36

_ALL: Final = (kinds.NAMESPACES, kinds.PODS, kinds.NODES)
_INSPECTED: Final = (
    *(
        ResourceAccess("list", "admissionregistration.k8s.io", resource)
        for resource in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    ),
    ResourceAccess("list", "", kinds.QUOTAS),
)
"""The facts that the checks about the gate quote beside `_ALL`."""

_ANSWERS: Final = msgspec.json.Decoder(AskAnswer)
_NODES: Final = msgspec.json.Decoder(AskNodes)
_GATE: Final = msgspec.json.Decoder(AskGate)

Dict = dict[str, Any]


class PageTitle(NamedTuple):
    """A page of the navigation: its path under `PAGE_PATH`, and its title."""

    path: str
    title: str


PAGES: Final = (
    PageTitle("namespace", "My namespace"),
    PageTitle("ask", "Ask"),
    PageTitle("caps", "Caps"),
    PageTitle("nodes", "Nodes"),
    PageTitle("gate", "The gate"),
)
"""The pages in the order of the navigation; the first one opens first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """The parts that pages need besides those of asks.

    Args:
        sessions: the cookies.
        gate_sources: what the page about the gate shows.
        request_log: the log of errors.
    """

    sessions: Sessions
    gate_sources: GateSources
    request_log: RequestLog


class Pages:
    """The pages of one server of asks, whose log gets the causes of errors."""

    def __init__(self, app: Flask, parts: AskParts, page_parts: PageParts) -> None:
        self._app = app
        self._parts = parts
        self._sessions = page_parts.sessions
        self._gate_sources = page_parts.gate_sources
        self._request_log = page_parts.request_log
        self._style = (_FOLDER / "style.css").read_bytes()
        self._environment = create_environment(f"{PAGE_PATH}/style.css?v={sha256(self._style).hexdigest()[:16]}")

    def create_blueprint(self) -> Blueprint:
        """Return the blueprint of all addresses under `PAGE_PATH`, and of `/`."""
        blueprint = Blueprint("pages", __name__)
        views: tuple[tuple[str, str, Callable[[], Response]], ...] = (
            ("GET", "/", self.open_first),
            ("GET", f"{PAGE_PATH}/", self.open_first),
            ("GET", f"{PAGE_PATH}/style.css", self.send_style),
            ("POST", f"{PAGE_PATH}/sign-in", self.sign_in),
            ("POST", f"{PAGE_PATH}/sign-out", self.sign_out),
            ("GET", f"{PAGE_PATH}/ask", self.show_ask),
            ("POST", f"{PAGE_PATH}/ask", self.answer_ask),
            ("GET", f"{PAGE_PATH}/namespace", self.show_namespace),
            ("GET", f"{PAGE_PATH}/namespaces", self.show_namespaces),
            ("GET", f"{PAGE_PATH}/caps", self.show_caps),
            ("GET", f"{PAGE_PATH}/nodes", self.show_nodes),
            ("GET", f"{PAGE_PATH}/gate", self.show_gate),
        )
        for method, path, view in views:
            blueprint.add_url_rule(path, f"{method} {path}".replace(".", "-"), view, methods=[method])
        blueprint.add_url_rule(f"{PAGE_PATH}/<path:rest>", "unknown", self.refuse_path)
        blueprint.register_error_handler(AskError, self.send_error)
        blueprint.register_error_handler(BodyError, self.send_body_error)
        blueprint.register_error_handler(HTTPException, self.send_http_error)
        return blueprint

    def open_first(self) -> Response:
        """Send the browser to the first page."""
        return _redirect(f"{PAGE_PATH}/{PAGES[0].path}")

    def send_style(self) -> Response:
        """Return the style sheet; its address changes with its content."""
        return Response(self._style, mimetype="text/css", headers={"Cache-Control": _FOR_A_YEAR})

    def refuse_path(self, rest: str) -> Response:
        """Raise the error 404 for a page that does not exist.

        Raises:
            NotFound: always.
        """
        raise NotFound(f"there is no page {rest[:100]}")

    def sign_in(self) -> Response:
        """Set the cookie of a token that the API server accepts, and send the browser to the page that it wanted."""
        check_origin(request)
        with track_request(self._app) as body:
            form = read_sign_in_form(body, request.headers.get("Content-Type", ""))
        authenticator = self._parts.authenticator
        try:
            authenticator.authenticate(f"Bearer {form.token}" if form.token else None, request.remote_addr or "")
            response = _redirect(choose_target(form.target))
            self._sessions.set_cookie(response, form.token)
        except AskError as error:
            return self._ask_for_token(error, form.target)
        return response

    def sign_out(self) -> Response:
        """Delete the cookie, and what the browser has kept of the pages."""
        check_origin(request)
        response = _redirect(f"{PAGE_PATH}/")
        self._sessions.delete_cookie(response)
        response.headers["Clear-Site-Data"] = '"cache"'
        return response

    def show_ask(self) -> Response:
        """Show the form of an ask."""
        asker = self._open()
        if _wants_json():
            raise AskError(HTTPStatus.BAD_REQUEST, "an answer is JSON, and this is its form: send objects by POST")
        namespace = request.args.get("namespace") or _find_own_namespace(asker) or DEFAULT_NAMESPACE
        return self._show("ask.html", asker, {"form": AskForm("", namespace), "answer": None, "error": None})

    def answer_ask(self) -> Response:
        """Answer about the objects of a form: as a page with the form, or as the API does."""
        check_origin(request)
        asker = self._open()
        with track_request(self._app) as body:
            form = read_ask_form(body, request.headers.get("Content-Type", ""))
            try:
                content = answer_body(self._parts, asker, form.manifest.encode(), form.namespace or DEFAULT_NAMESPACE)
            except AskError as error:
                if form.is_json:
                    raise
                return self._show("ask.html", asker, {"form": form, "answer": None, "error": error}, error)
            if form.is_json:
                return Response(content, mimetype="application/json")
            answer = _ANSWERS.decode(content)
            return self._show("ask.html", asker, {"form": form, "answer": answer, "error": None})

    def show_namespace(self) -> Response:
        """Show the usage of a namespace, as the API has it; without one, those of the user and the form to name one."""
        asker = self._open()
        namespace = request.args.get("namespace") or _find_own_namespace(asker)
        if not namespace and not _wants_json():
            return self._show_choice(asker)
        with track_request(self._app):
            visible = find_visible_names_of_usage(self._parts.reviewer, asker, namespace or DEFAULT_NAMESPACE)
            content = self._parts.answerer.answer_usage(namespace or DEFAULT_NAMESPACE, visible)
            return self._show_answer("namespace.html", asker, content, msgspec.json.decode)

    def show_namespaces(self) -> Response:
        """Show the namespaces of the user, and the form to name one."""
        return self._show_choice(self._open())

    def _show_choice(self, asker: Asker) -> Response:
        with track_request(self._app):
            read_names = self._parts.answerer.list_namespaces
            choice = offer_namespaces(self._parts.reviewer, asker, read_names, time.monotonic)
        if _wants_json():
            return Response(msgspec.json.encode(choice), mimetype="application/json")
        address = {"current": PAGES[0].path, "json_path": f"{PAGE_PATH}/namespaces?o=json"}
        return self._show("choose.html", asker, {"content": None, "choice": choice, **address})

    def show_caps(self) -> Response:
        """Show all caps to someone who may list what they count."""
        asker = self._open()
        with track_request(self._app):
            check_lists(self._parts.reviewer, asker, _ALL)
            content = self._parts.answerer.answer_caps(None if _wants_json() else _MOST_ROWS)
            return self._show_answer("caps.html", asker, content, msgspec.json.decode)

    def show_nodes(self) -> Response:
        """Show the nodes to someone who may list them."""
        asker = self._open()
        with track_request(self._app):
            check_lists(self._parts.reviewer, asker, (kinds.NODES,))
            visible = find_visible_names(self._parts.reviewer, asker, ())
            return self._show_answer("nodes.html", asker, self._parts.answerer.answer_nodes(visible), _NODES.decode)

    def show_gate(self) -> Response:
        """Show the policies, the gate and this server to someone who may list what they are about."""
        asker = self._open()
        check_lists(self._parts.reviewer, asker, _ALL)
        shows_inspection = all(self._parts.reviewer.may(asker, access) for access in _INSPECTED)
        content = msgspec.json.encode(describe_gate(self._gate_sources, shows_inspection=shows_inspection))
        return self._show_answer("gate.html", asker, content, _GATE.decode)

    def send_error(self, error: AskError) -> Response:
        """Return the page or the Status of an error; without a valid token, the form to sign in.

        Behind a front proxy that form would change nothing.
        """
        if error.detail:
            self._request_log.log_error(HttpError(error.status, "ask", error.detail))
        if _wants_json():
            body = status_body(error.status, error.message)
            return Response(body, error.status, error.create_headers(), "application/json")
        if error.status == HTTPStatus.UNAUTHORIZED and PROXY_REQUEST not in request.environ:
            is_expected = (
                find_authorization(request, self._sessions) is None and CLIENT_CERTIFICATE not in request.environ
            )
            return self._ask_for_token(None if is_expected else error, request.full_path.rstrip("?"))
        html = self._environment.get_template("error.html").render(self._describe_request(None), error=error)
        return Response(html, error.status, error.create_headers())

    def send_body_error(self, error: BodyError) -> Response:
        """Return the page of a body that is not read."""
        http_error = error.http_error
        response = self.send_error(AskError(HTTPStatus(http_error.code), http_error.message))
        response.headers.extend(http_error.create_headers(_BODY_SECONDS))
        return response

    def send_http_error(self, error: HTTPException) -> Response:
        """Return the page of an error of HTTP, such as 404."""
        code = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
        return self.send_error(AskError(HTTPStatus(code), error.description or error.name))

    def _open(self) -> Asker:
        """Return the user who opens a page, which counts as one of his asks.

        Whom a front proxy states counts. Else a token counts, that of the header before that of the cookie, and without
        one the certificate of the client: who has signed in as another user is that user.

        Raises:
            AskError: with 401 or 503 if he is not known; with 429 over his rate.
        """
        authorization = find_authorization(request, self._sessions)
        asker = find_proxied_asker(self._parts)
        if asker is None and authorization is None:
            asker = find_certified_asker()
        if asker is None:
            asker = self._parts.authenticator.authenticate(authorization, request.remote_addr or "")
        self._parts.user_limit.take(asker.username)
        return asker

    def _show_answer(self, template: str, asker: Asker, content: bytes, read: Callable[[bytes], Any]) -> Response:
        """Return an answer as JSON if that is wanted, else the page that shows it."""
        if _wants_json():
            return Response(content, mimetype="application/json")
        return self._show(template, asker, {"content": read(content)})

    def _show(self, template: str, asker: Asker, content: Mapping[str, Any], error: AskError | None = None) -> Response:
        """Return a page; one that was opened by GET is sent again only if it has changed."""
        html = self._environment.get_template(template).render({**self._describe_request(asker), **content})
        response = Response(
            html, 200 if error is None else error.status, [] if error is None else error.create_headers()
        )
        if request.method == "GET" and error is None:
            response.headers["Cache-Control"] = _REVALIDATED
            response.headers["Vary"] = "Cookie, Authorization"
            response.add_etag(weak=True)
            response.make_conditional(request)
        return response

    def _ask_for_token(self, error: AskError | None, target: str) -> Response:
        """Return the form to sign in, and delete a cookie that is not accepted.

        A browser does not send our cookie when it comes from another site, and keeps it then.
        """
        content = {
            "error": error,
            "target": choose_target(target),
            "is_from_elsewhere": request.headers.get("Sec-Fetch-Site") == "cross-site",
        }
        html = self._environment.get_template("sign-in.html").render(self._describe_request(None), **content)
        status = HTTPStatus.UNAUTHORIZED if error is None else error.status
        response = Response(html, status, [] if error is None else error.create_headers())
        if COOKIE in request.cookies:
            self._sessions.delete_cookie(response)
        if status == HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = 'Bearer realm="tallygate"'
        return response

    def _describe_request(self, asker: Asker | None) -> Dict:
        """Return what each template needs: the user, None without one, and the pages beside this one."""
        return {
            "asker": asker,
            "has_cookie": COOKIE in request.cookies,
            "pages": PAGES,
            "current": request.path.removeprefix(f"{PAGE_PATH}/"),
            "namespace": request.args.get("namespace", ""),
            "json_path": f"{request.path}?{urlencode({**request.args.to_dict(), 'o': 'json'})}",
        }


def add_pages(app: Flask, parts: AskParts, page_parts: PageParts) -> Flask:
    """Add the pages to an application of asks, and return it."""
    app.register_blueprint(Pages(app, parts, page_parts).create_blueprint())

    @app.after_request
    def secure_page(response: Response) -> Response:
        if request.path == "/" or request.path.startswith(f"{PAGE_PATH}/"):
            add_headers(response)
        return response

    return app


def create_environment(style_path: str) -> Environment:
    """Return the templates with what they call; `style_path` is the address of the style sheet."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        style_path=style_path,
        page_path=PAGE_PATH,
        strip_width=drawings.STRIP_WIDTH,
        most_objects=_MOST_OBJECTS,
        most_nodes=_MOST_NODES,
        most_rows=_MOST_ROWS,
        most_options=_MOST_OPTIONS,
        **_FUNCTIONS,
    )
    return environment


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "format_amount": format_amount,
    "draw_shortfall": drawings.draw_shortfall,
    "draw_copies": drawings.draw_copies,
    "draw_cap": drawings.draw_cap,
    "draw_node_amount": drawings.draw_node_amount,
    "draw_total": drawings.draw_total,
    "format_amounts": format_amounts,
    "format_scope": format_scope,
    "find_mood": drawings.find_mood,
    "format_counts": format_counts,
    "drop_repeated": drop_repeated,
    "format_details": format_details,
}
"""What templates call."""


def _wants_json() -> bool:
    return request.args.get("o") == "json"


def _redirect(path: str) -> Response:
    return Response("", HTTPStatus.SEE_OTHER, {"Location": path})


def _find_own_namespace(asker: Asker) -> str:
    """Return the namespace of a ServiceAccount; none for another user."""
    if not asker.username.startswith(_ACCOUNT_PREFIX):
        return ""
    return asker.username.removeprefix(_ACCOUNT_PREFIX).partition(":")[0]
