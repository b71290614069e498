"""Guarantees at the gate (rule 15): what others request leaves them free, and messages tell whose they are."""

import json
import random
from collections.abc import Mapping, Sequence

import pytest

from tallygate.review.cap_messages import hide_top_namespaces
from tests.admission.case import parse_policies
from tests.effort import examples
from tests.gate.gate_fixture import CAP, GateFixture
from tests.gate.replica_fixture import ReplicaFixture
from tests.state.informers.pods import pod as stored_pod

_GUARANTEE = """  guarantee:
  - {namespaces: [team-a], amounts: {nvidia.com/gpu: 3}}
  - {namespaces: ["team-*"], amounts: {nvidia.com/gpu: 12.5%}}
"""
_SHARED = CAP.replace("gpu: 4", "gpu: 8").replace("hard:", "shared: true\n  hard:")
_GUARANTEED = _SHARED + _GUARANTEE
_TEAMS = ("team-a", "team-b", "team-c")


def _create_replica(text: str = _GUARANTEED, namespaces: Sequence[str] = _TEAMS) -> ReplicaFixture:
    replica = ReplicaFixture(text, tuple(namespaces))
    replica.activate_ledgers()
    return replica


def _store(replica: ReplicaFixture, uid: str, gpus: int, namespace: str) -> None:
    assert replica.request_pod(uid, gpus, namespace) == 200
    replica.store_pod(uid, gpus, namespace)
    replica.observe(uid)


def _read_message(fixture: GateFixture, gpus: int, namespace: str) -> str:
    requested = stored_pod(f"big-{namespace}", 0, str(gpus), namespace)
    response = json.loads(fixture.admit(requested, namespace=namespace, name=f"pod-big-{namespace}").body)["response"]
    return str((response.get("status") or {}).get("message", ""))


def test_others_leave_the_unspent_guarantees_free_and_the_owner_gets_his() -> None:
    replica = _create_replica()
    _store(replica, "b1", 2, "team-b")
    _store(replica, "b2", 2, "team-b")
    assert replica.request_pod("b3", 1, "team-b") == 403, "3 are for team-a and 1 for team-c"
    assert replica.request_pod("c1", 1, "team-c") == 200
    assert replica.request_pod("c2", 1, "team-c") == 403
    assert replica.request_pod("a1", 3, "team-a") == 200
    assert replica.request_pod("a2", 1, "team-a") == 403


def test_a_message_tells_whose_guarantees_are_in_the_way() -> None:
    replica = _create_replica()
    _store(replica, "b1", 2, "team-b")
    _store(replica, "b2", 2, "team-b")
    message = _read_message(replica, 2, "team-b")
    assert "hard 8, free 4, of which 4 are guaranteed to namespace team-a, namespace team-c" in message
    assert message.endswith("Wait until pods end (TG201, cap gpus)")
    assert "guaranteed to other namespaces; top" not in message
    assert "guaranteed to other namespaces. " in hide_top_namespaces(message)
    assert "team-a" not in hide_top_namespaces(message)


def test_a_message_suggests_no_more_than_others_leave() -> None:
    replica = _create_replica()
    assert "Request 4 or less" in _read_message(replica, 5, "team-b")
    assert "free 8, of which 4 are guaranteed" in _read_message(replica, 5, "team-b")
    _store(replica, "b1", 1, "team-b")
    assert "Request 3 or less, or wait until pods end" in _read_message(replica, 4, "team-b")


def test_a_message_names_no_namespaces_where_tenants_must_not_know_of_each_other() -> None:
    replica = _create_replica(_GUARANTEED + "  showTopConsumers: false\n")
    assert ", of which 4 are guaranteed to other namespaces. " in _read_message(replica, 5, "team-b")


def test_a_rejection_for_a_guarantee_is_not_repeated_for_its_owner() -> None:
    replica = _create_replica()
    _store(replica, "b1", 4, "team-b")
    assert replica.request_pod("b2", 1, "team-b") == 403
    assert replica.request_pod("a1", 3, "team-a") == 200


def test_the_leader_writes_guarantees_and_the_use_of_their_namespaces() -> None:
    replica = _create_replica()
    _store(replica, "b1", 2, "team-b")
    replica.reconcile()
    guarantees = replica.read_ledger().guarantees
    assert guarantees.amounts == {name: {"nvidia.com/gpu": 3 if name == "team-a" else 1} for name in _TEAMS}
    assert guarantees.used == {"team-a": {}, "team-b": {"nvidia.com/gpu": 2}, "team-c": {}}


def test_a_replica_without_the_guarantees_keeps_those_of_the_ledger() -> None:
    replica = _create_replica()
    replica.policies = parse_policies(_SHARED)
    assert replica.request_pod("b1", 5, "team-b") == 403
    assert replica.request_pod("b2", 4, "team-b") == 200


def test_a_replica_keeps_guarantees_that_the_ledger_does_not_have_yet() -> None:
    replica = _create_replica(_SHARED)
    replica.policies = parse_policies(_GUARANTEED)
    assert replica.read_ledger().guarantees.amounts == {}
    assert replica.request_pod("b1", 5, "team-b") == 403
    assert replica.request_pod("b2", 4, "team-b") == 200


def test_a_namespace_that_is_no_member_any_more_has_no_guarantee() -> None:
    replica = _create_replica()
    replica.delete_namespace("team-c")
    assert replica.request_pod("b1", 5, "team-b") == 200
    assert replica.read_ledger().guarantees.amounts.keys() <= {"team-a", "team-b"}


def test_a_guarantee_of_more_than_a_quarter_is_reserved_at_once() -> None:
    replica = _create_replica()
    assert [replica.request_pod(f"a{number}", 1, "team-a") for number in range(3)] == [200, 200, 200]
    assert [replica.request_pod(f"b{number}", 1, "team-b") for number in range(3)] == [200, 200, 429]


def test_without_a_watch_the_named_namespaces_have_their_guarantees() -> None:
    fixture = GateFixture(_GUARANTEED)
    assert "free 8, of which 3 are guaranteed to namespace team-a" in _read_message(fixture, 6, "team-b")
    assert not _read_message(fixture, 5, "team-b")
    assert "free 3; top consumers" in _read_message(fixture, 4, "team-a")


def _draw_policy(choose: random.Random) -> tuple[str, int, dict[str, int]]:
    """Return a cap, its limit and the guarantees of teams by plain arithmetic."""
    hard, entries, guaranteed = choose.randint(4, 40), [], dict[str, int]()
    for _ in range(choose.randint(1, 3)):
        names = choose.sample(_TEAMS, choose.randint(1, 2)) if choose.random() < 0.6 else ["team-*"]
        percent, amount = choose.randint(0, 40_000), choose.randint(0, hard // 2)
        is_share = choose.random() < 0.5
        text = f"{percent // 1000}.{percent % 1000:03}%" if is_share else f"{amount}"
        entries.append(f"  - {{namespaces: {json.dumps(names)}, amounts: {{nvidia.com/gpu: {text}}}}}")
        for team in _TEAMS if names == ["team-*"] else names:
            guaranteed.setdefault(team, hard * percent // 100_000 if is_share else amount)
    text = CAP.replace("gpu: 4", f"gpu: {hard}")
    return text + "  guarantee:\n" + "\n".join(entries) + "\n", hard, guaranteed


def _compute_excess(pods: Mapping[str, tuple[str, int]], hard: int, guaranteed: Mapping[str, int], own: str) -> int:
    """Return what pods exceed the limit by, with the unspent guarantees of all others."""
    charged = dict.fromkeys(_TEAMS, 0)
    for team, gpus in pods.values():
        charged[team] += gpus
    unspent = (max(0, amount - charged[team]) for team, amount in guaranteed.items() if team != own)
    return sum(charged.values()) + sum(unspent) - hard


@pytest.mark.parametrize("start", range(0, 500, 100), ids=lambda start: f"from {start}")
def test_drawn_caps_decide_as_plain_arithmetic_over_all_pods(start: int) -> None:
    for seed in range(start, start + examples(100)):
        choose = random.Random(seed)  # noqa: S311  # reproducible
        text, hard, guaranteed = _draw_policy(choose)
        is_grouped = choose.random() < 0.5
        sharing = "groupBy: {label: team}" if is_grouped else "shared: true"
        replica = ReplicaFixture(text.replace("hard:", f"{sharing}\n  hard:"), () if is_grouped else _TEAMS)
        for team in _TEAMS if is_grouped else ():
            replica.label_namespace(team, team="vision")
        replica.activate_ledgers()
        pods: dict[str, tuple[str, int]] = {}
        for number in range(12):
            team, gpus, uid = choose.choice(_TEAMS), choose.randint(1, max(1, hard // 4)), f"p{number}"
            status = replica.request_pod(uid, gpus, team)
            excess = _compute_excess({**pods, uid: (team, gpus)}, hard, guaranteed, team)
            assert status == (403 if excess > 0 else 200), (seed, text, pods, team, gpus)
            if status == 200:
                pods[uid] = team, gpus
                replica.store_pod(uid, gpus, team)
                replica.observe(uid)
            if pods and choose.random() < 0.3:
                deleted = choose.choice(sorted(pods))
                del pods[deleted]
                replica.delete_pod(deleted)
            if choose.random() < 0.7:
                replica.reconcile()
