"""Ledgers that others keep too: what they say holds, and until they are counted they promise nothing."""

import dataclasses

from tests.gate.scene import GPU, TWO, Scene, never, response
from tests.state.attempts import Put
from webhook.accounting.amounts import Amounts
from webhook.state.in_memory import MemoryLedgers


def shared() -> MemoryLedgers:
    """Ledgers that others may have kept before."""
    return MemoryLedgers(is_standalone=False)


def test_a_ledger_that_others_may_have_lost_is_made_and_promises_nothing_yet() -> None:
    scene = Scene(TWO, ledgers=shared())
    assert response(scene.create(1))["status"]["code"] == 429
    made = [scene.ledger(cap) for cap in ("a-first", "b-second")]
    assert all(ledger is not None and ledger.initializer for ledger in made)
    assert response(scene.create(1))["status"]["code"] == 429
    assert [scene.ledger(cap) for cap in ("a-first", "b-second")] == made


def test_a_dry_run_makes_no_ledger() -> None:
    scene = Scene(ledgers=shared())
    assert response(scene.create(1, dryRun=True))["status"]["code"] == 429
    assert scene.ledger() is None


def test_a_ledger_that_is_shared_says_itself_what_it_allows_and_counts() -> None:
    scene = Scene(ledgers=shared())
    scene.create(1)
    scene.change(initializer="", resources=frozenset())
    assert response(scene.create(1))["status"]["code"] == 429
    scene.change(resources=frozenset({GPU}), hard=Amounts({GPU: 1}))
    assert response(scene.create(1))["allowed"]
    assert response(scene.create(1))["status"]["code"] == 403
    assert scene.promised() == {GPU: 1}


def test_a_refusal_is_one_though_another_cap_must_be_counted_first() -> None:
    scene = Scene(TWO, ledgers=shared())
    scene.create(1)
    scene.ledgers.transact(
        scene.key("b-second"),
        Put(lambda found: dataclasses.replace(found or never(), initializer="", resources=frozenset({GPU}))),
        0.0,
    )
    assert response(scene.create(5))["status"]["code"] == 403


def test_a_ledger_that_cannot_promise_yet_sends_the_client_away() -> None:
    scene = Scene()
    scene.create(1)
    scene.change(initializer="m1")
    assert response(scene.create(1))["status"]["code"] == 429
    assert scene.promised() == {GPU: 1}
