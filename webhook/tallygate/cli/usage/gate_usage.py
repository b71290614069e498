"""The usage of a namespace as the gate answers it, for users who may not list pods and namespaces of the cluster.

The gate's server of asks sends the lines of `tallygate usage -n NAMESPACE -o json`; here they become lines again.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from tallygate.accounting.node_fit import UnhealthyDevices
from tallygate.admission.limit_schedule import LimitPeriod
from tallygate.answers.answer_records import HIDDEN_NODE, UnhealthyRecord
from tallygate.answers.usage_report import SurgeUsage, UsageLine, UsageReport
from tallygate.cli.ask.gate_client import GateClient, GateError

_USAGE_PATH: Final = "/v1/usage"


class SurgeRecord(msgspec.Struct, frozen=True):
    """A surge of an amount, and the times of its begin and its end; null for those that are not known."""

    amount: int
    since: datetime | None
    until: datetime | None


class UsageLineRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A line of `tallygate usage -o json`, without what follows from its other fields."""

    cap: str
    group: str | None
    namespace: str | None
    namespaces: int | None
    resource: str
    hard: int | None
    hard_until: datetime | None
    hard_afterwards: int | None
    soft: int | None
    used: int | None
    reserved: int | None
    terminating: int
    counted_at: datetime | None
    initializing: bool
    surge: SurgeRecord | None
    remarks: tuple[str, ...]

    def to_line(self) -> UsageLine:
        """Return the line."""
        surge, period = self.surge, None
        if self.hard is not None and self.hard_until is not None:
            period = LimitPeriod(self.hard, None, None, self.hard_until, self.hard_afterwards, self.hard)
        return UsageLine(
            name=self.resource,
            hard=self.hard,
            soft=self.soft,
            used=self.used,
            reserved=self.reserved,
            period=period,
            cap=self.cap,
            namespace=self.namespace or "",
            members=self.namespaces,
            terminating=self.terminating,
            counted_at=self.counted_at,
            is_initializing=self.initializing,
            remarks=self.remarks,
            group=self.group or "",
            surge=None if surge is None else SurgeUsage(surge.amount, surge.since, surge.until),
        )


class _AskUsage(msgspec.Struct, frozen=True, rename="camel"):
    as_of: str
    items: Sequence[UsageLineRecord]
    notes: Sequence[str]
    unhealthy: Sequence[UnhealthyRecord]


def read_usage(gate: GateClient, namespace: str) -> UsageReport:
    """Return the usage of a namespace as the gate answers it.

    Raises:
        GateError: if there is no answer, or it cannot be read.
    """
    body = gate.exchange("GET", _USAGE_PATH, {"namespace": namespace})
    try:
        usage = msgspec.json.decode(body, type=_AskUsage)
    except (ValueError, RecursionError) as error:
        raise GateError(f"{gate.url} sends no AskUsage that this version reads: {error}") from None
    unhealthy = (
        UnhealthyDevices(each.node or HIDDEN_NODE, each.resource, each.unhealthy, each.capacity)
        for each in usage.unhealthy
    )
    return UsageReport(tuple(line.to_line() for line in usage.items), tuple(usage.notes), tuple(unhealthy))
