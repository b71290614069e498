"""Request bodies: read whole, and never more than allowed."""

from typing import Any

from webhook.server.failures import Failure

Environ = dict[str, Any]
"""A WSGI environment (PEP 3333)."""


class BodyError(Exception):
    """The body cannot be taken; `failure` is the answer."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


def read_body(environ: Environ, limit: int) -> bytes:
    """The body of a request, of at most `limit` bytes.

    A length that is announced is believed only to refuse: nothing is read of a body that says it is too large.

    Raises:
        BodyError: too large (413), compressed (415), or shorter than announced (400).
    """
    encoding = environ.get("HTTP_CONTENT_ENCODING", "identity")
    if encoding not in ("identity", ""):
        raise BodyError(Failure(415, "encoding", "send the review as it is: no Content-Encoding is understood"))
    announced = environ.get("CONTENT_LENGTH")
    if not announced:
        return _read_unannounced(environ, limit)
    if not (announced.isascii() and announced.isdigit()):
        raise BodyError(Failure(400, "length", "Content-Length is not a number"))
    if len(announced) > len(str(limit)) or int(announced) > limit:
        raise _too_large(limit)
    body: bytes = environ["wsgi.input"].read(int(announced))
    if len(body) < int(announced):
        raise BodyError(Failure(400, "truncated", "the body ended before its Content-Length"))
    return body


def _read_unannounced(environ: Environ, limit: int) -> bytes:
    """A chunked body. Where the server does not mark its end (`wsgi.input_terminated`), PEP 3333 says it is empty."""
    if not environ.get("wsgi.input_terminated"):
        return b""
    body: bytes = environ["wsgi.input"].read(limit + 1)
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> BodyError:
    return BodyError(Failure(413, "too-large", f"the body is larger than {limit} bytes, the most that is read"))
