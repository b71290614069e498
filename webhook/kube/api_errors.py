"""Why following a resource had to start again: one value for metrics, one sentence for people."""

from enum import StrEnum

from webhook.errors import TallygateError


class ApiErrorReason(StrEnum):
    """Why a list or a watch was begun again. `ENDED` is the ordinary end of a watch, all others are failures."""

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
"""After these the revision reached is no place to watch from; after all others nothing is lost by watching on."""


class WatchError(TallygateError):
    """A list or watch could not go on; `retry_after` is how many seconds the server asks to wait."""

    def __init__(self, reason: ApiErrorReason, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.retry_after = retry_after
