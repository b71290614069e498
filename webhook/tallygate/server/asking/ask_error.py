"""The error of an ask that gets no answer."""

from http import HTTPStatus

from tallygate.errors import TallygateError


class AskError(TallygateError):
    """An ask that gets no answer: the HTTP status, and a sentence for the asker with what would pass.

    `retry_after`: the seconds after which the same ask may pass; None if it never will. `detail`: the cause for the log
    of the server, empty if the sentence has it. Neither text has a part of a token.
    """

    def __init__(self, status: HTTPStatus, message: str, retry_after: int | None = None, *, detail: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.detail = detail

    def create_headers(self) -> list[tuple[str, str]]:
        """Return the headers of the response: a challenge with 401 (RFC 6750, section 3), and `Retry-After`."""
        headers = [("WWW-Authenticate", 'Bearer realm="tallygate"')] if self.status == HTTPStatus.UNAUTHORIZED else []
        if self.retry_after is not None:
            headers.append(("Retry-After", str(self.retry_after)))
        return headers
