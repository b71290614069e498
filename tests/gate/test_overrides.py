"""Overrides of limits at the gate: until their end in each replica, in one ledger, with their end in the messages."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tallygate.admission.request import Phase
from tallygate.state.ports import LedgerKey
from tests.gate.gate_fixture import CAP, GPU, GateFixture, read_facts
from tests.gate.replica_fixture import ReplicaFixture, create_active_replica

END = datetime(2026, 12, 4, 18, tzinfo=UTC)
BEFORE, SECOND = END - timedelta(hours=1), timedelta(seconds=1)
RAISED = CAP + "  overrides: [{namespaces: [team-a], hard: {nvidia.com/gpu: 6}, until: 2026-12-04T18:00:00Z}]\n"
LOWERED = RAISED.replace("gpu: 6", "gpu: 2")
BY_TEAM = CAP.replace("hard:", "groupBy: {label: team}\n  hard:") + (
    "  overrides: [{groups: [vision], hard: {nvidia.com/gpu: 6}, until: 2026-12-04T18:00:00Z}]\n"
)


def _create_replica(text: str, utc: datetime = BEFORE) -> ReplicaFixture:
    """Return an active replica whose leader has written the limits of a time."""
    replica = create_active_replica(text)
    replica.follow_gate()
    replica.utc = utc
    replica.reconcile()
    return replica


def _read_message(gate: GateFixture, gpus: int) -> str:
    status = json.loads(gate.create(gpus).body)["response"].get("status") or {}
    return str(status.get("message", ""))


def test_a_raise_ends_by_itself_and_its_pods_stay() -> None:
    replica = _create_replica(RAISED)
    for uid in ("u1", "u2", "u3", "u4", "u5"):
        assert replica.request_pod(uid) == 200
        replica.store_pod(uid)
        replica.observe(uid)
    replica.utc = END - SECOND
    assert replica.request_pod("u6") == 200
    replica.utc = END
    assert replica.request_pod("u7") == 403
    replica.reconcile()
    assert replica.read_ledger().hard == {GPU: 4}
    assert replica.count_gpus() == (5, 1), "the ledger goes on, without a new count"
    for uid in ("u1", "u2"):
        replica.delete_pod(uid)
    assert replica.request_pod("u8") == 403
    replica.delete_pod("u3")
    assert replica.request_pod("u9") == 200


def test_a_raise_is_active_once_the_leader_has_written_it() -> None:
    """Apply the smaller limit (rule 8): this replica alone knows of the raise at first."""
    replica = create_active_replica(RAISED)
    replica.utc = BEFORE
    assert [replica.request_pod("u1", 4), replica.request_pod("u2")] == [200, 403]
    replica.follow_gate()
    replica.reconcile()
    assert replica.request_pod("u2") == 200


@pytest.mark.parametrize("leader_is_ahead", [True, False])
def test_replicas_with_different_clocks_apply_the_smaller_limit_between_both_ends(*, leader_is_ahead: bool) -> None:
    """Write the limits by the clock of the leader, and reserve by that of another replica."""
    replica, skew = _create_replica(RAISED), timedelta(minutes=2)
    leader, other = (END, END - skew) if leader_is_ahead else (END - SECOND, END + skew)
    replica.utc = leader
    replica.reconcile()
    replica.utc = other
    assert [replica.request_pod("u1", 4), replica.request_pod("u2")] == [200, 403]


def test_a_lower_limit_ends_by_itself() -> None:
    replica = _create_replica(LOWERED)
    assert [replica.request_pod("u1", 2), replica.request_pod("u2")] == [200, 403]
    replica.utc = END
    assert replica.request_pod("u2") == 403, "the leader has not written the limit yet"
    replica.reconcile()
    assert replica.request_pod("u2", 2) == 200


def test_a_clock_that_is_set_back_brings_the_raise_back() -> None:
    replica = _create_replica(RAISED, END)
    assert [replica.request_pod("u1", 4), replica.request_pod("u2")] == [200, 403]
    replica.utc = END - SECOND
    replica.reconcile()
    assert replica.request_pod("u2", 2) == 200


def test_an_end_starts_no_ledger_and_no_count() -> None:
    """Check the keys, and the time since which each cap is active: a change of policies that adds a cap resets it."""
    replica = _create_replica(RAISED)
    before = replica.gate.get_active_caps()
    (cap,) = before.list_caps()
    revisions = replica.usage_lister.get_required_revisions(cap)
    replica.utc = END
    replica.now += 10.0
    replica.revision += 50
    after = replica.gate.get_active_caps()
    assert after is not before
    assert after is replica.gate.get_active_caps(), "once for each end"
    assert [each.active_key for each in after.list_caps()] == [cap.active_key]
    assert replica.usage_lister.get_required_revisions(after.list_caps()[0]) == revisions
    assert replica.request_pod("u1") == 200


def test_a_group_has_its_own_limit() -> None:
    replica = ReplicaFixture(BY_TEAM)
    replica.utc = BEFORE
    replica.follow_gate()
    for name, team in (("team-a", "vision"), ("team-b", "speech")):
        replica.label_namespace(name, team=team)
    replica.activate_ledgers()
    assert replica.request_pod("u1", 6, "team-a") == 200
    assert [replica.request_pod("u2", 4, "team-b"), replica.request_pod("u3", 1, "team-b")] == [200, 403]
    (template,) = replica.gate.get_active_caps().list_caps()
    limits = [replica.gate.get_active_caps().find_cap(f"{template.key}={team}") for team in ("vision", "speech")]
    assert [cap.hard[GPU] for cap in limits if cap] == [6, 4]


@pytest.mark.parametrize(
    ("text", "utc", "charged", "requested", "expected"),
    [
        (RAISED, BEFORE, 6, 1, "used=0 reserved=6 hard=6 2026-12-04T18:00Z 4 free=0"),
        (RAISED, END, 4, 1, "used=0 reserved=4 hard=4 6 2026-12-04T18:00Z free=0"),
        (LOWERED, BEFORE, 0, 3, "hard=2 2026-12-04T18:00Z 4 free=2 2 TG201"),
        (
            LOWERED,
            BEFORE,
            2,
            3,
            "hard=2 2026-12-04T18:00Z 4 free=0 2 TG201",
        ),
        (LOWERED, BEFORE, 0, 5, "hard=2 2026-12-04T18:00Z 4 free=2 2 TG201"),
        (LOWERED, END, 0, 5, "hard=4 2 2026-12-04T18:00Z free=4 4 TG201"),
    ],
)
def test_a_denial_names_the_end_of_the_limit(
    text: str, utc: datetime, charged: int, requested: int, expected: str
) -> None:
    gate = GateFixture(text.replace("namespaces: [team-a], ", ""))
    gate.utc = utc
    if charged:
        gate.create(charged)
    message = _read_message(gate, requested)
    assert expected in read_facts(message)
    assert ("limit is larger" in message) is (requested == 3)


def _deployment(replicas: int) -> dict[str, object]:
    container = {"name": "c", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


@pytest.mark.parametrize(
    ("text", "utc", "replicas", "allowed", "expected"),
    [
        (RAISED, BEFORE, 5, True, ""),
        (RAISED, END, 5, False, "hard=4 6 2026-12-04T18:00Z 4"),
        (RAISED, BEFORE, 7, False, "hard=6 2026-12-04T18:00Z 4 6"),
        (LOWERED, BEFORE, 4, True, "2026-12-04T18:00Z 4 TG204"),
        (LOWERED, BEFORE, 5, False, "hard=2 2026-12-04T18:00Z 4 2"),
        (LOWERED.replace("gpu: 2", "gpu: 0"), BEFORE, 4, True, "2026-12-04T18:00Z 4 TG204"),
    ],
)
def test_a_workload_is_denied_only_if_no_limit_from_now_on_allows_it(
    text: str, utc: datetime, replicas: int, *, allowed: bool, expected: str
) -> None:
    gate = GateFixture(text + "  workloads: deny\n")
    gate.utc = utc
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    body = json.loads(gate.admit(_deployment(replicas), Phase.VALIDATING, kind=kind, name="d").body)["response"]
    assert body["allowed"] is allowed
    texts = " ".join([*body.get("warnings", ()), str((body.get("status") or {}).get("message", ""))])
    assert expected in read_facts(texts)
    assert ("hard" in texts) is bool(expected)


def test_the_ledger_of_another_namespace_keeps_its_limit() -> None:
    replica = ReplicaFixture(RAISED, ("team-a", "team-b"))
    replica.follow_gate()
    replica.utc = BEFORE
    replica.activate_ledgers()
    assert [replica.read_ledger(name).hard[GPU] for name in ("team-a", "team-b")] == [6, 4]
    (cap,) = replica.gate.get_active_caps().list_caps()
    assert replica.gate.get_active_caps().find_cap(LedgerKey(cap.key, "team-b").cap, "team-b") is cap
