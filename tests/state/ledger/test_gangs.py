"""Rule 11: the pods of a workload take over what is reserved for all of them, and give it back if never stored."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.expire import GANG_BOUND_SECONDS, LiveRead, ReservationAges, expire
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ledger.reserve import Prerequisite, ReservationRequest, WorkloadTerms, release
from tests.state.ledger.ledger_builders import (
    create_request,
    create_snapshot,
    empty_ledger,
    expect_deferred,
    expect_exceeded,
    expect_recount,
    expect_reserved,
    gpus,
)

B = 40.0
JOB = WorkloadTerms("batch/v1/Job")


def create_job(size: int = 4, uid: str = "job", by: str = "j1", old: int = 0, hard: int = 4) -> ReservationRequest:
    """Return the request of a workload whose pods have this many GPUs together."""
    return create_request(uid, size, old, by, hard, workload=JOB)


def create_pod(
    uid: str = "p1", size: int = 1, by: str = "", owners: Sequence[str] = ("job",), hard: int = 4
) -> ReservationRequest:
    """Return the request of a new pod with these controllers."""
    return create_request(uid, size, by=by or f"n-{uid}", hard=hard, workload=WorkloadTerms(owner_uids=tuple(owners)))


def reserve_all(ledger: Ledger, *requests: ReservationRequest) -> Ledger:
    """Reserve one request after the other."""
    for request in requests:
        ledger = expect_reserved(ledger, request)
    return ledger


def find_left(ledger: Ledger, uid: str = "job") -> int:
    """Return the GPUs that are left of the reservation of a workload; 0 without one."""
    reservation = ledger.reservations.get(uid)
    return reservation.compute_reserved().get("nvidia.com/gpu", 0) if reservation is not None else 0


def test_a_workload_reserves_for_all_its_pods() -> None:
    ledger = reserve_all(empty_ledger(), create_job())
    assert (ledger.compute_charged(), ledger.reservations["job"].kind) == (gpus(4), ConsumerKind.WORKLOAD)
    assert ledger.reservations["job"].workload_kind == "batch/v1/Job"


def test_a_workload_that_has_no_room_for_all_its_pods_reserves_nothing() -> None:
    assert expect_exceeded(empty_ledger(used=gpus(1)), create_job()) == gpus(1)


def test_a_pod_takes_over_its_amount_and_the_charge_stays() -> None:
    ledger = reserve_all(empty_ledger(), create_job(), create_pod())
    assert (ledger.compute_charged(), find_left(ledger)) == (gpus(4), 3)
    assert (ledger.reservations["p1"].workload, ledger.reservations["p1"].taken) == ("job", gpus(1))


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param((), id="without a controller"),
        pytest.param(("other",), id="of another workload"),
        pytest.param(("pod-x",), id="of a pod with a reservation"),
    ],
)
def test_a_pod_takes_over_nothing(owners: tuple[str, ...]) -> None:
    ledger = reserve_all(empty_ledger(hard=5), create_job(hard=5), create_pod("pod-x", owners=(), hard=5))
    assert expect_exceeded(ledger, create_pod(owners=owners, hard=5)) == gpus(1)


def test_a_pod_finds_its_workload_behind_nearer_controllers() -> None:
    ledger = reserve_all(empty_ledger(), create_job(), create_pod(owners=("replicated-job", "job")))
    assert find_left(ledger) == 3


def test_a_pod_that_is_larger_than_what_is_left_needs_room_for_the_rest() -> None:
    ledger = reserve_all(empty_ledger(), create_job(3))
    assert expect_exceeded(ledger, create_pod(size=5)) == gpus(1)
    ledger = reserve_all(ledger, create_pod(size=4))
    assert (ledger.compute_charged(), find_left(ledger)) == (gpus(4), 0)


def test_a_pod_takes_over_its_amount_under_a_limit_that_is_lower_now() -> None:
    ledger = replace(reserve_all(empty_ledger(), create_job()), hard=gpus(1))
    assert reserve_all(ledger, create_pod(hard=1)).compute_charged() == gpus(4)


def test_a_second_attempt_of_a_pod_takes_over_nothing_more() -> None:
    ledger = reserve_all(empty_ledger(), create_job(), create_pod(), create_pod(by="n2"))
    assert (ledger.compute_charged(), find_left(ledger), ledger.reservations["p1"].taken) == (gpus(4), 3, gpus(1))


def test_an_attempt_that_arrives_after_its_pod_is_counted_takes_over_nothing() -> None:
    ledger = expect_recount(reserve_all(empty_ledger(), create_job(3), create_pod()), create_snapshot(9, {"p1": 1}))
    late = reserve_all(ledger, create_pod(by="n2"))
    assert (late.compute_charged(), find_left(late)) == (gpus(4), 2)
    assert find_left(expect_recount(late, create_snapshot(10, {"p1": 1}))) == 2


def test_an_attempt_that_arrives_after_its_pod_is_deleted_takes_over_nothing() -> None:
    """Leave the rest to the other pods, also if no recount has seen the pod before it was deleted."""
    reserved = reserve_all(empty_ledger(), create_job(3), create_pod())
    ledger = expect_recount(reserved, create_snapshot(9, {}, deleted=("p1",)))
    late = reserve_all(ledger, create_pod(by="n2"))
    assert find_left(late) == 2


def test_a_second_attempt_of_the_workload_leaves_what_its_pods_took_over() -> None:
    ledger = reserve_all(empty_ledger(), create_job(), create_pod(), create_job(by="j2"))
    assert (ledger.compute_charged(), find_left(ledger)) == (gpus(4), 3)


def test_a_workload_that_starts_more_pods_reserves_for_these() -> None:
    ledger = reserve_all(empty_ledger(hard=6, used=gpus(4)), create_job(6, old=4, hard=6))
    assert (ledger.compute_charged(), find_left(ledger)) == (gpus(6), 2)


def test_a_workload_that_is_resumed_reserves_for_all_pods_again() -> None:
    ledger = reserve_all(empty_ledger(hard=8), create_job(hard=8), create_pod(hard=8))
    resumed = replace(create_job(by="j2", hard=8), operation=Operation.UPDATE)
    assert find_left(reserve_all(ledger, resumed)) == 4


def test_a_pod_that_an_attempt_releases_gives_its_amount_back() -> None:
    ledger = release(reserve_all(empty_ledger(), create_job(), create_pod()), "p1", "n-p1")
    assert (ledger.compute_charged(), find_left(ledger)) == (gpus(4), 4)


def test_nothing_is_given_back_to_a_workload_whose_reservation_has_ended() -> None:
    ledger = reserve_all(empty_ledger(), create_job(), create_pod()).with_reservation("job", None)
    assert release(ledger, "p1", "n-p1").compute_charged() == gpus(0)


def test_a_recount_keeps_what_is_left_of_a_workload() -> None:
    ledger = expect_recount(reserve_all(empty_ledger(), create_job(), create_pod()), create_snapshot(9, {"p1": 1}))
    assert (ledger.used, find_left(ledger), set(ledger.reservations)) == (gpus(1), 3, {"job"})


def test_pods_with_similar_uids_have_marks_of_their_own() -> None:
    first, second = (f"00000000-0000-4000-8000-{number:012}" for number in (1, 2))
    ledger = reserve_all(empty_ledger(), create_job(), create_pod(first))
    ledger = expect_recount(ledger, create_snapshot(9, {first: 1}))
    assert find_left(reserve_all(ledger, create_pod(second))) == 2


def test_a_recount_ends_a_reservation_of_which_nothing_is_left() -> None:
    ledger = reserve_all(empty_ledger(), create_job(1), create_pod())
    assert not expect_recount(ledger, create_snapshot(9, {"p1": 1})).reservations


def test_a_recount_keeps_a_reservation_to_which_a_pod_may_give_back() -> None:
    ledger = expect_recount(reserve_all(empty_ledger(), create_job(1), create_pod()), create_snapshot(9, {}))
    assert set(ledger.reservations) == {"job", "p1"}
    assert find_left(release(ledger, "p1", "n-p1")) == 1


def _confirm(ledger: Ledger) -> ReservationAges:
    """Return ages of reservations observed at 100, with a write that began at 140 and was confirmed at 141."""
    return ReservationAges(B).observe(ledger, 100).confirm_write(started_at=140, now=141)


def test_a_pod_that_was_never_stored_gives_its_amount_back() -> None:
    ledger = reserve_all(empty_ledger(), create_job(), create_pod())
    assert find_left(expire(ledger, _confirm(ledger), LiveRead("p1", 141, None))) == 4


def test_a_pod_that_is_stored_gives_nothing_back() -> None:
    ledger = replace(reserve_all(empty_ledger(), create_job(), create_pod()), pods_revision=9)
    assert find_left(expire(ledger, _confirm(ledger), LiveRead("p1", 141, 9))) == 3


def test_a_pod_that_was_stored_and_changed_gives_nothing_back() -> None:
    changed = replace(create_pod(by="n2", size=2), operation=Operation.UPDATE)
    ledger = reserve_all(empty_ledger(hard=8), create_job(hard=8), create_pod(hard=8), changed)
    assert find_left(expire(ledger, _confirm(ledger), LiveRead("p1", 141, None))) == find_left(ledger)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(LiveRead("job", 141, None), 0, id="that does not exist expires"),
        pytest.param(LiveRead("job", 141, 7), 0, id="that starts no pods expires"),
        pytest.param(LiveRead("job", 141, 7, is_active=True), 4, id="that may start pods stays"),
        pytest.param(
            LiveRead("job", 100 + GANG_BOUND_SECONDS, 7, is_active=True), 0, id="of which no pod came expires"
        ),
        pytest.param(LiveRead("job", 140, None), 4, id="whose read is too early stays"),
    ],
)
def test_the_reservation_of_a_workload(read: LiveRead, expected: int) -> None:
    ledger = reserve_all(empty_ledger(), create_job())
    assert find_left(expire(ledger, _confirm(ledger), read)) == expected


def test_each_pod_that_is_counted_begins_the_age_of_the_rest_again() -> None:
    ledger = reserve_all(empty_ledger(), create_job(), create_pod())
    ages = _confirm(ledger)
    counted = expect_recount(ledger, create_snapshot(9, {"p1": 1}))
    late = 200 + GANG_BOUND_SECONDS
    assert find_left(expire(counted, ages.observe(counted, 200), LiveRead("job", late, 7, is_active=True))) == 3
    later = ages.observe(counted, 200).confirm_write(started_at=240, now=241)
    assert find_left(expire(counted, later, LiveRead("job", late, 7, is_active=True))) == 0


def test_a_pod_that_stays_reserved_for_a_change_begins_the_age_of_the_rest_once() -> None:
    changed = replace(create_pod(by="n2", size=2), operation=Operation.UPDATE)
    ledger = reserve_all(empty_ledger(hard=8), create_job(hard=8), create_pod(hard=8), changed)
    counted = expect_recount(ledger, create_snapshot(9, {"p1": 1}))
    second = expect_recount(reserve_all(counted, create_pod("p2", hard=8)), create_snapshot(10, {"p1": 1, "p2": 1}))
    again = expect_recount(second, create_snapshot(11, {"p1": 1, "p2": 1}))
    attempts = [each.reservations["job"].attempt for each in (counted, second, again)]
    assert attempts == ["n2", "n-p2", "n-p2"]


def test_a_pod_that_takes_over_all_its_amounts_counts_among_the_reservations_of_its_namespace() -> None:
    """No guard checks such a pod, and no guard checks the number of reservations for it."""
    few = {"is_shared": True, "hard": gpus(8), "max_reservations": 8}
    ledger = reserve_all(empty_ledger(hard=8), replace(create_job(hard=8), **few), replace(create_pod(hard=8), **few))
    second = replace(create_pod("p2", hard=8), **few)
    assert expect_deferred(ledger, second) is Prerequisite.SETTLE_NAMESPACE_RESERVATIONS


def test_one_workload_of_a_namespace_may_reserve_more_than_its_share_of_a_shared_cap() -> None:
    shared = {"is_shared": True, "hard": gpus(8)}
    ledger = reserve_all(empty_ledger(hard=8), replace(create_job(hard=8), **shared))
    second = replace(create_job(2, "second", by="j2", hard=8), **shared)
    assert expect_deferred(ledger, second) is Prerequisite.SETTLE_NAMESPACE
    taken = reserve_all(ledger, *(replace(create_pod(f"p{index}", hard=8), **shared) for index in range(4)))
    assert taken.compute_charged() == gpus(4)
