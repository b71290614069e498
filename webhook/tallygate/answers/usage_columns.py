"""The columns of the usage of caps: the one definition of their table, their JSON and their YAML."""

from dataclasses import asdict
from datetime import datetime
from operator import attrgetter
from typing import Any

from tallygate.accounting.amounts import format_amount, is_milli
from tallygate.answers.columns import UNKNOWN, Column, Columns
from tallygate.answers.usage_report import GuaranteedUsage, SurgeUsage, UsageLine, UsageTotal, format_time


def format_scope(namespace: str, members: int | None, group: str = "") -> str:
    """Return the namespace of a ledger, or `shared` or its group with the number of its member namespaces."""
    if namespace:
        return namespace
    scope = group or "shared"
    return scope if members is None else f"{scope}, {members} namespace{'s' * (members != 1)}"


def format_notes(line: UsageLine) -> str:
    """Return the remarks on a line, what exceeds a limit, a surge, guarantees, and what is terminating, as one text."""
    notes = list(line.remarks)
    if line.exceeded_limit:
        excess = format_amount(line.name, (line.charged or 0) - line.exceeded_amount)
        since = f" since {format_time(line.exceeded_since)} or earlier" if line.exceeded_since is not None else ""
        notes.append(f"{excess} over {line.exceeded_limit}{since}")
    if line.surge is not None and (surge := line.surge.describe(line.name)):
        notes.append(surge)
    if line.guaranteed is not None:
        notes.append(line.guaranteed.describe(line.name, line.hard))
        # the free amount of one namespace is without what is guaranteed to others
        part = 0 if line.unspent_by_others else min(line.free or 0, line.guaranteed.unspent)
        if part:
            notes[-1] += f" ({format_amount(line.name, part)} of FREE for them alone)"
    if line.terminating:
        notes.append(f"{format_amount(line.name, line.terminating)} of them terminating")
    return "; ".join(notes)


def _convert_surge(surge: SurgeUsage) -> dict[str, Any]:
    return {"amount": surge.amount, "since": _convert_time(surge.since), "until": _convert_time(surge.until)}


def _convert_guaranteed(guaranteed: GuaranteedUsage | None) -> dict[str, Any] | None:
    return None if guaranteed is None else asdict(guaranteed)


def _convert_time(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)


_UNIT = Column[Any]("", "unit", lambda record: "milli" if is_milli(record.name) else "whole")
_RESOURCE = Column[Any]("RESOURCE", "resource", attrgetter("name"))
SCOPE = Columns[Any](
    Column("CAP", "cap"),
    Column("", "group", lambda record: record.group or None),
    Column(
        "NAMESPACE",
        "namespace",
        lambda record: record.namespace or None,
        lambda record: format_scope(record.namespace, record.members, record.group),
    ),
    Column("", "namespaces", attrgetter("members")),
    _RESOURCE,
)
"""The cap, the namespaces and the resource of a record."""


def create_amount(heading: str, key: str, attribute: str = "") -> Column[Any]:
    """Return a column of amounts, which are milli-cpu for cpu and whole units otherwise in JSON and YAML."""
    get = attrgetter(attribute or key)

    def format_value(record: Any) -> str:
        amount = get(record)
        return UNKNOWN if amount is None else format_amount(record.name, amount)

    return Column(heading, key, get, format_value)


LIMITS = _HARD, _SOFT, _USED, _RESERVED, _FREE = tuple(
    create_amount(key.upper(), key) for key in ("hard", "soft", "used", "reserved", "free")
)
LINES = Columns[UsageLine](
    *SCOPE.columns,
    _UNIT,
    _HARD,
    Column("", "hardUntil", lambda line: None if line.period is None else _convert_time(line.period.end)),
    Column("", "hardAfterwards", lambda line: None if line.period is None else line.period.later),
    Column("", "percent"),
    Column("", "capacity"),
    Column("", "fallsTo", attrgetter("falls_to")),
    _SOFT,
    _USED,
    _RESERVED,
    _FREE,
    Column("", "terminating"),
    Column("COUNTED", "countedAt", lambda line: _convert_time(line.counted_at)),
    Column("", "exceeded", lambda line: line.exceeded_limit.value or None),
    Column("", "exceededSince", lambda line: _convert_time(line.exceeded_since)),
    Column("", "initializing", attrgetter("is_initializing")),
    Column("", "surge", lambda line: None if line.surge is None else _convert_surge(line.surge)),
    Column("", "guaranteed", lambda line: _convert_guaranteed(line.guaranteed)),
    Column("", "remarks", lambda line: list(line.remarks)),
    Column("NOTE", "", format_notes),
)
TOTALS = Columns[UsageTotal](
    Column("TOTAL", "cap"),
    Column("LEDGERS", "", attrgetter("ledgers")),
    _RESOURCE,
    _UNIT,
    Column("", "ledgers"),
    _HARD,
    _USED,
    _RESERVED,
    _FREE,
)
