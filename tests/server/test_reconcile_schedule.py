"""The schedule by which ledgers are reconciled."""

from tallygate.server.controllers.ledger_controller import ReconcileSchedule
from tallygate.state.ports import LedgerKey

KEYS = [LedgerKey("cap", f"n{number}") for number in range(10)]


def test_every_ledger_is_due_once_in_a_round_and_evenly() -> None:
    schedule, calls = ReconcileSchedule(100.0), list[int]()

    def list_keys() -> list[LedgerKey]:
        calls.append(1)
        return KEYS

    counts = [len(schedule.take_due(1000.0 + second, list_keys)) for second in range(101)]
    assert sum(counts) == len(KEYS)
    assert max(counts) == 1
    assert len(calls) == 2  # the second round has just begun
    assert sum(len(schedule.take_due(1100.0 + second, list_keys)) for second in range(1, 101)) == len(KEYS)


def test_a_late_call_takes_all_due_ledgers_at_once() -> None:
    schedule = ReconcileSchedule(100.0)
    assert schedule.take_due(0.0, lambda: KEYS) == []
    assert len(schedule.take_due(55.0, lambda: KEYS)) == 6
    assert len(schedule.take_due(500.0, lambda: KEYS)) == 4


def test_a_round_without_ledgers_takes_nothing() -> None:
    schedule = ReconcileSchedule(100.0)
    assert schedule.take_due(0.0, list) == []
    assert schedule.take_due(99.0, list) == []
