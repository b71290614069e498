"""The conditions that messages report, as usage, overrides and readiness have them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tallygate.gate.ledger_usages import LedgerUsages
from tallygate.gate.notifications import ObservedConditions
from tallygate.gate.notified_conditions import MIN_CERTIFICATE_SECONDS, CapConditions, list_gate_conditions
from tests.gate.gate_fixture import CAP, GPU, SHARED
from tests.gate.replica_fixture import ReplicaFixture, create_active_replica
from tests.gate.test_cap_groups import create_replica, store_pod
from tests.gate.test_published_usage import create_state, list_ledgers

END = datetime(2026, 12, 4, 18, tzinfo=UTC)
SOFT = CAP + "  soft: {nvidia.com/gpu: 3}\n"
READ = CAP + "  overrideAnnotation: {setBy: {groups: [admins]}, most: {nvidia.com/gpu: 8}}\n"
RULES = Path(__file__).parents[2] / "deploy/prometheus/tallygate.yaml"


def _observe(
    replica: ReplicaFixture, now: datetime = END - timedelta(hours=20), *, ledgers: bool = True
) -> ObservedConditions:
    """Return the conditions that a replica observes, of overrides those that end within a day."""
    replica.follow_gate()
    replica.utc = now
    replica.reconcile()
    known = list_ledgers(replica) if ledgers else {}
    get_caps = replica.gate.get_active_caps
    usages = LedgerUsages(create_state(replica), get_caps, lambda: known)
    return CapConditions(usages, get_caps, timedelta(days=1)).list_conditions(now)


def _list_fields(observed: ObservedConditions) -> list[dict[str, str]]:
    found = [{"event": each.event.value, **each.fields} for each in observed.conditions.values()]
    return sorted(({key: value for key, value in each.items() if value} for each in found), key=json.dumps)


def test_an_amount_at_its_soft_limit_is_no_condition_and_one_above_it_is() -> None:
    replica = create_active_replica(SOFT)
    store_pod(replica, "p", 3, "team-a")
    observed = _observe(replica)
    assert (observed.conditions, observed.unknown) == ({}, set())
    store_pod(replica, "q", 1, "team-a")
    soft, full = _list_fields(_observe(replica))
    fields = {"cap": "gpus", "namespace": "team-a", "resource": GPU, "used": "4"}
    assert soft == {"event": "capFull", "limit": "4"} | fields
    assert full == {"event": "softLimitCrossed", "limit": "3"} | fields


def test_a_limit_of_0_is_not_full() -> None:
    replica = create_active_replica(CAP.replace("gpu: 4", "gpu: 0"))
    assert _observe(replica).conditions == {}


def test_the_condition_of_a_group_names_the_group() -> None:
    replica = create_replica(team_a="vision", team_b="vision")
    store_pod(replica, "p", 4, "team-b")
    (full,) = _list_fields(_observe(replica))
    assert full == {
        "event": "capFull",
        "cap": "gpus",
        "group": "team=vision",
        "resource": GPU,
        "used": "4",
        "limit": "4",
    }


def test_a_shared_cap_is_full_for_all_although_a_part_is_guaranteed() -> None:
    replica = ReplicaFixture(
        f"{SHARED}  guarantee: [{{namespaces: [team-b], amounts: {{{GPU}: 3}}}}]\n", ("team-a", "team-b")
    )
    replica.activate_ledgers()
    store_pod(replica, "p", 1, "team-a")
    assert _observe(replica).conditions == {}


def test_conditions_of_a_ledger_that_is_not_known_are_unknown() -> None:
    replica = create_active_replica(SOFT)
    store_pod(replica, "p", 4, "team-a")
    known = _observe(replica)
    unknown = _observe(replica, ledgers=False)
    assert unknown.conditions == {}
    assert unknown.unknown == known.conditions.keys()


def test_a_condition_has_the_same_key_when_its_amount_and_its_counting_rules_change() -> None:
    first, second = create_active_replica(SOFT), create_active_replica(SOFT.replace("team-*", "team-a"))
    for replica, amount in (first, 4), (second, 5):
        store_pod(replica, "p", amount, "team-a")
    assert _observe(first).conditions.keys() >= _observe(second).unknown
    assert len(_observe(first).conditions) == 2


@pytest.mark.parametrize(
    ("before", "count"),
    [(timedelta(hours=25), 0), (timedelta(hours=24), 1), (timedelta(seconds=1), 1), (timedelta(), 0)],
)
def test_an_override_of_a_policy_is_a_condition_before_its_end(before: timedelta, count: int) -> None:
    text = CAP + "  overrides: [{namespaces: ['team-*'], hard: {nvidia.com/gpu: 6}, until: 2026-12-04T18:00:00Z}]\n"
    replica = ReplicaFixture(text, ("team-a", "team-b"))
    replica.activate_ledgers()
    fields = {"event": "overrideEnds", "cap": "gpus", "namespace": "team-*", "limit": "nvidia.com/gpu=6"}
    observed = _observe(replica, END - before)
    assert _list_fields(observed) == [fields | {"until": "2026-12-04T18:00Z"}] * count
    assert [each.ends_at for each in observed.conditions.values()] == [END.timestamp()] * count


def test_an_override_without_an_end_is_no_condition() -> None:
    replica = create_active_replica(CAP + "  overrides: [{hard: {nvidia.com/gpu: 6}}]\n")
    assert _observe(replica).conditions == {}


def test_an_override_by_an_annotation_is_that_of_its_namespace_if_the_cap_counts_it() -> None:
    replica = create_active_replica(READ)
    for name in ("team-a", "other"):
        replica.annotate_namespace(name, gpus="nvidia.com/gpu=7 until=2026-12-04T18:00:00Z")
    (found,) = _list_fields(_observe(replica))
    assert (found["event"], found["namespace"], found["limit"]) == ("overrideEnds", "team-a", "nvidia.com/gpu=7")


def test_an_override_with_another_end_is_another_condition() -> None:
    text = CAP + "  overrides: [{hard: {nvidia.com/gpu: 6}, until: 2026-12-04T18:00:00Z}]\n"
    first, second = (_observe(create_active_replica(each)) for each in (text, text.replace("T18", "T17")))
    assert not first.conditions.keys() & second.conditions.keys()


@pytest.mark.parametrize(
    ("is_ready", "detail", "reason"),
    [
        (True, {}, None),
        (False, {}, "not ready"),
        (True, {"failure": "cap gpus team-a: refused"}, "cap gpus team-a: refused"),
        (True, {"leader": True, "failure": ""}, None),
        (True, {"broken": ["a.yaml:1:1: error: x", "b"]}, "a.yaml:1:1: error: x"),
        (True, {"pods": {"objects": 3, "stale": "no events for 60 s"}, "nodes": {}}, "pods no events for 60 s"),
        (False, {"problem": "no nodes are known here"}, "no nodes are known here"),
        (True, {"notAfter": (END + timedelta(days=7)).isoformat()}, None),
        (True, {"notAfter": (END + timedelta(days=6)).isoformat()}, "the certificate ends at 2026-12-10T18:00Z"),
    ],
)
def test_a_check_is_a_condition_if_it_is_not_ready_or_shows_a_failure(
    *, is_ready: bool, detail: dict[str, Any], reason: str | None
) -> None:
    observed = list_gate_conditions([("part", is_ready, detail)], END)
    expected = [] if reason is None else [{"event": "gateDegraded", "check": "part", "reason": reason}]
    assert _list_fields(observed) == expected


def test_a_certificate_ends_soon_as_the_alert_has_it() -> None:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    alerts = {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"] if "alert" in rule}
    assert f"< {MIN_CERTIFICATE_SECONDS // 86400} * 86400" in alerts["TallygateCertificateExpires"]
