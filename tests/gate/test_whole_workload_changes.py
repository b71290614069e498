"""Workloads under a cap with `admit: whole` that change, move with their namespace, or may exceed it."""

from copy import deepcopy

import pytest

from tallygate.state.ledger.expire import GANG_BOUND_SECONDS
from tallygate.state.ports import LedgerKey
from tests.gate.gate_fixture import GPU, SHARED
from tests.gate.replica_fixture import BOUND, ReplicaFixture, create_active_replica
from tests.gate.test_whole_workloads import WHOLE, create_job, create_owner, request_pod, review
from tests.state.transitions import Read

_RECONCILIATIONS = 3  # the bound, a write after it, a live read after that
_GROUPED = WHOLE.replace('{include: ["team-*"]}', '{include: ["team-*"]}\n  groupBy: {label: team}')
_SHARED_WHOLE = SHARED + "  admit: whole\n"
_WEIGHTED = WHOLE.replace("nvidia.com/gpu: 4", "slices: 14") + "  counts: {slices: {weights: {nvidia.com/gpu: 7}}}\n"


def let_pass(replica: ReplicaFixture, seconds: float) -> None:
    """Let seconds pass between the observation of a ledger and its reconciliations."""
    replica.reconcile()
    replica.reconcile(seconds)
    for _ in range(_RECONCILIATIONS):
        replica.reconcile()


def test_a_job_that_a_client_creates_again_has_another_uid_and_the_first_reservation_ends_with_the_bound() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job("again", 2)) == (200, "")  # and the API server stores nothing
    second = create_job("again", 2)
    second["metadata"]["uid"] = "uid-second"
    assert review(replica, second) == (200, "")
    assert replica.count_gpus() == (0, 4)
    let_pass(replica, BOUND)
    assert set(replica.read_ledger().reservations) == {"uid-second"}


def test_a_job_with_a_generated_name_is_read_by_the_name_that_it_got() -> None:
    replica = create_active_replica(WHOLE)
    job = create_job("train-x7k2p", 3)
    job["metadata"]["generateName"] = "train-"
    assert review(replica, job) == (200, "")
    assert replica.read_ledger().reservations["uid-train-x7k2p"].name == "train-x7k2p"
    let_pass(replica, BOUND)
    assert replica.count_gpus() == (0, 3)


def test_a_job_that_is_deleted_leaves_what_its_pods_took_over_until_they_are_counted_or_expire() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    assert request_pod(replica, "p0", create_owner())[0] == 200
    assert request_pod(replica, "p1", create_owner())[0] == 200
    replica.stored.objects.clear()
    replica.store_pod("p0")
    replica.observe("p0")
    let_pass(replica, BOUND)
    assert replica.count_gpus() == (1, 0)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(BOUND, 4, id="and its pods may still come by the earlier number"),
        pytest.param(BOUND + GANG_BOUND_SECONDS, 0, id="and no further pod came"),
    ],
)
def test_a_job_that_starts_fewer_pods_gives_the_rest_back_when_its_reservation_ends(
    seconds: float, expected: int
) -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    assert review(replica, create_job(pods=1), oldObject=create_job()) == (200, "")
    let_pass(replica, seconds)
    assert replica.count_gpus() == (0, expected)


def test_a_template_that_requests_more_reserves_the_difference() -> None:
    replica = create_active_replica(WHOLE)
    before = create_job("groups", 2)
    assert review(replica, before) == (200, "")
    after = deepcopy(before)
    resources = after["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["requests"][GPU] = resources["limits"][GPU] = "2"
    assert review(replica, after, oldObject=before) == (200, "")
    assert replica.count_gpus() == (0, 4)
    assert review(replica, create_job("other", 1))[0] == 403


def test_a_pod_that_requests_nothing_of_the_cap_is_admitted_although_its_owner_cannot_be_read() -> None:
    replica = create_active_replica(WHOLE)
    replica.stored.unreadable.add("jobs")
    assert request_pod(replica, "idle", create_owner(), gpus=0)[0] == 200
    assert replica.stored.reads == 0


def test_the_pods_of_a_job_that_may_exceed_the_cap_take_over_as_others_do() -> None:
    replica = create_active_replica(WHOLE + "  exceed: {users: [admin]}\n")
    assert review(replica, create_job(pods=6))[0] == 403
    assert review(replica, create_job(pods=6), userInfo={"username": "admin"}) == (200, "")
    assert [request_pod(replica, f"p{index}", create_owner())[0] for index in range(6)] == [200] * 6
    assert request_pod(replica, "another", create_owner())[0] == 403


def test_a_name_with_weights_is_reserved_for_all_pods() -> None:
    replica = create_active_replica(_WEIGHTED)
    code, message = review(replica, create_job(pods=3))
    assert (code, "its 3 pods request 21 slices" in message) == (403, True)
    assert review(replica, create_job(pods=2)) == (200, "")
    assert [request_pod(replica, f"p{index}", create_owner())[0] for index in range(2)] == [200] * 2
    assert request_pod(replica, "third", create_owner())[0] == 403


def test_a_tenant_reserves_at_most_one_workload_beyond_its_share_of_a_shared_cap() -> None:
    replica = ReplicaFixture(_SHARED_WHOLE, ("team-a", "team-b"))
    replica.activate_ledgers()
    assert review(replica, create_job("first", 3)) == (200, "")
    code, message = review(replica, create_job("second", 1))
    assert (code, "too much is reserved for pods of this namespace" in message) == (429, True)
    assert review(replica, create_job("third", 1), namespace="team-b") == (200, "")
    let_pass(replica, BOUND + GANG_BOUND_SECONDS)
    assert replica.read_ledger().reserved == {}
    assert review(replica, create_job("fourth", 4), namespace="team-b") == (200, "")


def test_a_namespace_that_moves_to_another_group_leaves_its_reservations_behind_until_they_end() -> None:
    replica = ReplicaFixture(_GROUPED)
    for team in ("blue", "red"):
        replica.label_namespace("team-a", team=team)
        replica.activate_ledgers()
    (grouped,) = replica.caps.list_caps()
    former, entered = (LedgerKey(f"{grouped.key}={team}", "") for team in ("red", "blue"))
    assert review(replica, create_job(pods=3)) == (200, "")
    assert request_pod(replica, "p0", create_owner())[0] == 200
    replica.label_namespace("team-a", team="blue")
    assert request_pod(replica, "p1", create_owner(), gpus=4)[0] == 200, "the new group has nothing reserved"
    assert (_count_reserved(replica, former), _count_reserved(replica, entered)) == (3, 4)
    for seconds in (0.0, BOUND + GANG_BOUND_SECONDS, *[0.0] * _RECONCILIATIONS):
        replica.now += seconds
        for key in (former, entered):
            cap = replica.caps.find_cap(key.cap)
            assert cap is not None
            replica.reconciler.reconcile(key, cap)
    assert (_count_reserved(replica, former), _count_reserved(replica, entered)) == (0, 0)


def _count_reserved(replica: ReplicaFixture, key: LedgerKey) -> int:
    ledger = replica.ledgers.transact(key, Read(), replica.now + 1)
    return 0 if ledger is None else ledger.reserved.get(GPU, 0)
