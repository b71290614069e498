"""Errors of lists and watches: a reason for metrics, a sentence for people."""

from enum import StrEnum

from webhook.errors import TallygateError


class ApiErrorReason(StrEnum):
    """Reason for the restart of a list or a watch. `ENDED` is the ordinary end of a watch; all others are failures."""

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


class WatchError(TallygateError):
    """The failure of a list or a watch. `retry_after`: the wait in seconds that the server asks for."""

    def __init__(self, reason: ApiErrorReason, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.retry_after = retry_after
