"""Rule 3: release of the reservation of an attempt, and of no other."""

from types import MappingProxyType

import pytest
from msgspec.structs import replace

from tallygate.state.ledger.reserve import release
from tests.state.ledger.ledger_builders import create_request, empty_ledger, expect_reserved, gpus


def test_an_attempt_releases_its_own_reservation() -> None:
    ledger = release(expect_reserved(empty_ledger(), create_request()), "u1", "n1")
    assert not ledger.compute_charged()
    assert not ledger.reservations


@pytest.mark.parametrize(("uid", "by"), [("u1", "n0"), ("u0", "n1")], ids=["another attempt", "another pod"])
def test_an_attempt_does_not_release_a_reservation_of(uid: str, by: str) -> None:
    ledger = expect_reserved(empty_ledger(), create_request())
    assert release(ledger, uid, by) is ledger


def test_a_reservation_of_two_attempts_is_released_by_neither() -> None:
    ledger = expect_reserved(expect_reserved(empty_ledger(), create_request()), create_request(by="n2"))
    assert release(ledger, "u1", "n1") is ledger
    assert release(ledger, "u1", "n2") is ledger


def test_reservations_of_other_pods_stay() -> None:
    ledger = expect_reserved(expect_reserved(empty_ledger(), create_request(new=2)), create_request("u2", by="n2"))
    assert release(ledger, "u1", "n1").compute_charged() == gpus(1)


def test_adding_and_removing_a_reservation_leaves_the_other_fields() -> None:
    ledger = empty_ledger(used=gpus(1), pods_revision=7, namespaces_revision=5, namespaces_hash="m", initializer="c")
    reservation = expect_reserved(empty_ledger(), create_request()).reservations["u1"]
    after = ledger.with_reservation("u1", reservation)
    assert after == replace(
        ledger,
        reservations=after.reservations,
        reserved=gpus(1),
        reserved_by_namespace=MappingProxyType({"team-a": gpus(1)}),
        attempts_by_name=after.attempts_by_name,
        numbers_by_namespace=MappingProxyType({"team-a": 1}),
    )
    assert after.with_reservation("u1", None) == ledger


def test_removing_a_missing_reservation_changes_nothing() -> None:
    ledger = expect_reserved(empty_ledger(), create_request())
    assert ledger.with_reservation("u2", None) is ledger
