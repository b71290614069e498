"""What is passed on, what is heard, and what asking comes to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from webhook.errors import TallygateError

RELAY_HEADER: Final = "Tallygate-Relayed"
"""The header of what one relay asks another, with its name: that one asks nobody but the gate beside it."""


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """A review to pass on; `relayed`: by which relay already, empty when by none."""

    path: str
    body: bytes
    relayed_by: str = ""


@dataclass(frozen=True, slots=True)
class RelayResponse:
    """What a gate says, as JSON: a decision, or why there is none."""

    status: int
    body: bytes


class UnreachableError(TallygateError):
    """There is no answer; the text says why. Whoever was asked may have decided all the same."""


class SlowUpstreamError(UnreachableError):
    """The time for an answer went by. Elsewhere silence is told at once."""


@dataclass(frozen=True, slots=True)
class UpstreamTimeout:
    """So many seconds may go by until an answer is there.

    It `insists` when time runs out: then one that is not ready is better than none.
    """

    seconds: float
    allows_unready: bool = False

    @property
    def announced_seconds(self) -> float:
        """What the gate is told that it may take: less, so that it is heard when it says that it was too busy.

        Else that would be taken for hanging, and the gate be spared while others get its share.
        """
        return max(self.seconds - 0.1, self.seconds / 2)


SendToUpstream = Callable[[RelayRequest, UpstreamTimeout], RelayResponse]
"""Asks one gate, once. Raises SilentError."""


@dataclass(frozen=True, slots=True)
class PeerService:
    """Where another replica answers: a name that its certificate is for, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"
