"""Ledgers that are busy, out of reach, or full when it comes to writing: no promise stays behind."""

from typing import TypeVar

import pytest

from tests.gate.scene import CAP, GPU, TWO, Scene, pod, response
from tests.state.attempts import Look
from tests.state.batched_ledgers.script import Done, ScriptedStore
from webhook.accounting.amounts import Amounts
from webhook.admission.cap_index import get_cap_name
from webhook.errors import TallygateError
from webhook.gate.gate import UndecidedError
from webhook.state.batched_ledgers import BatchedLedgers
from webhook.state.in_memory import MemoryLedgers
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, RetryLaterError, StoreUnavailableError, Transition

T = TypeVar("T")
Then = tuple[str, TallygateError]


class Failing(MemoryLedgers):
    """A store that gives the ledgers of one cap up: before they are written, or after."""

    def __init__(self, cap: str, failure: TallygateError, *, written: bool = False, then: Then | None = None) -> None:
        super().__init__()
        self.cap = cap
        self.failure = failure
        self.written = written
        self.then = then
        self.failed = False

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """Fail once where it is to; from then on the ledgers of the cap named by `then` fail as it says."""
        if self.failed and self.then and self.then[0] in key.cap:
            raise self.then[1]
        if self.cap in key.cap and not self.failed and attempt(super().transact(key, Look(), deadline)).ledger:
            self.failed = True
            if self.written:
                super().transact(key, attempt, deadline)
            raise self.failure
        return super().transact(key, attempt, deadline)


@pytest.mark.parametrize("written", [False, True])
def test_a_ledger_that_stays_busy_sends_the_client_away_with_nothing_promised(written: bool) -> None:  # noqa: FBT001  # a table
    scene = Scene(ledgers=Failing("gpus", RetryLaterError("busy"), written=written))
    answer = scene.create(1)
    assert response(answer)["status"]["code"] == 429
    assert response(answer)["status"]["details"]["retryAfterSeconds"] == 1
    assert answer.record.verdict == "retry"
    assert scene.promised() == {}


def test_after_the_deadline_no_ledger_is_asked() -> None:
    scene = Scene()
    scene.now = 5.0
    assert response(scene.create(1))["status"]["code"] == 429
    assert scene.ledger() is None


def test_a_store_out_of_reach_is_undecided_and_what_was_promised_elsewhere_is_taken_back() -> None:
    scene = Scene(TWO, ledgers=Failing("b-second", StoreUnavailableError("connection reset")))
    with pytest.raises(UndecidedError, match="the ledgers are unreachable: connection reset"):
        scene.create(1)
    assert scene.promised("a-first") == {}


def test_a_promise_whose_answer_was_lost_is_taken_back() -> None:
    scene = Scene(ledgers=Failing("gpus", StoreUnavailableError("connection reset"), written=True))
    with pytest.raises(UndecidedError, match="connection reset"):
        scene.create(1)
    assert scene.promised() == {}


@pytest.mark.parametrize(
    "then", [StoreUnavailableError("no route to host"), RetryLaterError("busy")], ids=["out of reach", "busy"]
)
def test_a_ledger_that_cannot_be_written_keeps_nobody_from_taking_back_the_others(then: TallygateError) -> None:
    store = Failing("b-second", StoreUnavailableError("connection reset"), written=True, then=("a-first", then))
    scene = Scene(TWO, ledgers=store)
    with pytest.raises(UndecidedError, match="connection reset"):
        scene.create(1)
    assert scene.promised("b-second") == {}
    store.then = None
    assert scene.promised("a-first") == {GPU: 1}


@pytest.mark.parametrize(
    ("ends", "reserved"),
    [(5.0, {}), (5.9, {}), (6.0, {GPU: 1})],
    ids=["at the deadline", "within a second of it", "a second later"],
)
def test_a_reservation_that_was_written_too_late_is_taken_back_within_a_second_and_then_left_to_expire(
    ends: float, reserved: dict[str, int]
) -> None:
    def late(_: ScriptedStore) -> None:
        scene.now = ends
        raise Done

    store = ScriptedStore(Ledger(Amounts({GPU: 4}), resources=frozenset({GPU})), writes=(late,))
    scene = Scene(ledgers=BatchedLedgers(store, lambda: scene.now))
    assert response(scene.create(1))["status"]["code"] == 429
    assert store.now.reserved == reserved


class Taken(MemoryLedgers):
    """A store in which other pods take the room of a cap between the check and the write.

    The thief comes after the first transaction of the cap named by `after`. `asked` names the caps in order.
    """

    def __init__(self, after: str) -> None:
        super().__init__()
        self.after = after
        self.thief: Scene | None = None
        self.asked: list[str] = []

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """Let the thief in."""
        outcome = super().transact(key, attempt, deadline)
        self.asked.append(get_cap_name(key.cap))
        if self.thief is not None and get_cap_name(key.cap) == self.after:
            thief, self.thief = self.thief, None
            for _ in range(4):
                assert response(thief.create(1))["allowed"]
        return outcome


def test_room_that_is_gone_when_it_is_written_refuses_and_takes_back_the_first_promise() -> None:
    store = Taken("b-second")
    scene = Scene(TWO, ledgers=store)
    store.thief = Scene(CAP.replace("gpus", "b-second"), ledgers=store)
    answer = scene.admit(pod("mine", 1))
    assert response(answer)["status"]["code"] == 403
    assert scene.promised("a-first") == {}
    assert scene.promised("b-second") == {GPU: 4}


def test_after_one_cap_has_refused_the_next_one_is_not_asked_for_room() -> None:
    store = Taken("b-second")
    scene = Scene(TWO, ledgers=store)
    store.thief = Scene(CAP.replace("gpus", "a-first"), ledgers=store)
    assert response(scene.admit(pod("mine", 1)))["status"]["code"] == 403
    assert store.asked == ["a-first", "b-second", *["a-first"] * 4, "a-first"]
    assert scene.promised("b-second") == {}
