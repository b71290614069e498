"""What charging asks of the ledgers, and what it takes back."""

from dataclasses import replace
from typing import TypeVar

import pytest

from tests.admission.case import policies
from tests.gate.scene import CAP, GPU, TWO, Scene, response
from webhook.accounting.amounts import Amounts
from webhook.admission.cap_index import CapIndex
from webhook.gate.charging import (
    CapCharge,
    ChargedPod,
    ChargeMode,
    ReleaseTransition,
    ReserveTransition,
)
from webhook.gate.gate import UndecidedError
from webhook.state.in_memory import MemoryLedgers
from webhook.state.ledger.ledger import Ledger, Operation
from webhook.state.ports import LedgerKey, StoreUnavailableError, Transition, UnknownOutcomeError

T = TypeVar("T")


class Watched(MemoryLedgers):
    """Ledgers that say what they were asked, and lose the answer to a promise when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.loses = False

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """As ever, but for the answer."""
        is_withdrawal = isinstance(attempt, ReleaseTransition)
        self.asked.append("withdraw" if is_withdrawal else "ask")
        outcome = super().transact(key, attempt, deadline)
        if self.loses and not is_withdrawal:
            raise UnknownOutcomeError("connection reset")
        return outcome


def attempt(mode: ChargeMode, old: int, new: int) -> ReserveTransition:
    """Return what asks a cap of 4 GPUs for a pod that has `old` and wants `new`."""
    (counted,) = CapIndex(policies(CAP)).list_caps()
    before, after = (Amounts({GPU: gpus} if gpus else {}) for gpus in (old, new))
    who = ChargedPod("u1", "team-a", "p", "n1", Operation.UPDATE)
    return ReserveTransition(who, CapCharge(counted, before, after, may_exceed=False), mode, is_standalone=False)


OPEN = Ledger(Amounts({GPU: 4}), resources=frozenset({GPU}))


@pytest.mark.parametrize(
    ("mode", "found", "old", "new", "said"),
    [
        pytest.param(ChargeMode.RESERVE, OPEN, 0, 1, "written", id="a reservation is written"),
        pytest.param(ChargeMode.RESERVE, OPEN, 1, 1, "", id="what asks for no more is not, and rests on a live read"),
        pytest.param(
            ChargeMode.CHECK, OPEN, 0, 1, "sure", id="a check needs no live read, since a reservation follows"
        ),
        pytest.param(ChargeMode.DRY_RUN, OPEN, 0, 1, "", id="a dry run rests on a live read"),
        pytest.param(
            ChargeMode.RESERVE, replace(OPEN, initializer="m"), 0, 1, "", id="a ledger that is closed stays as it is"
        ),
        pytest.param(ChargeMode.RESERVE, None, 0, 1, "written", id="a ledger that is missing is made"),
        pytest.param(ChargeMode.DRY_RUN, None, 0, 1, "", id="but not by a dry run"),
        pytest.param(ChargeMode.RESERVE, OPEN, 2, 7, "refused 5", id="a refusal says how much more found no room"),
    ],
)
def test_what_an_attempt_makes_of_a_ledger(
    mode: ChargeMode, found: Ledger | None, old: int, new: int, said: str
) -> None:
    step = attempt(mode, old, new)(found)
    refused = f"refused {step.rejected_amounts[GPU]}" if step.rejected_amounts is not None else ""
    assert (
        " ".join(filter(None, ("written" * (step.ledger is not None), "sure" * step.accepts_cached, refused))) == said
    )


def test_an_attempt_that_may_have_been_stored_once_is_to_be_taken_back_whatever_it_found_later() -> None:
    """Its first write may still be on its way."""
    transition = attempt(ChargeMode.RESERVE, 0, 1)
    assert not transition.may_be_stored
    transition(OPEN)
    transition(replace(OPEN, used=Amounts({GPU: 4})))
    assert transition.may_be_stored


def test_who_is_refused_by_the_only_cap_has_nothing_to_take_back() -> None:
    ledgers = Watched()
    scene = Scene(ledgers=ledgers)
    assert response(scene.create(4))["allowed"]
    assert not response(scene.create(1))["allowed"]
    assert ledgers.asked == ["ask", "ask"]


def test_a_promise_whose_answer_is_lost_is_taken_back() -> None:
    ledgers = Watched()
    scene = Scene(ledgers=ledgers)
    ledgers.loses = True
    with pytest.raises(UndecidedError):
        scene.create(4)
    assert ledgers.asked == ["ask", "withdraw"]
    ledgers.loses = False
    assert scene.promised() == {}
    assert response(scene.create(4))["allowed"]


class _Unavailable(MemoryLedgers):
    """Ledgers of which one cannot be read."""

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """Fail for the second cap."""
        if key.cap.startswith("b-second"):
            raise StoreUnavailableError("connection refused")
        return super().transact(key, attempt, deadline)


def test_a_cap_that_rejects_the_pod_decides_though_the_ledger_of_another_is_unavailable() -> None:
    scene = Scene(TWO, ledgers=_Unavailable())
    assert response(scene.create(5))["status"]["code"] == 403
    with pytest.raises(UndecidedError, match="the ledgers are unreachable: connection refused") as raised:
        scene.create(4)
    assert [obstacle.cap for obstacle in raised.value.obstacles] == ["b-second"]
    assert scene.promised("a-first") == {}
