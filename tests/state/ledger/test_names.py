"""Rule 13, names: the attempts of one name reserve the largest amounts of them, and not their sum."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ledger.recount import CountedPod
from tallygate.state.ledger.reserve import (
    DeviceTerms,
    Prerequisite,
    ReservationRequest,
    WorkloadTerms,
    release,
)
from tests.state.ledger.ledger_builders import (
    GPU,
    IPS,
    create_request,
    create_snapshot,
    empty_ledger,
    expect_deferred,
    expect_exceeded,
    expect_recount,
    expect_reserved,
    gpus,
)

CLAIM = DeviceTerms(kind=ConsumerKind.CLAIM)


def create_named(uid: str, new: int = 1, name: str = "web-0", **more: Any) -> ReservationRequest:
    """Return the request of a pod with a name that others may have."""
    return replace(create_request(uid, new, **more), name=name)


def reserve_each(ledger: Ledger, *requests: ReservationRequest) -> Ledger:
    """Reserve for one request after the other."""
    for request in requests:
        ledger = expect_reserved(ledger, request)
    return ledger


def test_two_creations_that_fail_since_their_name_exists_leave_room_for_a_third_pod() -> None:
    """Let the pod use 1 of 3, and create its name twice more: only one of these could ever be stored."""
    ledger = expect_recount(expect_reserved(empty_ledger(3), create_named("u1")), create_snapshot(1, {"u1": 1}))
    ledger = reserve_each(ledger, create_named("u2", hard=3), create_named("u3", hard=3))
    assert ledger.compute_charged() == gpus(2)
    assert expect_reserved(ledger, create_request("other", hard=3)).compute_charged() == gpus(3)


def test_the_largest_attempt_of_a_name_is_charged_name_by_name() -> None:
    both = replace(create_named("u2", 1), requested=Amounts({GPU: 1, IPS: 5}))
    ledger = reserve_each(empty_ledger(), create_named("u1", 3), both)
    assert ledger.compute_charged() == Amounts({GPU: 3, IPS: 5})
    assert ledger.reserved_by_namespace["team-a"] == Amounts({GPU: 3, IPS: 5})


def test_a_larger_attempt_of_a_name_passes_the_guard() -> None:
    assert expect_exceeded(reserve_each(empty_ledger(), create_named("u1", 3)), create_named("u2", 5)) == gpus(1)


def test_a_released_attempt_leaves_the_amounts_of_the_others() -> None:
    ledger = reserve_each(empty_ledger(), create_named("u1", 3, by="n1"), create_named("u2", 2, by="n2"))
    assert release(ledger, "u1", "n1").compute_charged() == gpus(2)
    assert release(ledger, "u2", "n2").compute_charged() == gpus(3)


def test_a_creation_stays_reserved_when_another_of_its_name_is_stored_or_deleted() -> None:
    """Keep it, since the stored pod may be deleted, and then the other creation may still be stored."""
    ledger = reserve_each(empty_ledger(), create_named("u1", 1), create_named("u2", 2))
    stored = expect_recount(ledger, create_snapshot(1, {"u1": 1}))
    assert list(stored.reservations) == ["u2"]
    later = expect_recount(stored, create_snapshot(2, {}, deleted={"u1"}))
    assert later.compute_charged() == gpus(2)


def test_names_of_other_namespaces_and_kinds_are_other_names() -> None:
    ledger = reserve_each(
        empty_ledger(), create_named("u1"), create_named("u2", namespace="team-b"), create_named("c1", devices=CLAIM)
    )
    assert ledger.compute_charged() == gpus(3)
    assert reserve_each(ledger, create_named("c2", devices=CLAIM)).compute_charged() == gpus(3)


def test_a_consumer_without_a_name_and_a_covered_claim_are_alone() -> None:
    nameless = reserve_each(empty_ledger(), create_named("u1", name=""), create_named("u2", name=""))
    assert nameless.compute_charged() == gpus(2)
    own = [create_named(f"c{number}", devices=replace(CLAIM, pod_uid=f"p{number}")) for number in (1, 2)]
    assert reserve_each(empty_ledger(), *own).compute_charged() == gpus(2)


@pytest.mark.parametrize(("hard", "has_room"), [(3, False), (4, False), (5, True)])
def test_a_claim_of_the_scheduler_needs_room_beside_the_next_pod_of_its_name(hard: int, has_room: bool) -> None:  # noqa: FBT001
    """Require room: the pod of 3 may be deleted, that of 2 stored then, and the claim of the first one may remain."""
    ledger = reserve_each(empty_ledger(hard), create_named("u1", 3, hard=hard), create_named("u2", 2, hard=hard))
    ledger = expect_recount(ledger, create_snapshot(1, {"u1": 3}))
    devices = replace(CLAIM, pod_uid="u1", covered=gpus(3), pod_name="web-0")
    claim = create_named("c1", 3, "web-0-claim", devices=devices, hard=hard)
    if has_room:
        assert expect_reserved(ledger, claim).compute_charged() == gpus(5)
        return
    assert expect_deferred(ledger, claim) is Prerequisite.SETTLE_POD_NAME
    settled = ledger.with_reservation("u2", None)
    assert expect_reserved(settled, claim).compute_charged() == gpus(3)


def test_a_change_of_its_own_pod_lets_a_claim_of_the_scheduler_be_covered() -> None:
    change = replace(create_named("u1", 2, hard=2), current=gpus(1), operation=Operation.UPDATE)
    ledger = expect_recount(expect_reserved(empty_ledger(2), create_named("u1", 1)), create_snapshot(1, {"u1": 1}))
    ledger = replace(expect_reserved(ledger, change), hard=gpus(1))
    devices = replace(CLAIM, pod_uid="u1", covered=gpus(1), pod_name="web-0")
    claim = create_named("c1", 1, "web-0-claim", devices=devices, hard=1)
    assert expect_reserved(ledger, claim).compute_charged() == gpus(2)


def test_workloads_of_one_name_are_added_up() -> None:
    """Add them, since pods of a deleted workload may still exist when one of its name needs all its pods."""
    jobs = [create_named(uid, 2, workload=WorkloadTerms("batch/v1/Job")) for uid in ("j1", "j2")]
    assert reserve_each(empty_ledger(), *jobs).compute_charged() == gpus(4)


def test_a_pod_that_takes_over_amounts_is_charged_beside_another_attempt_of_its_name() -> None:
    """Both give their amounts back if they are not stored: had one taken over nothing, it would give back too much."""
    job = create_request("j1", 2, workload=WorkloadTerms("batch/v1/Job"))
    pods = [create_named(uid, workload=WorkloadTerms(owner_uids=("j1",)), by=uid) for uid in ("u1", "u2")]
    ledger = reserve_each(empty_ledger(2), replace(job, hard=gpus(2)), *(replace(each, hard=gpus(2)) for each in pods))
    assert ledger.compute_charged() == gpus(2)
    assert [ledger.reservations[uid].taken for uid in ("u1", "u2")] == [gpus(1), gpus(1)]
    for uid in ("u1", "u2"):
        ledger = release(ledger, uid, uid)
        assert ledger.compute_charged() == gpus(2)


def count_holder(
    requests: list[ReservationRequest], holder: int = 2, hard: int = 4, other: str = "p1", **more: Any
) -> Ledger:
    """Reserve, and recount with a counted pod of the name `web-0`, which has `holder` GPUs."""
    ledger = reserve_each(empty_ledger(hard), *requests)
    return expect_recount(ledger, create_snapshot(1, {other: holder}, holders={"web-0": other}, **more))


def test_the_counted_pod_of_a_name_covers_the_attempts_of_that_name() -> None:
    """Let the pod use 2 of 4, and create its name twice more: a third pod of 2 has room."""
    ledger = count_holder([create_named("u2", 2), create_named("u3", 2)])
    assert ledger.compute_charged() == gpus(2)
    assert expect_reserved(ledger, create_request("other", 2)).compute_charged() == gpus(4)
    assert [each.pod_uid for each in ledger.reservations.values()] == ["p1", "p1"]


def test_an_attempt_larger_than_the_counted_pod_of_its_name_is_charged_the_rest_resource_by_resource() -> None:
    both = replace(create_named("u2", 1), requested=Amounts({GPU: 1, IPS: 5}))
    ledger = count_holder([create_named("u3", 3), both])
    assert ledger.compute_charged() == Amounts({GPU: 3, IPS: 5})


@pytest.mark.parametrize(("requested", "excess"), [(2, 0), (4, 0), (5, 1)])
def test_a_creation_beside_the_counted_pod_of_its_name_needs_the_rest(requested: int, excess: int) -> None:
    """Give room to 2 more than the 4 of a pod, where 2 of another pod are used too."""
    ledger = expect_recount(empty_ledger(6), create_snapshot(1, {"p1": 2, "p2": 2}))
    creation = create_named("u2", requested, hard=6, holder=CountedPod("p1", gpus(2)))
    if excess:
        assert expect_exceeded(ledger, creation) == gpus(excess)
    else:
        assert expect_reserved(ledger, creation).compute_charged() == gpus(requested + 2)


def test_each_recount_renews_what_the_counted_pod_of_a_name_covers() -> None:
    ledger = count_holder([create_named("u2", 2)])
    larger = expect_recount(ledger, create_snapshot(2, {"p1": 1}, holders={"web-0": "p1"}))
    assert (larger.reserved, larger.compute_charged()) == (gpus(1), gpus(2))
    deleted = expect_recount(ledger, create_snapshot(2, {}, deleted={"p1"}))
    assert deleted.compute_charged() == gpus(2)
    assert (deleted.reservations["u2"].counted, deleted.reservations["u2"].pod_uid) == (gpus(0), "")
    next_one = expect_recount(deleted, create_snapshot(3, {"p3": 1}, holders={"web-0": "p3"}))
    assert next_one.reservations["u2"].pod_uid == "p3"
    assert next_one.compute_charged() == gpus(2)


def test_a_stored_attempt_is_counted_by_itself() -> None:
    """Let the pod be deleted and the attempt be stored, while a change of the latter has a reservation."""
    ledger = count_holder([create_named("u2", 2)])
    change = replace(create_named("u2", 3), current=gpus(2), operation=Operation.UPDATE)
    changed = expect_reserved(ledger, change)
    assert changed.compute_charged() == gpus(3)
    stored = expect_recount(changed, create_snapshot(2, {"u2": 2}, holders={"web-0": "u2"}, deleted={"p1"}))
    assert (stored.reservations["u2"].counted, stored.reservations["u2"].pod_uid) == (gpus(2), "")
    assert stored.compute_charged() == gpus(3)


def test_a_second_attempt_of_a_pod_is_covered_by_a_recount_alone() -> None:
    """Charge all of it without one: the writer does not know the part of the counted pod."""
    ledger = count_holder([create_named("u2", 2)])
    again = expect_reserved(ledger, create_named("u2", 2, by="n2"))
    assert again.compute_charged() == gpus(4)
    assert again.reservations["u2"].pod_uid == ""
    known = create_named("u2", 2, by="n2", holder=CountedPod("p1", gpus(2)))
    assert expect_reserved(ledger, known).compute_charged() == gpus(2)


OWN = DeviceTerms(kind=ConsumerKind.CLAIM, pod_uid="p1", covered=gpus(2), pod_name="web-0")


@pytest.mark.parametrize(("hard", "has_room"), [(3, False), (4, True)])
def test_a_claim_of_the_scheduler_takes_the_part_of_its_pod_from_the_attempts_of_the_name(
    hard: int,
    has_room: bool,  # noqa: FBT001
) -> None:
    """Require room for the pod of 2 that may be stored later, beside the claim of 2 that may remain."""
    ledger = count_holder([create_named("u2", 2, hard=hard)], hard=hard)
    claim = create_named("c1", 2, "web-0-claim", devices=OWN, hard=hard)
    if not has_room:
        assert expect_deferred(ledger, claim) is Prerequisite.SETTLE_POD_NAME
        return
    after = expect_reserved(ledger, claim)
    assert after.compute_charged() == gpus(4)
    assert {uid: (each.counted, each.pod_uid) for uid, each in after.reservations.items()} == {
        "u2": (gpus(0), ""),
        "c1": (gpus(2), "p1"),
    }
    again = expect_recount(after, create_snapshot(2, {"p1": 2}, holders={"web-0": "p1"}))
    assert again.compute_charged() == gpus(4)


def test_a_pod_covers_no_attempts_of_its_name_beside_a_claim_of_the_scheduler_that_has_a_reservation() -> None:
    ledger = expect_recount(empty_ledger(), create_snapshot(1, {"p1": 2}, holders={"web-0": "p1"}))
    claimed = expect_reserved(ledger, create_named("c1", 2, "web-0-claim", devices=OWN))
    assert claimed.compute_charged() == gpus(2)
    creation = create_named("u2", 3, holder=CountedPod("p1", gpus(2)))
    assert expect_exceeded(claimed, creation) == gpus(1)
    assert expect_reserved(claimed.with_reservation("c1", None), creation).compute_charged() == gpus(3)


def test_a_pod_covers_no_attempts_of_its_name_beside_a_counted_claim_of_the_scheduler() -> None:
    assert count_holder([create_named("u2", 2)], served={"p1"}).compute_charged() == gpus(4)


def test_a_claim_of_the_scheduler_that_is_deleted_leaves_the_part_of_its_pod_to_the_name() -> None:
    ledger = count_holder([create_named("u2", 2)])
    claimed = expect_reserved(ledger, create_named("c1", 2, "web-0-claim", devices=OWN))
    left = expect_recount(claimed, create_snapshot(2, {"p1": 2}, holders={"web-0": "p1"}, deleted={"c1"}))
    assert left.compute_charged() == gpus(2)


def test_a_pod_whose_workload_has_a_reservation_takes_over_amounts_and_is_not_covered() -> None:
    """Keep what it took over apart: it gives the same amounts back."""
    job = create_request("j1", 2, workload=WorkloadTerms("batch/v1/Job"))
    ledger = count_holder([job], hard=6)
    creation = create_named(
        "u2", 2, hard=6, workload=WorkloadTerms(owner_uids=("j1",)), holder=CountedPod("p1", gpus(2))
    )
    taken = expect_reserved(ledger, creation)
    assert (taken.reservations["u2"].taken, taken.compute_charged()) == (gpus(2), gpus(4))
    counted = expect_recount(taken, create_snapshot(2, {"p1": 2}, holders={"web-0": "p1"}))
    assert counted.compute_charged() == gpus(4)
    assert release(counted, "u2", "n1").compute_charged() == gpus(4)


uids = st.sampled_from("abcdef")
names = st.sampled_from(["", "n", "m"])
amounts = st.builds(lambda gpu, ips: Amounts({GPU: gpu, IPS: ips}), st.integers(0, 3), st.integers(0, 3))
kinds = st.sampled_from([ConsumerKind.POD, ConsumerKind.CLAIM, ConsumerKind.WORKLOAD])
reservations = st.builds(
    Reservation,
    st.sampled_from(["team-a", "team-b"]),
    names,
    counted=amounts,
    requested=amounts,
    attempt=st.just("n"),
    single_attempt=st.booleans(),
    operation=st.sampled_from(list(Operation)),
    kind=kinds,
    workload=st.sampled_from(["", "", "j"]),
    pod_uid=st.sampled_from(["", "", "p"]),
)


@given(st.lists(st.tuples(uids, st.none() | reservations)))
def test_the_sums_are_those_of_the_largest_amounts_of_each_name(steps: list[tuple[str, Reservation | None]]) -> None:
    ledger = empty_ledger()
    for uid, reservation in steps:
        ledger = ledger.with_reservation(uid, reservation)
        largest: dict[object, Amounts] = {}
        for other, each in ledger.reservations.items():
            is_claim_of_pod = each.pod_uid and each.kind is ConsumerKind.CLAIM
            is_alone = each.kind is ConsumerKind.WORKLOAD or each.workload or is_claim_of_pod or not each.name
            key = other if is_alone else (each.namespace, each.kind, each.name)
            largest[key] = largest.get(key, Amounts()).merge_max(each.compute_reserved())
        assert ledger.reserved == sum(largest.values(), Amounts())
        summed = empty_ledger().with_reservations(ledger.reservations.items())
        assert (summed.reserved, summed.reserved_by_namespace) == (ledger.reserved, ledger.reserved_by_namespace)
        assert sum((reserved for _, reserved in ledger.list_reserved()), Amounts()) == ledger.reserved
