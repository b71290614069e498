"""All caps of a cluster at once: their lines, the least free share first, who has their amounts, and the capacity.

Consumers and claims of all namespaces have names here, so that only someone who may list all pods gets it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tallygate.admission.cap_index import CapIndex
from tallygate.answers.capacity_report import find_capacity
from tallygate.answers.columns import API_VERSION
from tallygate.answers.usage_columns import LINES, TOTALS
from tallygate.answers.usage_report import (
    LedgerChoice,
    LedgerUsage,
    SortKey,
    UsageLine,
    UsageReport,
    UsageTotal,
    arrange_lines,
    compute_usage_of_caps,
    format_time,
    sum_lines,
)
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.consumer_sums import Consumer, PodOwners, sum_consumers

MAX_EXPLAINED: Final = 100
"""The ledgers whose consumers are named: those with the least free share."""

MAX_IDLE: Final = 200
"""The idle claims that are named; the others are counted."""

Dict = dict[str, Any]
_LedgerId = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class IdleClaim:
    """A claim that has devices, and that no pod uses."""

    claim: str
    devices: int


@dataclass(frozen=True, slots=True)
class CapOverview:
    """The caps of a cluster.

    `consumers` are the top consumers of each explained line, by its ledger and resource, and `waiting` is the amount of
    it that pods without a node have. `capacities` are what all
    nodes have of each resource of a total, without those that no node advertises. `idle` are the idle claims with the
    most devices, `idle_count` is the number of all; None while claims for devices are not known.
    """

    report: UsageReport
    consumers: Mapping[tuple[_LedgerId, str], tuple[Consumer, ...]]
    waiting: Mapping[tuple[_LedgerId, str], int]
    totals: tuple[UsageTotal, ...]
    capacities: Mapping[str, int]
    idle: tuple[IdleClaim, ...] | None
    idle_count: int
    revision: int | None


def describe_caps(state: ClusterState, caps: CapIndex, check_time: Callable[[], None] = lambda: None) -> CapOverview:
    """Return the caps of a state."""
    report, ledgers = compute_usage_of_caps(state, caps, LedgerChoice())
    check_time()
    lines = tuple(arrange_lines(report.lines, SortKey.UTILIZATION, None))
    first = list(dict.fromkeys(map(_identify, lines)))[:MAX_EXPLAINED]
    by_id = {_identify(ledger.lines[0]): ledger for ledger in ledgers if ledger.lines}
    consumers: dict[tuple[_LedgerId, str], tuple[Consumer, ...]] = {}
    waiting: dict[tuple[_LedgerId, str], int] = {}
    owners = PodOwners()
    for ledger_id in first:
        check_time()
        for name, top in _list_top(state, by_id[ledger_id], owners):
            consumers[ledger_id, name] = top
        waiting_amounts = _sum_waiting(state, by_id[ledger_id])
        waiting |= {(ledger_id, line.name): waiting_amounts[line.name] for line in by_id[ledger_id].lines}
    totals = tuple(sum_lines(report.lines))
    names = {total.name for total in totals}
    idle = _list_idle(state)
    return CapOverview(
        UsageReport(lines, report.notes, report.unhealthy),
        consumers,
        waiting,
        totals,
        {name: amount for name in names if (amount := find_capacity(state.require_columns(), name)) is not None},
        None if idle is None else tuple(idle[:MAX_IDLE]),
        len(idle or ()),
        state.find_revision(),
    )


def _identify(line: UsageLine) -> _LedgerId:
    return line.cap, line.group, line.namespace


def _list_top(
    state: ClusterState, ledger: LedgerUsage, owners: PodOwners
) -> Iterator[tuple[str, tuple[Consumer, ...]]]:
    """Yield the top consumers of each resource of a ledger."""
    cap, key, members = ledger.chosen
    consumers = state.list_consumers(cap, members, state.find_ledger(key))
    sums = sum_consumers(cap, consumers, owners, state.pods.list_pod_names)
    for line in ledger.lines:
        yield line.name, sums.list_top(line.name)


def _sum_waiting(state: ClusterState, ledger: LedgerUsage) -> Counter[str]:
    """Return what the pods of a ledger that have no node count: amounts that others could use meanwhile."""
    cap, _, members = ledger.chosen
    sums = Counter[str]()
    for _, amounts in state.pods.list_amounts(cap, members, waiting_only=True):
        sums.update(amounts or {})
    return sums


def _list_idle(state: ClusterState) -> Sequence[IdleClaim] | None:
    """Return the claims with devices that no pod uses, those with the most devices first."""
    devices = state.require_columns().devices
    if devices is None:
        return None
    found = [IdleClaim(f"{namespace}/{name}", count) for (namespace, name), count in devices.list_idle_claims()]
    return sorted(found, key=lambda each: (-each.devices, each.claim))


def convert_caps(overview: CapOverview, as_of: datetime, most_lines: int | None = None) -> Dict:
    """Return the caps as plain data; `as_of` is the time up to which the state is known.

    `most_lines` is the number of lines that are there, None for all; `itemCount` is that of all.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "AskCaps",
        "revision": None if overview.revision is None else str(overview.revision),
        "asOf": format_time(as_of),
        "items": [
            LINES.to_dict(line)
            | {
                "consumers": _convert_consumers(overview.consumers.get((_identify(line), line.name))),
                "waiting": overview.waiting.get((_identify(line), line.name)),
            }
            for line in overview.report.lines[:most_lines]
        ],
        "itemCount": len(overview.report.lines),
        "totals": [
            TOTALS.to_dict(total) | {"capacity": overview.capacities.get(total.name)} for total in overview.totals
        ],
        "idleClaims": None
        if overview.idle is None
        else [{"claim": each.claim, "devices": each.devices} for each in overview.idle],
        "idleClaimCount": overview.idle_count,
        "notes": list(overview.report.notes),
        "unhealthy": [devices.to_dict() for devices in overview.report.unhealthy],
    }


def _convert_consumers(consumers: Sequence[Consumer] | None) -> list[Dict] | None:
    return None if consumers is None else [consumer._asdict() for consumer in consumers]
