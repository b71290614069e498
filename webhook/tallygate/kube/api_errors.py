"""Errors of requests to an API server: a reason for metrics, a sentence for people."""

from enum import StrEnum

from tallygate.errors import TallygateError


class ApiErrorReason(StrEnum):
    """Reason of a failed request, or of the restart of a list or a watch.

    `ENDED` is the ordinary end of a watch; all others are failures.
    """

    ENDED = "ended"
    SHORT = "short"
    EXPIRED = "expired"
    INCONSISTENT = "inconsistent"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    RESET = "reset"
    TRUNCATED = "truncated"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too-large"
    BUSY = "busy"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    ABSENT = "absent"
    REFUSED = "refused"
    SERVER_ERROR = "server-error"
    SILENT = "silent"
    BEHIND = "behind"
    REWOUND = "rewound"
    OVERDUE = "overdue"


RELIST_REASONS = frozenset(
    {
        ApiErrorReason.EXPIRED,
        ApiErrorReason.INCONSISTENT,
        ApiErrorReason.BEHIND,
        ApiErrorReason.REWOUND,
        ApiErrorReason.ABSENT,
    }
)
"""Reasons for a new list: no watch can start at the last revision. After all others, the next watch loses nothing."""


class ApiError(TallygateError):
    """The failure of a request, a list or a watch.

    `status`: the status of the response, 0 without a response. `retry_after`: the wait in seconds that the server asks
    for. `may_be_applied`: whether the API server may have received the request. `detail`: the cause without a sentence
    around it.
    """

    def __init__(  # noqa: PLR0913  # each is a fact about the failure
        self,
        reason: ApiErrorReason,
        message: str,
        retry_after: float | None = None,
        *,
        status: int = 0,
        may_be_applied: bool = True,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.status = status
        self.may_be_applied = may_be_applied
        self.detail = detail or message
