"""Rule 2, reserve, and the prerequisites that defer it."""

from collections import Counter
from functools import partial
from timeit import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.ledger import Ledger, Operation, Surge
from tallygate.state.ledger.reserve import (
    MAX_RESERVATIONS,
    DeviceTerms,
    Prerequisite,
    ReservationRequest,
    Reserved,
    reserve,
)
from tallygate.state.ledger.surges import SurgeTerms
from tests.state.ledger.ledger_builders import (
    GPU,
    IPS,
    NAMES,
    create_request,
    create_snapshot,
    empty_ledger,
    expect_deferred,
    expect_exceeded,
    expect_recount,
    expect_reserved,
    gpus,
)


def test_a_reservation_is_charged_at_once() -> None:
    assert expect_reserved(empty_ledger(), create_request(new=3)).compute_charged() == Amounts({GPU: 3})


def test_the_last_unit_can_be_reserved_and_not_one_more() -> None:
    ledger = expect_reserved(empty_ledger(), create_request(new=4))
    assert expect_exceeded(ledger, create_request("u2", new=1)) == Amounts({GPU: 1})


def test_a_request_that_does_not_grow_is_not_charged() -> None:
    result = reserve(empty_ledger(), create_request(new=2, old=2))
    assert isinstance(result, Reserved)
    assert result.needs_no_write
    assert not result.ledger.reservations


def test_only_the_growth_of_a_change_is_charged() -> None:
    ledger = empty_ledger(used=Amounts({GPU: 3}))
    assert expect_reserved(ledger, create_request(new=4, old=3)).compute_charged() == Amounts({GPU: 4})
    assert expect_exceeded(ledger, create_request(new=5, old=3)) == Amounts({GPU: 1})


def test_two_attempts_of_a_pod_are_charged_once_with_the_larger_request() -> None:
    ledger = expect_reserved(empty_ledger(), create_request(new=3))
    ledger = expect_reserved(ledger, create_request(new=2, by="n2"))
    reservation = ledger.reservations["u1"]
    assert ledger.compute_charged() == Amounts({GPU: 3})
    assert (reservation.attempt, reservation.single_attempt, reservation.operation) == ("n2", False, Operation.CREATE)


def test_a_reservation_of_a_creation_and_a_change_is_a_change() -> None:
    ledger = expect_reserved(
        expect_reserved(empty_ledger(), create_request(new=1)), create_request(new=3, old=1, by="n2")
    )
    reservation = ledger.reservations["u1"]
    assert (reservation.counted, reservation.requested, reservation.operation) == (
        Amounts(),
        Amounts({GPU: 3}),
        Operation.UPDATE,
    )


def test_a_reservation_of_a_change_stays_a_change() -> None:
    ledger = expect_reserved(
        expect_reserved(empty_ledger(), create_request(new=2, old=1)), create_request(new=3, by="n2")
    )
    assert ledger.reservations["u1"].operation is Operation.UPDATE


def test_the_smaller_counted_amount_of_two_changes_applies() -> None:
    ledger = expect_reserved(empty_ledger(9, used=gpus(3)), create_request(new=4, old=3))
    assert expect_reserved(ledger, create_request(new=2, old=1, by="n2", hard=9)).reservations["u1"].counted == Amounts(
        {GPU: 1}
    )


def test_the_counted_amount_is_zero_if_the_later_change_found_an_uncounted_pod() -> None:
    ledger = expect_reserved(empty_ledger(9, used=gpus(2)), create_request(new=3, old=2, hard=9))
    after = expect_reserved(ledger, create_request(new=3, old=0, by="n2", hard=9, kind=Operation.UPDATE))
    assert after.reservations["u1"].counted == gpus(0)
    assert after.compute_charged() == gpus(5)


def test_a_change_without_growth_passes_though_a_stale_count_charges_more() -> None:
    ledger = expect_reserved(empty_ledger(4, used=gpus(3)), create_request(new=4, old=3))
    ledger = expect_reserved(ledger, create_request(new=1, old=1, by="n2"))
    assert ledger.compute_charged() == gpus(6)
    assert expect_recount(ledger, create_snapshot(1, {"u1": 1})).compute_charged() == gpus(4)


def test_a_request_without_growth_is_written_if_its_pod_has_a_reservation() -> None:
    result = reserve(expect_reserved(empty_ledger(), create_request(new=1)), create_request(new=1, old=1, by="n2"))
    assert isinstance(result, Reserved)
    assert not result.needs_no_write


def test_the_smaller_of_both_limits_applies() -> None:
    assert expect_exceeded(empty_ledger(hard=8), create_request(new=5, hard=4)) == Amounts({GPU: 1})
    assert expect_exceeded(empty_ledger(hard=4), create_request(new=6, hard=8)) == Amounts({GPU: 2})


def test_a_pod_that_requests_nothing_of_an_exceeded_resource_passes() -> None:
    ledger = Ledger(Amounts({GPU: 4, IPS: 9}), used=Amounts({GPU: 9}), resources=NAMES)
    request = ReservationRequest("u1", "team-a", "p", Amounts(), Amounts({IPS: 1}), "n", Operation.CREATE, ledger.hard)
    assert expect_reserved(ledger, request).compute_charged() == Amounts({GPU: 9, IPS: 1})


def test_a_user_who_may_exceed_the_cap_exceeds_it_and_is_charged() -> None:
    assert expect_reserved(empty_ledger(), create_request(new=9, may_exceed=True)).compute_charged() == Amounts(
        {GPU: 9}
    )


def test_a_resource_without_a_limit_is_never_exceeded() -> None:
    request = ReservationRequest(
        "u1", "team-a", "p", Amounts(), Amounts({IPS: 10**30}), "n", Operation.CREATE, Amounts()
    )
    assert expect_reserved(Ledger(Amounts(), resources=NAMES), request).compute_charged() == Amounts({IPS: 10**30})


def test_a_change_exceeds_the_cap_after_a_recount_has_increased_its_reservation() -> None:
    """Reserve first with a stale larger pod, so that less was reserved than the second attempt requests."""
    ledger = expect_recount(empty_ledger(), create_snapshot(1, {"w": 2, "u1": 1}))
    stale = expect_reserved(ledger, create_request("u1", new=3, old=2, by="n1"))
    after = expect_recount(stale, create_snapshot(1, {"w": 2, "u1": 1}))
    assert (stale.compute_charged(), after.compute_charged()) == (gpus(4), gpus(5))
    assert expect_exceeded(after, create_request("u1", new=3, old=1, by="n2")) == gpus(1)
    assert expect_reserved(after, create_request("u1", new=1, old=1, by="n3")).compute_charged() == gpus(5)


def test_an_initializing_ledger_reserves_nothing_yet() -> None:
    assert expect_deferred(empty_ledger(initializer="m1"), create_request()) is Prerequisite.ACTIVATE


def test_a_resource_that_is_not_counted_yet_is_counted_first() -> None:
    ledger = empty_ledger(resources=frozenset({IPS}))
    assert expect_deferred(ledger, create_request()) is Prerequisite.COUNT_RESOURCES
    assert expect_reserved(
        expect_recount(ledger, create_snapshot(1, {"w": 2})), create_request()
    ).compute_charged() == gpus(3)


def test_a_resource_that_only_the_stored_pod_uses_is_counted_first_too() -> None:
    old, new = Amounts({GPU: 1}), Amounts({IPS: 1})
    request = ReservationRequest("u1", "team-a", "p", old, new, "n", Operation.UPDATE, Amounts())
    assert expect_deferred(empty_ledger(resources=frozenset({IPS})), request) is Prerequisite.COUNT_RESOURCES


def test_a_writer_with_other_and_older_namespaces_catches_up_first() -> None:
    ledger = empty_ledger(namespaces_revision=7, namespaces_hash="ab")
    assert expect_deferred(ledger, create_request(namespaces_revision=6, namespaces_hash="a")) is Prerequisite.CATCH_UP
    assert expect_reserved(ledger, create_request(namespaces_revision=7, namespaces_hash="ab")).reservations


def test_a_ledger_that_was_counted_before_its_cap_became_active_is_counted_first() -> None:
    ledger = empty_ledger(pods_revision=6)
    assert expect_deferred(ledger, create_request(min_pods_revision=7)) is Prerequisite.COUNT_CONSUMERS
    assert expect_exceeded(
        expect_recount(ledger, create_snapshot(7, {"w": 4})), create_request(min_pods_revision=7)
    ) == gpus(1)
    assert expect_reserved(empty_ledger(pods_revision=7), create_request(min_pods_revision=7)).reservations


def test_a_ledger_whose_claims_were_counted_before_its_cap_became_active_is_counted_first() -> None:
    request = create_request(devices=DeviceTerms(min_claims_revision=7))
    assert expect_deferred(empty_ledger(claims_revision=6), request) is Prerequisite.COUNT_CONSUMERS
    assert expect_reserved(empty_ledger(claims_revision=7), request).reservations


@pytest.mark.parametrize(
    ("own", "stored"), [((4, 1), (3, 2)), ((3, 2), (4, 1)), ((5, 4), (3, 2))], ids=["first", "second", "of the ledger"]
)
def test_the_smaller_sum_of_limit_and_surge_applies_to_a_pod_that_surges(
    own: tuple[int, int], stored: tuple[int, int]
) -> None:
    """Compare sums: the smaller limit and the smaller surge, each by itself, would reject the fifth unit."""
    ledger = empty_ledger(stored[0], used=gpus(4), surge=Surge(gpus(stored[1])))
    request = create_request(hard=own[0], surge=SurgeTerms(gpus(own[1]), 60, 100))
    charged = expect_reserved(ledger, request)
    assert charged.compute_charged() == gpus(5)
    assert expect_exceeded(charged, create_request("u2", hard=own[0], surge=SurgeTerms(gpus(own[1]), 60, 100)))


def test_a_writer_with_other_and_newer_namespaces_counts_first() -> None:
    ledger = empty_ledger(namespaces_revision=7, namespaces_hash="a")
    request = create_request(namespaces_revision=8, namespaces_hash="ab")
    assert expect_deferred(ledger, request) is Prerequisite.COUNT_NAMESPACES
    assert expect_reserved(
        expect_recount(ledger, create_snapshot(1, {}, ns_revision=8, members="ab")), request
    ).reservations


@pytest.mark.parametrize("revision", [6, 8])
def test_equal_namespaces_of_another_revision_need_no_count(revision: int) -> None:
    """Reserve at the revision of a new replica, which the others reach up to a minute later."""
    assert expect_reserved(
        empty_ledger(namespaces_revision=7, namespaces_hash="a"),
        create_request(namespaces_revision=revision, namespaces_hash="a"),
    ).reservations


@pytest.mark.parametrize(
    "more",
    [
        {"initializer": "m"},
        {"namespaces_revision": 9, "namespaces_hash": "x"},
        {"namespaces_hash": "x"},
        {"resources": frozenset()},
    ],
)
def test_a_request_that_does_not_grow_waits_for_nothing(more: dict[str, Any]) -> None:
    result = reserve(empty_ledger(**more), create_request(new=1, old=2))
    assert isinstance(result, Reserved)
    assert result.needs_no_write


def test_a_namespace_reserves_at_most_a_quarter_of_a_shared_cap() -> None:
    ledger = expect_reserved(
        expect_reserved(empty_ledger(8), create_request("u1", hard=8, is_shared=True)),
        create_request("u2", hard=8, is_shared=True),
    )
    assert expect_deferred(ledger, create_request("u3", hard=8, is_shared=True)) is Prerequisite.SETTLE_NAMESPACE
    assert expect_reserved(
        ledger, create_request("u3", hard=8, is_shared=True, namespace="team-b")
    ).compute_charged() == gpus(3)


def test_a_recounted_reservation_no_longer_counts_against_the_quarter() -> None:
    ledger = expect_reserved(
        expect_reserved(empty_ledger(8), create_request("u1", hard=8, is_shared=True)),
        create_request("u2", hard=8, is_shared=True),
    )
    ledger = expect_recount(ledger, create_snapshot(1, {"u1": 1}))
    assert expect_reserved(ledger, create_request("u3", hard=8, is_shared=True)).compute_charged() == gpus(3)


def test_one_pod_of_a_namespace_can_always_be_reserved_however_large() -> None:
    ledger = expect_reserved(empty_ledger(8), create_request("u1", new=7, hard=8, is_shared=True))
    assert expect_reserved(
        ledger, create_request("u1", new=8, hard=8, is_shared=True, by="n2")
    ).compute_charged() == gpus(8)


@pytest.mark.parametrize(("own", "stored"), [(4, 8), (8, 4)], ids=["of the replica", "of the ledger"])
def test_the_quarter_is_of_the_smaller_limit(own: int, stored: int) -> None:
    ledger = expect_reserved(empty_ledger(stored), create_request("u1", hard=own, is_shared=True))
    assert expect_deferred(ledger, create_request("u2", hard=own, is_shared=True)) is Prerequisite.SETTLE_NAMESPACE


def test_an_attempt_that_reserves_no_more_than_the_last_is_exempt_from_the_quarter() -> None:
    ledger = expect_reserved(
        expect_reserved(empty_ledger(8), create_request("u1", hard=8, is_shared=True)),
        create_request("u2", hard=8, is_shared=True),
    )
    lowered = structs.replace(ledger, hard=gpus(4))
    assert expect_reserved(lowered, create_request("u2", hard=8, is_shared=True, by="n2")).compute_charged() == gpus(2)


def test_a_request_over_the_cap_is_exceeded_rather_than_deferred() -> None:
    ledger = expect_reserved(empty_ledger(4), create_request("u1", new=3, is_shared=True))
    assert expect_exceeded(ledger, create_request("u2", new=2, is_shared=True)) == gpus(1)


def test_a_user_who_may_exceed_the_cap_is_exempt_from_the_quarter() -> None:
    ledger = expect_reserved(empty_ledger(4), create_request("u1", new=3, is_shared=True))
    assert expect_reserved(
        ledger, create_request("u2", new=3, is_shared=True, may_exceed=True)
    ).compute_charged() == gpus(6)


def full(count: int = MAX_RESERVATIONS) -> Ledger:
    """Return a ledger with the given number of reservations, each of a name of its own."""
    reservation = expect_reserved(empty_ledger(10**6), create_request("u", hard=10**6)).reservations["u"]
    uids = [f"{uid:036}" for uid in range(count)]
    return empty_ledger(10**6).with_reservations((uid, structs.replace(reservation, name=uid)) for uid in uids)


def test_a_ledger_has_a_maximum_number_of_reservations() -> None:
    ledger = full()
    assert expect_deferred(ledger, create_request("u1", hard=10**6)) is Prerequisite.SETTLE_RESERVATIONS
    assert expect_reserved(ledger, create_request(f"{0:036}", new=2, hard=10**6)).compute_charged() == gpus(
        MAX_RESERVATIONS + 1
    )
    assert expect_reserved(ledger, create_request("u1", hard=10**6, max_reservations=None)).compute_charged() == gpus(
        MAX_RESERVATIONS + 1
    )


SHARED: dict[str, Any] = {"hard": 10**6, "is_shared": True, "max_reservations": 8}


def fill_share(**more: Any) -> Ledger:
    """Return a shared ledger with two reservations of one namespace, a quarter of eight."""
    ledger = expect_reserved(empty_ledger(10**6), create_request("u1", **SHARED, **more))
    return expect_reserved(ledger, create_request("u2", **SHARED, **more))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"may_exceed": True},
        {"old": 1, "new": 2},
        {"devices": DeviceTerms(kind=ConsumerKind.CLAIM)},
    ],
    ids=["creation", "privileged user", "change", "claim"],
)
def test_a_namespace_has_at_most_a_quarter_of_the_number_of_reservations_in_a_shared_ledger(
    more: dict[str, Any],
) -> None:
    ledger = fill_share()
    third = create_request("u3", **SHARED, **more)
    assert expect_deferred(ledger, third) is Prerequisite.SETTLE_NAMESPACE_RESERVATIONS
    assert len(expect_reserved(ledger, structs.replace(third, namespace="team-b")).reservations) == 3


def test_an_attempt_that_has_a_reservation_adds_none_to_its_namespace() -> None:
    assert len(expect_reserved(fill_share(), create_request("u2", new=3, by="n2", **SHARED)).reservations) == 2


def test_the_number_of_reservations_of_a_namespace_is_limited_in_shared_ledgers_only() -> None:
    request = structs.replace(create_request("u3", **SHARED), is_shared=False)
    assert len(expect_reserved(fill_share(), request).reservations) == 3


def test_a_namespace_has_one_reservation_however_few_a_ledger_may_have() -> None:
    few = SHARED | {"max_reservations": 3}
    ledger = expect_reserved(empty_ledger(10**6), create_request("u1", **few))
    assert expect_deferred(ledger, create_request("u2", **few)) is Prerequisite.SETTLE_NAMESPACE_RESERVATIONS


def test_the_quarter_of_the_number_is_750() -> None:
    shared: dict[str, Any] = {"hard": 10**6, "is_shared": True}
    assert len(expect_reserved(full(749), create_request("u1", **shared)).reservations) == 750
    assert expect_deferred(full(750), create_request("u1", **shared)) is Prerequisite.SETTLE_NAMESPACE_RESERVATIONS
    assert len(expect_reserved(full(2999), create_request("u1", namespace="team-b", **shared)).reservations) == 3000


def test_a_reservation_in_a_ledger_of_thousands_does_not_add_them_up() -> None:
    """Compare the growth of the time, since a busy machine spoils absolute times: adding up takes hundreds of times."""
    small, large = full(1), full(MAX_RESERVATIONS - 1)
    request = create_request("u1", hard=10**6)
    few, many = (min(repeat(partial(reserve, of, request), number=20, repeat=9)) for of in (small, large))
    assert many < 20 * few


uids = st.sampled_from("abcd")
counts = st.integers(0, 5)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """Draw ledgers after some attempts."""
    ledger = empty_ledger(draw(st.integers(1, 12)), used=gpus(draw(st.integers(0, 9))))
    for number in range(draw(st.integers(0, 6))):
        result = reserve(ledger, create_request(draw(uids), draw(counts), draw(counts), by=str(number), hard=99))
        ledger = result.ledger
    return ledger


@given(ledgers(), uids, counts, counts, st.integers(1, 12))
def test_a_reservation_charges_at_least_the_request_and_respects_both_limits(
    ledger: Ledger, uid: str, old: int, new: int, hard: int
) -> None:
    result = reserve(ledger, create_request(uid, new, old, by="n", hard=hard))
    before, after = ledger.compute_charged().get(GPU, 0), result.ledger.compute_charged().get(GPU, 0)
    if isinstance(result, Reserved) and not result.needs_no_write:
        reservation = result.ledger.reservations[uid]
        assert reservation.requested.get(GPU, 0) >= new
        assert reservation.counted.get(GPU, 0) <= old
        assert reservation.attempt == "n"
        assert new <= old or after <= max(before, min(hard, ledger.hard[GPU]))
    else:
        assert result.ledger is ledger


@given(ledgers(), uids, counts, counts)
def test_the_reserved_sums_match_the_reservations(ledger: Ledger, uid: str, old: int, new: int) -> None:
    after = reserve(ledger, create_request(uid, new, old, by="n", hard=99)).ledger
    recomputed = after.with_reservations(after.reservations.items())
    assert (after.reserved, dict(after.reserved_by_namespace)) == (
        recomputed.reserved,
        dict(recomputed.reserved_by_namespace),
    )


@given(ledgers(), uids, counts, counts)
def test_a_repeated_request_is_charged_once(ledger: Ledger, uid: str, old: int, new: int) -> None:
    once = reserve(ledger, create_request(uid, new, old, by="n", hard=99))
    if isinstance(once, Reserved):
        twice = reserve(once.ledger, create_request(uid, new, old, by="n2", hard=99))
        assert isinstance(twice, Reserved)
        assert twice.ledger.compute_charged() == once.ledger.compute_charged()


@given(ledgers())
def test_a_ledger_without_its_reservations_has_only_used_amounts(ledger: Ledger) -> None:
    bare = ledger
    for uid in ledger.reservations:
        bare = bare.with_reservation(uid, None)
    assert bare == structs.replace(
        ledger,
        reservations=bare.reservations,
        reserved=Amounts(),
        reserved_by_namespace=bare.reserved_by_namespace,
        attempts_by_name=bare.attempts_by_name,
        numbers_by_namespace=bare.numbers_by_namespace,
        linked=bare.linked,
    )
    assert not bare.attempts_by_name
    assert not bare.numbers_by_namespace
    assert not bare.linked
    assert not bare.reservations
    assert not bare.reserved_by_namespace


@given(ledgers())
def test_the_sums_of_a_ledger_are_those_of_its_reservations(ledger: Ledger) -> None:
    by_difference = structs.replace(ledger.with_reservations(()))
    for uid, reservation in ledger.reservations.items():
        by_difference = by_difference.with_reservation(uid, reservation)
    assert by_difference == ledger
    assert ledger.numbers_by_namespace == Counter(each.namespace for each in ledger.reservations.values())
    assert ledger.linked == {uid for uid, each in ledger.reservations.items() if each.is_linked}
