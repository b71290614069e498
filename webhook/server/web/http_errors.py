"""HTTP errors of requests without a decision: a Kubernetes Status, so that the API server can show its message."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class HttpError:
    """An HTTP error: its code, a message for the user, and `reason`, one word for metrics and logs."""

    code: int
    reason: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The `v1` Status as JSON."""
        return status_body(self.code, self.message)


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
