"""Tests of the usage of caps whose limits are percentages of a capacity."""

import pytest

from tallygate.accounting.amounts import Amounts
from tallygate.answers.usage_columns import LINES
from tallygate.answers.usage_report import LedgerChoice, UsageReport, compute_usage
from tallygate.cluster import kinds
from tallygate.cluster.cap_ledger_list import CapLedgerList, CapLedgerRecord
from tallygate.cluster.cluster_state import ClusterState
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.cluster.objects import GPU, READ, create_state, node, parse_cap
from tests.cluster.test_capacities import NOW

POLICIES = parse_cap({"hard": {GPU: "25%"}, "soft": {GPU: "12.5%"}, "capacity": {"settle": "15m"}})
TEAM = {"kind": "Namespace", "metadata": {"name": "team-a"}}


def report(state: ClusterState, limit: int | None) -> UsageReport:
    """Return the usage of a state, with a ledger of this limit."""
    caps = state.index_caps(POLICIES, NOW)
    if limit is not None:
        (cap,) = caps.list_caps()
        ledger = Ledger(Amounts({GPU: limit}), used=Amounts({GPU: 5}), resources=cap.counted)
        key = LedgerKey(cap.key, "team-a")
        state.ledgers = CapLedgerList({key: CapLedgerRecord("u", "", "gpus", 6, key, ledger, None)})
    return compute_usage(state, caps, LedgerChoice())


@pytest.mark.parametrize(
    ("limit", "expected", "remarks"),
    [
        (16, {"hard": 16, "fallsTo": None, "free": 11}, ["hard 16 (25% of 64)"]),
        (None, {"hard": 16, "fallsTo": None, "free": 16}, ["no ledger yet: counted from pods", "hard 16 (25% of 64)"]),
        # less capacity acts later: the ledger has the limit that decides
        (20, {"hard": 20, "fallsTo": 16, "free": 15},
         ["hard falls to 16 (25% of 64) once there has been no more capacity for 15m"]),
        # more capacity acts once the leader has written it
        (12, {"hard": 12, "fallsTo": None, "free": 7},
         ["hard is 16 in the policies, 12 in the ledger", "hard 16 (25% of 64)"]),
    ],
)  # fmt: skip
def test_a_line_has_the_limit_that_decides_and_what_it_is_of(
    limit: int | None, expected: dict[str, int | None], remarks: list[str]
) -> None:
    (line,) = report(create_state([TEAM, node("a", {GPU: 64})], [kinds.NAMESPACES, *READ]), limit).lines
    written = LINES.to_dict(line)
    assert written == written | {**expected, "percent": "25%", "capacity": 64, "soft": 8}
    assert written["remarks"] == [*remarks, "soft 8 (12.5% of 64)"]


def test_an_unknown_capacity_leaves_the_limit_of_the_ledger_and_is_named() -> None:
    state = create_state([TEAM], [kinds.NAMESPACES, kinds.CLASSES, kinds.PODS, kinds.CLAIMS])
    usage = report(state, 16)
    written = LINES.to_dict(usage.lines[0])
    assert written == written | {"hard": 16, "percent": "25%", "capacity": None, "fallsTo": None}
    assert written["remarks"] == ["hard 25% was not evaluated: the capacity is not known"]
    assert f"cap gpus was not evaluated for {GPU}: nodes may not be listed" in usage.notes
