"""Caps that come into force, anew or with another name to count: who is there already is counted first."""

from dataclasses import replace

from tests.admission.case import policies
from tests.gate.world import opened
from tests.state.attempts import Put
from tests.state.informers.pods import page
from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey


def test_a_name_that_a_cap_counts_anew_counts_the_pods_that_are_there() -> None:
    world = opened()
    world.store("u1", 3)
    world.see("u1")
    (counted,) = world.caps.list_caps()
    key = LedgerKey(counted.key, "team-a")
    world.ledgers.transact(key, Put(lambda _: Ledger(counted.hard)), 0.0)
    assert world.code("u2", 2) == 403
    assert world.code("u3", 1) == 200
    assert world.kept().resources == {"nvidia.com/gpu"}


def test_a_cap_that_was_taken_out_and_put_back_counts_who_came_in_meanwhile_before_it_promises() -> None:
    """Its ledger is as it was left; the keeper has not been there yet, and the watch is behind."""
    world = opened()
    assert world.code("u1", 1) == 200
    world.store("u1", 1)
    world.see("u1")
    world.keep()
    with_it = world.policies
    world.policies = policies("")
    assert world.code("u2", 3) == 200
    world.store("u2", 3)
    world.seen_at = world.now
    world.now += 1
    world.policies = with_it
    assert world.code("u3", 1) == 429
    assert world.hurries == 1
    world.see("u2")
    world.seen_at = world.now
    assert world.code("u3", 1) == 403
    assert world.kept().pods_revision < world.at, "nobody wrote the ledger meanwhile"


def test_a_replica_that_starts_counts_anew_what_was_counted_before_it_saw_anything() -> None:
    """Who has it from a policy that is new with its process cannot know that the cap was in force before."""
    world = opened()
    (counted,) = world.caps.list_caps()
    world.store("u1", 4)
    world.see("u1")
    before = replace(world.kept(), used=Amounts(), pods_revision=1)
    world.ledgers.transact(LedgerKey(counted.key, "team-a"), Put(lambda _: before), 0.0)
    assert world.code("u2", 1) == 403


def test_who_is_at_it_while_a_cap_goes_out_of_force_charges_by_what_was_counted_since_it_came() -> None:
    world = opened()
    (counted,) = world.caps.list_caps()
    world.sight.set_active_caps([])
    world.sight.set_active_caps([counted.key])
    came = world.sight.get_required_revision(counted.key)
    assert came == world.at
    world.sight.set_active_caps([])
    assert world.sight.get_required_revision(counted.key) == came
    world.sight.set_active_caps([])
    assert world.sight.get_required_revision(counted.key) > 2**60


def test_a_cap_that_stays_in_force_while_policies_change_needs_no_newer_count() -> None:
    world = opened()
    (counted,) = world.caps.list_caps()
    world.sight.set_active_caps([counted.key])
    came = world.sight.get_required_revision(counted.key)
    world.now += 1
    world.store("u1")
    world.see("u1")
    world.sight.set_active_caps([counted.key, "another"])
    assert world.sight.get_required_revision(counted.key) == came < world.at


def test_a_cluster_that_was_restored_from_a_backup_is_behind_no_count_that_came_before() -> None:
    world = opened()
    (counted,) = world.caps.list_caps()
    world.sight.set_active_caps([counted.key])
    assert world.sight.get_required_revision(counted.key) == world.at
    world.pods.apply(page(5))
    assert world.sight.get_required_revision(counted.key) == 5
