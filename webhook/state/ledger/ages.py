"""What one observer remembers of a ledger's rows: since when, and whether a write has committed since (rule 6).

Every time here is seconds of this observer's own monotonic clock. Clocks of two machines are never compared, and
nothing of this is ever stored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from webhook.state.ledger.ledger import Ledger

MAKER = ""
"""Stands for the UID where not a row is known but the making of a ledger (rule 7)."""


@dataclass(frozen=True, slots=True)
class Known:
    """Seen since `since`; `marked` is when a write that had begun after the bound was known to have committed."""

    since: float
    marked: float | None = None


@dataclass(frozen=True, slots=True)
class Ages:
    """The promises of one ledger as one observer knows them, by UID and the attempt that wrote last.

    `bound` is B in seconds: nothing is stored later than that after its handler began, but for what already waits
    inside etcd. That is what the mark is for: a write begun after the bound commits behind whatever waited there.
    """

    bound: float
    known: Mapping[tuple[str, str], Known] = field(default_factory=lambda: MappingProxyType({}))

    def seen(self, ledger: Ledger, now: float) -> "Ages":
        """With what this ledger shows at `now`; what it does not show any more is forgotten."""
        known = {key: self.known.get(key) or Known(now) for key in _keys(ledger)}
        return replace(self, known=MappingProxyType(known))

    def committed(self, begun: float, now: float) -> "Ages":
        """With a write of this ledger that was sent at `begun` and is known, at `now`, to have committed."""
        known = {
            key: replace(each, marked=now) if each.marked is None and begun >= each.since + self.bound else each
            for key, each in self.known.items()
        }
        return replace(self, known=MappingProxyType(known))

    def awaits_mark(self, now: float) -> bool:
        """Whether some are old enough, and no write has committed since: then it is worth one that changes nothing."""
        return any(each.marked is None and now >= each.since + self.bound for each in self.known.values())

    def oldest(self, now: float) -> float:
        """For how many seconds the one is known that is known for longest; 0 where there is none."""
        return max((now - each.since for each in self.known.values()), default=0.0)

    def ripe(self, uid: str, by: str, begun: float) -> bool:
        """Whether what a read begun at `begun` shows of this pod is the last word on what that attempt came to."""
        known = self.known.get((uid, by))
        return known is not None and known.marked is not None and begun >= known.marked

    @property
    def opens_after(self) -> float | None:
        """When a ledger of unknown past may be counted from a view that is no older; None before that is known."""
        return next((each.marked for (uid, _), each in self.known.items() if uid == MAKER), None)

    def marked(self) -> list[str]:
        """The pods worth a quorum read."""
        return [uid for (uid, _), each in self.known.items() if uid != MAKER and each.marked is not None]


def _keys(ledger: Ledger) -> Iterator[tuple[str, str]]:
    if ledger.converging:
        yield MAKER, ledger.converging
    for uid, row in ledger.rows.items():
        yield uid, row.by
