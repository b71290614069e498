"""Ledgers that are busy, unavailable, or full at the write: no reservation stays."""

from typing import TypeVar

import pytest

from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_index import get_cap_name
from tallygate.errors import TallygateError
from tallygate.gate.decisions import UndecidedError
from tallygate.state.batched_ledgers import BatchedLedgers
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import (
    LedgerKey,
    RetryLaterError,
    StoreUnavailableError,
    StoreUnreachableError,
    Transition,
    UnknownOutcomeError,
)
from tests.gate.gate_fixture import CAP, GPU, TWO, GateFixture, pod, response
from tests.state.batched_ledgers.scripted_store import ResponseLost, ScriptedStore
from tests.state.transitions import Read

T = TypeVar("T")
Then = tuple[str, TallygateError]


class FailingLedgers(MemoryLedgers):
    """A store that fails for the ledgers of one cap: before the write, or after it."""

    def __init__(self, cap: str, failure: TallygateError, *, written: bool = False, then: Then | None = None) -> None:
        super().__init__()
        self.cap = cap
        self.failure = failure
        self.written = written
        self.then = then
        self.failed = False

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """Fail once for the cap; after that, the ledgers of the cap in `then` fail with its error."""
        if self.failed and self.then and self.then[0] in key.cap:
            raise self.then[1]
        if self.cap in key.cap and not self.failed and attempt(super().transact(key, Read(), deadline)).ledger:
            self.failed = True
            if self.written:
                super().transact(key, attempt, deadline)
            raise self.failure
        return super().transact(key, attempt, deadline)


@pytest.mark.parametrize("written", [False, True])
def test_a_ledger_that_stays_busy_makes_the_client_retry_with_nothing_reserved(written: bool) -> None:  # noqa: FBT001  # a table
    fixture = GateFixture(ledgers=FailingLedgers("gpus", RetryLaterError("busy"), written=written))
    decision = fixture.create(1)
    assert response(decision)["status"]["code"] == 429
    assert response(decision)["status"]["details"]["retryAfterSeconds"] == 1
    assert decision.record.verdict == "retry"
    assert fixture.read_reserved() == {}


def test_no_ledger_is_read_after_the_deadline() -> None:
    fixture = GateFixture()
    fixture.now = 5.0
    assert response(fixture.create(1))["status"]["code"] == 429
    assert fixture.find_ledger() is None


def test_an_unavailable_store_is_undecided_and_other_reservations_are_released() -> None:
    fixture = GateFixture(TWO, ledgers=FailingLedgers("b-second", StoreUnavailableError("connection reset")))
    with pytest.raises(UndecidedError, match="the ledgers are unreachable: connection reset"):
        fixture.create(1)
    assert fixture.read_reserved("a-first") == {}


@pytest.mark.parametrize(
    ("failure", "is_transient"),
    [
        (StoreUnreachableError("connection refused"), True),
        (UnknownOutcomeError("connection reset"), True),
        (StoreUnavailableError("the gate must be allowed to get capledgers"), False),
    ],
)
def test_only_an_unreachable_store_is_worth_another_attempt(failure: TallygateError, is_transient: bool) -> None:  # noqa: FBT001  # a table
    with pytest.raises(UndecidedError) as caught:
        GateFixture(ledgers=FailingLedgers("gpus", failure)).create(1)
    assert (caught.value.uid, caught.value.is_transient) == ("r", is_transient)


def test_a_reservation_whose_response_was_lost_is_released() -> None:
    fixture = GateFixture(ledgers=FailingLedgers("gpus", StoreUnavailableError("connection reset"), written=True))
    with pytest.raises(UndecidedError, match="connection reset"):
        fixture.create(1)
    assert fixture.read_reserved() == {}


@pytest.mark.parametrize(
    "then", [StoreUnavailableError("no route to host"), RetryLaterError("busy")], ids=["unavailable", "busy"]
)
def test_a_ledger_that_cannot_be_written_does_not_prevent_the_release_of_others(then: TallygateError) -> None:
    store = FailingLedgers("b-second", StoreUnavailableError("connection reset"), written=True, then=("a-first", then))
    fixture = GateFixture(TWO, ledgers=store)
    with pytest.raises(UndecidedError, match="connection reset"):
        fixture.create(1)
    assert fixture.read_reserved("b-second") == {}
    store.then = None
    assert fixture.read_reserved("a-first") == {GPU: 1}


@pytest.mark.parametrize(
    ("ends", "reserved"),
    [(5.0, {}), (5.9, {}), (6.0, {GPU: 1})],
    ids=["at the deadline", "within a second of it", "a second later"],
)
def test_a_late_reservation_is_released_within_a_second_and_later_left_to_expire(
    ends: float, reserved: dict[str, int]
) -> None:
    def late(_: ScriptedStore) -> None:
        fixture.now = ends
        raise ResponseLost

    store = ScriptedStore(Ledger(Amounts({GPU: 4}), resources=frozenset({GPU})), writes=(late,))
    fixture = GateFixture(ledgers=BatchedLedgers(store, lambda: fixture.now))
    assert response(fixture.create(1))["status"]["code"] == 429
    assert store.ledger.reserved == reserved


class ContestedLedgers(MemoryLedgers):
    """A store in which other pods fill a cap between the check and the write.

    `competitor` creates them after the first transaction of the cap `after`. `caps` names the caps in order.
    """

    def __init__(self, after: str) -> None:
        super().__init__()
        self.after = after
        self.competitor: GateFixture | None = None
        self.caps: list[str] = []

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """Run the transaction, then let the competitor fill the cap once."""
        outcome = super().transact(key, attempt, deadline)
        self.caps.append(get_cap_name(key.cap))
        if self.competitor is not None and get_cap_name(key.cap) == self.after:
            competitor, self.competitor = self.competitor, None
            for number in range(4):
                assert response(competitor.create(1, name=f"other-{number}"))["allowed"]
        return outcome


def test_a_cap_that_fills_before_the_write_rejects_and_the_first_reservation_is_released() -> None:
    store = ContestedLedgers("b-second")
    fixture = GateFixture(TWO, ledgers=store)
    store.competitor = GateFixture(CAP.replace("gpus", "b-second"), ledgers=store)
    decision = fixture.admit(pod("mine", 1))
    assert response(decision)["status"]["code"] == 403
    assert fixture.read_reserved("a-first") == {}
    assert fixture.read_reserved("b-second") == {GPU: 4}


def test_after_a_rejection_by_one_cap_the_next_one_reserves_nothing() -> None:
    store = ContestedLedgers("b-second")
    fixture = GateFixture(TWO, ledgers=store)
    store.competitor = GateFixture(CAP.replace("gpus", "a-first"), ledgers=store)
    assert response(fixture.admit(pod("mine", 1)))["status"]["code"] == 403
    assert store.caps == ["a-first", "b-second", *["a-first"] * 4, "a-first"]
    assert fixture.read_reserved("b-second") == {}
