"""Where all together do not fit into one ledger, each is tried alone."""

from tests.state.attempts import Take
from tests.state.batched_ledgers.crowd import crowded
from tests.state.batched_ledgers.script import ScriptedStore, done, nothing
from webhook.state.ports import LedgerFullError


def full(_: ScriptedStore) -> None:
    """Be full."""
    raise LedgerFullError("too large")


def test_where_all_together_are_too_large_each_is_tried_alone() -> None:
    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2"), Take("u3")), writes=(full, nothing, full))
    assert asked.ask(Take("u0"))
    one, two, three = asked.outcomes()
    assert (one, three) == (True, True)
    assert isinstance(two, LedgerFullError)
    assert list(asked.store.now.reservations) == ["u0", "u1", "u3"]


def test_who_is_decided_already_is_not_tried_alone() -> None:
    def lost_while_another_comes(store: ScriptedStore) -> None:
        asked.come(Take("u3"))
        done(store)

    asked = crowded(lambda crowd: crowd.come(Take("u1"), Take("u2")), writes=(lost_while_another_comes, full))
    assert asked.ask(Take("u0"))
    assert asked.outcomes() == [True] * 3
    assert asked.store.calls == ["write", "write", "read", "write", "read", "write"]
