"""What charging asks of the ledgers, and what it takes back."""

from typing import TypeVar

import pytest

from tests.gate.scene import Scene, response
from webhook.gate.charging import ReleaseTransition
from webhook.gate.gate import UndecidedError
from webhook.state.in_memory import MemoryLedgers
from webhook.state.ports import LedgerKey, Transition, UnknownOutcomeError

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
