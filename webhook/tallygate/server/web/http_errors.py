"""HTTP errors of requests without a decision: a Kubernetes Status, so that the API server can show its message.

A transient one asks the API server to send the review again, to another replica where there is one. Its client does so
for 429 and 5xx with `Retry-After` (client-go rest/with_retry.go, v1.36; webhooks have ten retries, within their
`timeoutSeconds`). A review that is sent twice is safe, since reservations are keyed by UID.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

STATUS_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
"""`status.reason` by code (apimachinery metav1.StatusReason, v1.36)."""

STATUS_LINES = {
    200: "200 OK",
    400: "400 Bad Request",
    405: "405 Method Not Allowed",
    408: "408 Request Timeout",
    413: "413 Content Too Large",
    415: "415 Unsupported Media Type",
    500: "500 Internal Server Error",
    503: "503 Service Unavailable",
}


_RETRY_AFTER_SECONDS: Final = 1
_ANSWER_SECONDS: Final = 1.0  # that the next answer may take, so that the retry does not only end by the timeout
_MAX_UID_LENGTH: Final = 64  # an API server's have 36 characters


@dataclass(frozen=True, slots=True)
class HttpError:
    """An HTTP error: its code, a message for the user, and `reason`, one word for metrics and logs.

    `is_transient` is set if another replica, or this one a second later, may decide.
    """

    code: int
    reason: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    is_transient: bool = False

    @property
    def body(self) -> bytes:
        """The `v1` Status as JSON."""
        return status_body(self.code, self.message)

    def create_headers(self, remaining_seconds: float) -> list[tuple[str, str]]:
        """Return the headers of the response to a client that waits for `remaining_seconds` more.

        A transient error gets `Retry-After`, and `Connection: close`, since a new connection may lead to another
        replica. Without time for a retry it gets neither: the client would wait in vain, and hide the message.
        """
        headers = list(self.headers.items())
        if self.is_transient and remaining_seconds >= _RETRY_AFTER_SECONDS + _ANSWER_SECONDS:
            headers += [("Retry-After", str(_RETRY_AFTER_SECONDS)), ("Connection", "close")]
        return headers


def status_body(code: int, message: str) -> bytes:
    """Return a `v1` Status of a failure as JSON (apimachinery metav1.Status).

    client-go shows the message of such a body in place of its own text for the code.
    """
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": STATUS_REASONS.get(code, "Unknown"),
            "code": code,
        }
    )


class FirstAttempts:
    """The times at which the undecided reviews were first received, of at most `max_reviews`, by their UIDs.

    A retry has the UID and the `?timeout=` of the first attempt, so that only this shows the remaining time. A review
    whose earlier attempts went to other replicas seems to have more.
    """

    def __init__(self, max_reviews: int = 1024) -> None:
        self._max_reviews = max_reviews
        self._first_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def record(self, uid: str, received_at: float) -> float:
        """Record an attempt, and return the time of the first one; the oldest review of too many is dropped."""
        with self._lock:
            first_at = self._first_at.setdefault(uid[:_MAX_UID_LENGTH], received_at)
            if len(self._first_at) > self._max_reviews:
                del self._first_at[next(iter(self._first_at))]
        return first_at
