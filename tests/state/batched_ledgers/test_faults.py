"""Requests and answers that are lost, and faults: everybody who waits is told, and nothing is done twice."""

import pytest

from tests.state.attempts import GPU, Look, Take
from tests.state.batched_ledgers.crowd import crowd, crowded
from tests.state.batched_ledgers.script import Happening, ScriptedStore, done, down, lost, nothing, pending, throttled
from tests.state.contract import Crashing
from webhook.state.ports import StoreUnavailableError


def test_a_lost_request_is_sent_again() -> None:
    asked = crowd(writes=(lost,))
    assert asked.ask(Take("u1"))
    assert asked.store.calls == ["read", "write", "read", "write"]
    assert asked.store.now.compute_charged() == {GPU: 1}


def test_a_write_whose_answer_was_lost_is_not_done_twice() -> None:
    asked = crowd(1, writes=(done,))
    assert asked.ask(Take("u1"))
    assert asked.store.calls == ["read", "write", "read"]
    assert asked.store.now.compute_charged() == {GPU: 1}


def test_another_attempt_of_the_same_pod_is_no_proof_of_this_one() -> None:
    def other(store: ScriptedStore) -> None:
        step = Take("u1", by="n0")(store.now)
        assert step.ledger is not None
        store.change(step.ledger)
        lost(store)

    asked = crowd(2, writes=(other,))
    assert asked.ask(Take("u1", by="n1"))
    assert asked.store.calls == ["read", "write", "read", "write"]
    assert asked.store.now.reservations["u1"].attempt == "n1"


def test_a_request_that_lands_late_is_found_by_the_conflict() -> None:
    def land(store: ScriptedStore) -> None:
        for each in store.late:
            each()

    asked = crowd(1, writes=(pending, land))
    assert asked.ask(Take("u1"))
    assert asked.store.calls == ["read", "write", "read", "write", "read"]
    assert asked.store.now.compute_charged() == {GPU: 1}


def test_all_whose_answer_was_lost_together_are_told() -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2", 9), Take("u3")), writes=(done,))
    assert asked.ask(Take("u0"))
    assert asked.outcomes() == [True, False, True]
    assert asked.store.calls == ["write", "write", "read"]
    assert asked.store.now.compute_charged() == {GPU: 3}


@pytest.mark.parametrize(("fault", "says"), [(down, "connection refused"), (throttled, "too many requests")])
def test_a_store_out_of_reach_is_told_to_all_who_wait(fault: Happening, says: str) -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2")), writes=(fault,))
    assert asked.ask(Take("u0"))
    assert [str(each) for each in asked.outcomes()] == [says] * 2
    assert asked.ask(Take("u3"))
    assert asked.store.calls == ["write", "write", "read", "write"]


def test_a_read_that_fails_is_told() -> None:
    with pytest.raises(StoreUnavailableError, match="connection refused"):
        crowd(reads=(down,)).ask(Take("u1"))


def test_a_lost_answer_that_cannot_be_looked_up_is_told() -> None:
    asked = crowd(reads=(nothing, down), writes=(done,))
    with pytest.raises(StoreUnavailableError, match="connection refused"):
        asked.ask(Take("u1"))
    assert asked.ask(Look()) == asked.store.now
    assert "u1" in asked.store.now.reservations


def test_a_fault_of_one_attempt_is_told_to_its_caller_only() -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1"), Crashing(), Take("u2")))
    assert asked.ask(Take("u0"))
    first, crash, last = asked.outcomes()
    assert (first, last) == (True, True)
    assert isinstance(crash, ZeroDivisionError)


def test_a_fault_of_the_store_leaves_nobody_waiting() -> None:
    def crash(_: ScriptedStore) -> None:
        raise ZeroDivisionError

    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2")), writes=(crash,))
    assert asked.ask(Take("u0"))
    assert [type(each) for each in asked.outcomes()] == [ZeroDivisionError] * 2
    assert asked.ask(Take("u3"))


def test_an_interrupted_server_leaves_nobody_waiting() -> None:
    def interrupt(_: ScriptedStore) -> None:
        asked.come(Take("u1"))
        raise KeyboardInterrupt

    asked = crowd(writes=(interrupt,))
    with pytest.raises(KeyboardInterrupt):
        asked.ask(Take("u0"))
    assert asked.outcomes() == [True]
