"""Ledgers in turn."""

from tests.state.informers.pods import GPUS
from webhook.admission.cap_index import ActiveCap
from webhook.server.controllers.ledger_controller import ReconcileSchedule
from webhook.state.ports import LedgerKey

KEYS = [(LedgerKey("cap", f"n{number}"), GPUS) for number in range(10)]


def test_everything_has_its_turn_once_in_a_round_and_evenly() -> None:
    turns, asked = ReconcileSchedule(100.0), list[int]()

    def every() -> list[tuple[LedgerKey, ActiveCap]]:
        asked.append(1)
        return KEYS

    seen = [len(turns.take_due(1000.0 + second, every)) for second in range(101)]
    assert sum(seen) == len(KEYS)
    assert max(seen) == 1
    assert len(asked) == 2  # the second round has just begun
    assert sum(len(turns.take_due(1100.0 + second, every)) for second in range(1, 101)) == len(KEYS)


def test_who_comes_late_takes_all_that_is_due_at_once() -> None:
    turns = ReconcileSchedule(100.0)
    assert turns.take_due(0.0, lambda: KEYS) == []
    assert len(turns.take_due(55.0, lambda: KEYS)) == 6
    assert len(turns.take_due(500.0, lambda: KEYS)) == 4


def test_a_round_of_nothing_takes_nothing() -> None:
    turns = ReconcileSchedule(100.0)
    assert turns.take_due(0.0, list) == []
    assert turns.take_due(99.0, list) == []
