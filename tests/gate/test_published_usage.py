"""The usage of caps as their member namespaces see it: amounts, ends of limits, states, and no names of others."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_sources import CapSources
from tallygate.admission.capacity_limits import Capacity
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.consumers import ClaimSources
from tallygate.gate.ledger_usages import LedgerUsages
from tallygate.gate.published_usage import UsagePublisher
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GPU, SHARED
from tests.gate.replica_fixture import ReplicaFixture, create_active_replica
from tests.gate.test_cap_groups import create_replica, store_pod
from tests.state.transitions import Read

RAISED = CAP + "  overrides: [{namespaces: [team-a], hard: {nvidia.com/gpu: 6}, until: 2026-12-04T18:00:00Z}]\n"
SOFT = CAP + "  soft: {nvidia.com/gpu: 3, memory: 64Gi}\n"


def create_state(replica: ReplicaFixture) -> ClusterState:
    """Return the cluster as the replica watches it."""
    state = ClusterState()
    state.pods, state.namespaces, state.usage_lister = replica.pods, replica.namespaces, replica.usage_lister
    state.sources = ClaimSources(replica.pods, state.claims, state.devices)
    return state


def list_ledgers(replica: ReplicaFixture) -> dict[LedgerKey, Ledger]:
    """Return the ledgers of a replica, as it has them."""
    names = [record.name for record in replica.namespaces.list_records()]
    keys = [key for key, _ in replica.reconciler.list_ledgers(names)]
    found = {key: replica.ledgers.transact(key, Read(), replica.now + 1) for key in keys}
    return {key: ledger for key, ledger in found.items() if ledger is not None}


def _list_statuses(replica: ReplicaFixture, *, ledgers: bool = True) -> dict[str, Any]:
    """Return the published statuses as JSON values, by namespace and cap."""
    replica.follow_gate()
    state = create_state(replica)

    def list_known() -> dict[LedgerKey, Ledger]:
        return list_ledgers(replica) if ledgers else {}

    publisher = UsagePublisher(LedgerUsages(state, replica.gate.get_active_caps, list_known))
    return {"/".join(key): msgspec.to_builtins(status) for key, status in publisher.list_statuses().items()}


def test_used_and_reserved_amounts_are_those_of_the_ledger() -> None:
    replica = create_active_replica(SOFT)
    store_pod(replica, "p", 2, "team-a")
    replica.reconcile()
    assert replica.request_pod("q") == 200
    assert _list_statuses(replica) == {
        "team-a/gpus": {
            "state": "active",
            "sharing": "none",
            "namespaces": 1,
            "resources": [
                {"name": "memory", "soft": "64Gi", "used": "0", "reserved": "0"},
                {"name": GPU, "hard": "4", "soft": "3", "used": "2", "reserved": "1", "free": "1"},
            ],
            "summary": {
                "used": f"memory 0, {GPU} 2/4",
                "reserved": f"memory 0, {GPU} 1",
                "free": f"{GPU} 1",
            },
        }
    }


def test_a_raise_has_its_end_and_the_limit_after_it() -> None:
    replica = create_active_replica(RAISED)
    replica.utc = datetime(2026, 12, 4, 17, tzinfo=UTC)
    replica.follow_gate()
    replica.reconcile()
    status = _list_statuses(replica)["team-a/gpus"]
    (resource,) = status["resources"]
    assert resource == {
        "name": GPU,
        "hard": "6",
        "used": "0",
        "reserved": "0",
        "free": "6",
        "until": "2026-12-04T18:00:00Z",
        "later": "4",
    }
    assert status["summary"]["until"] == "2026-12-04T18:00Z"
    replica.utc = datetime(2026, 12, 4, 18, tzinfo=UTC)
    replica.reconcile()
    (resource,) = _list_statuses(replica)["team-a/gpus"]["resources"]
    assert resource == {"name": GPU, "hard": "4", "used": "0", "reserved": "0", "free": "4"}


def test_a_share_has_the_time_at_which_less_capacity_acts_and_the_limit_from_then_on() -> None:
    replica = create_active_replica(CAP.replace(f"{GPU}: 4", f"{GPU}: 25%"))
    falls_at = datetime(2026, 12, 4, 18, tzinfo=UTC)
    for capacity, expected in (
        (Capacity(16, 8, falls_at), {"hard": "4", "free": "4", "until": "2026-12-04T18:00:00Z", "later": "2"}),
        (Capacity(16, 15, falls_at), {"hard": "4", "free": "4", "until": "2026-12-04T18:00:00Z", "later": "3"}),
        (Capacity(17, 16, falls_at), {"hard": "4", "free": "4"}),
        (Capacity(8), {"hard": "2", "free": "2"}),
    ):
        replica.cap_sources = CapSources(capacities={"gpus": {GPU: capacity}})
        replica.follow_gate()
        replica.reconcile()
        (resource,) = _list_statuses(replica)["team-a/gpus"]["resources"]
        assert resource == {"name": GPU, "used": "0", "reserved": "0"} | expected


def test_what_is_guaranteed_to_others_is_not_free_for_a_member() -> None:
    text = f"{SHARED}  guarantee: [{{namespaces: [team-b], amounts: {{{GPU}: 3}}}}]\n"
    replica = ReplicaFixture(text, ("team-a", "team-b"))
    replica.activate_ledgers()
    store_pod(replica, "p", 1, "team-b")
    for _ in range(2):
        replica.reconcile()
    statuses = _list_statuses(replica)
    free = {key: (status["resources"][0]["free"], status["summary"]["free"]) for key, status in statuses.items()}
    assert free == {"team-a/gpus": ("1", f"{GPU} 1"), "team-b/gpus": ("3", f"{GPU} 3")}


@pytest.mark.parametrize("text", [SHARED, "grouped"])
def test_namespaces_that_share_a_cap_see_its_amounts_and_no_name_of_each_other(text: str) -> None:
    if text == "grouped":
        replica = create_replica(team_a="vision", team_b="vision", team_c="speech")
    else:
        replica = ReplicaFixture(text, ("team-a", "team-b"))
        replica.activate_ledgers()
    store_pod(replica, "p", 3, "team-b")
    replica.reconcile()
    statuses = _list_statuses(replica)
    status = statuses["team-a/gpus"]
    assert status == statuses["team-b/gpus"]
    assert (status["sharing"], status["namespaces"]) == ("group" if text == "grouped" else "namespaces", 2)
    assert status["resources"] == [{"name": GPU, "hard": "4", "used": "3", "reserved": "0", "free": "1"}]
    assert "team-" not in str(status)
    if text == "grouped":
        assert statuses["team-c/gpus"]["resources"][0]["used"] == "0"


def test_a_new_cap_counts_first_from_pods_and_says_when_it_is_active() -> None:
    replica = ReplicaFixture(CAP)
    replica.record.is_active = False
    store_pod(replica, "p", 5, "team-a")
    replica.reconcile()
    status = _list_statuses(replica)["team-a/gpus"]
    assert status["state"] == "new"
    assert status["resources"] == [{"name": GPU, "hard": "4", "used": "5", "reserved": "0", "free": "0"}]
    assert status["activeFrom"].endswith("Z")


def test_a_lost_ledger_is_initializing_and_counted_from_pods() -> None:
    replica = ReplicaFixture(CAP)
    store_pod(replica, "p", 1, "team-a")
    replica.reconcile()
    status = _list_statuses(replica)["team-a/gpus"]
    assert (status["state"], status["resources"][0]["used"]) == ("initializing", "1")


def test_a_status_is_made_again_only_if_its_ledger_or_its_limits_are_others() -> None:
    replica = create_active_replica(CAP)
    state, ledger = create_state(replica), replica.read_ledger()
    ledgers = {next(key for key, _ in replica.reconciler.list_ledgers(["team-a"])): ledger}
    publisher = UsagePublisher(LedgerUsages(state, replica.gate.get_active_caps, lambda: ledgers))
    (first,) = publisher.list_statuses().values()
    (second,) = publisher.list_statuses().values()
    assert second is first
    ledgers = dict.fromkeys(ledgers, replace(ledger, used=Amounts({GPU: 2})))
    (third,) = publisher.list_statuses().values()
    assert third is not None
    assert third.summary.used == f"{GPU} 2/4"
    replica.policies = parse_policies(CAP.replace("gpu: 4", "gpu: 3"))
    (fourth,) = publisher.list_statuses().values()
    assert fourth is not None
    assert fourth.summary.used == f"{GPU} 2/3"


def test_namespaces_that_no_cap_counts_have_no_status_and_unknown_ledgers_none_yet() -> None:
    replica = create_active_replica(CAP)
    replica.label_namespace("other")
    assert _list_statuses(replica).keys() == {"team-a/gpus"}
    assert _list_statuses(replica, ledgers=False) == {"team-a/gpus": None}
