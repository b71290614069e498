"""The surge of a cap in the usage report: the amount above hard for pods of a controller that rolls, and its time."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tallygate.accounting.amounts import format_amount
from tallygate.admission.cap_index import ActiveCap
from tallygate.review.surge_limits import find_most
from tallygate.state.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class SurgeUsage:
    """A surge of `amount` under one name: the time at which it began, None if it does not run, and that of its end.

    The end is unknown without policies.
    """

    amount: int
    since: datetime | None = None
    until: datetime | None = None

    def describe(self, name: str) -> str:
        """Return a surge that runs as text, else an empty text."""
        if self.since is None:
            return ""
        end = f", until {format_time(self.until)}" if self.until is not None else ""
        return f"surge {format_amount(name, self.amount)} since {format_time(self.since)}{end}"


def find_surge(active_cap: ActiveCap, ledger: Ledger | None, name: str) -> SurgeUsage | None:
    """Return the surge of a cap under a name; None without one. The smaller limit of policy and ledger counts."""
    surge, definition = active_cap.surge.get(name), active_cap.definition.surge
    if surge is None or definition is None:
        return None
    hard = active_cap.hard[name]
    if ledger is None or name not in ledger.hard:
        return SurgeUsage(surge)
    most = find_most(active_cap, ledger, name)
    since = _find_begin(ledger, name)
    until = since + timedelta(seconds=definition.seconds) if since is not None else None
    return SurgeUsage(max(most - min(hard, ledger.hard[name]), 0), since, until)


def find_surge_of_ledger(ledger: Ledger, name: str) -> SurgeUsage | None:
    """Return the surge of a ledger under a name, for a caller that has no caps."""
    surge = ledger.surge.amounts.get(name)
    return None if surge is None else SurgeUsage(surge, _find_begin(ledger, name))


def _find_begin(ledger: Ledger, name: str) -> datetime | None:
    """Return the time at which a surge began that still exceeds the hard limit of a name."""
    since, charged = ledger.surge.since, ledger.used.get(name, 0) + ledger.reserved.get(name, 0)
    return (
        datetime.fromtimestamp(since, UTC) if since is not None and charged > ledger.hard.get(name, charged) else None
    )


def format_time(time: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
