"""Who opens a page, which requests of browsers count, and the headers that bind a page to this server.

A page has no script and loads its style sheet alone, so that a name that got into it as markup could do nothing
(Content Security Policy Level 3). A form counts only from a page of this server: browsers say so in `Sec-Fetch-Site`
(Fetch Metadata), older ones by `Origin`.
"""

from http import HTTPStatus
from typing import Final

from flask import Request, Response

from tallygate.server.asking.ask_error import AskError
from tallygate.server.interfaces import PROXY_REQUEST
from tallygate.server.web.pages.sessions import Sessions

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",  # for browsers that do not know frame-ancestors
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def add_headers(response: Response) -> None:
    """Add the headers of every answer under `PAGE_PATH`; nothing keeps one, unless it says otherwise."""
    for name, value in _HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("Cache-Control", "no-store")


def check_origin(request: Request) -> None:
    """Check that a form was sent by a page of this server.

    A request with a token in its header is not a browser's form, unless a front proxy has sent it, which may add that
    header for a browser that has its cookie. The policy `no-referrer` of our pages makes browsers
    send `Origin: null` (Fetch, section 3.2), so that `Sec-Fetch-Site` counts where there is one.

    Raises:
        AskError: with 403 if another site may have made it.
    """
    if request.headers.get("Authorization") and PROXY_REQUEST not in request.environ:
        return
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin", "")
    is_own = origin == f"https://{request.host}" if site is None else site == "same-origin"
    if not is_own:
        raise AskError(
            HTTPStatus.FORBIDDEN, "this form was not sent by a page of this server: open the page, and send it again"
        )


def find_authorization(request: Request, sessions: Sessions) -> str | None:
    """Return the header `Authorization` of a request, or one for the token of its cookie; None without both."""
    header = request.headers.get("Authorization")
    if header:
        return header
    token = sessions.find_token(request)
    return None if token is None else f"Bearer {token}"
