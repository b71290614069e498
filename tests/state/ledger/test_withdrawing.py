"""Rule 3: what an attempt takes back, and what it must leave."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from tests.state.ledger.ledgers import empty, gpus, granted, wants
from webhook.state.ledger.reserve import release


def test_an_attempt_takes_back_its_own_promise() -> None:
    ledger = release(granted(empty(), wants()), "u1", "n1")
    assert not ledger.compute_charged()
    assert not ledger.reservations


@pytest.mark.parametrize(("uid", "by"), [("u1", "n0"), ("u0", "n1")], ids=["another attempt's", "another pod's"])
def test_an_attempt_takes_back_nothing_that_is(uid: str, by: str) -> None:
    ledger = granted(empty(), wants())
    assert release(ledger, uid, by) is ledger


def test_a_promise_that_two_attempts_share_is_taken_back_by_neither() -> None:
    ledger = granted(granted(empty(), wants()), wants(by="n2"))
    assert release(ledger, "u1", "n1") is ledger
    assert release(ledger, "u1", "n2") is ledger


def test_what_others_were_promised_stays() -> None:
    ledger = granted(granted(empty(), wants(new=2)), wants("u2", by="n2"))
    assert release(ledger, "u1", "n1").compute_charged() == gpus(1)


def test_all_else_that_a_ledger_states_stays_when_a_reservation_comes_and_goes() -> None:
    ledger = empty(used=gpus(1), pods_revision=7, namespaces_revision=5, namespaces_hash="m", initializer="c")
    row = granted(empty(), wants()).reservations["u1"]
    after = ledger.with_reservation("u1", row)
    assert after == replace(
        ledger,
        reservations=after.reservations,
        reserved=gpus(1),
        reserved_by_namespace=MappingProxyType({"team-a": gpus(1)}),
    )
    assert after.with_reservation("u1", None) == ledger


def test_to_take_out_a_row_that_is_not_there_changes_nothing() -> None:
    ledger = granted(empty(), wants())
    assert ledger.with_reservation("u2", None) is ledger
