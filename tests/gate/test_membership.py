"""Namespaces that enter and leave caps by their labels, and replicas that do not know the same ones."""

from dataclasses import replace

import pytest

from tests.gate.scene import BY_LABEL, SHARED
from tests.gate.world import World, opened
from tests.state.attempts import Put
from webhook.gate.usage_lister import Membership
from webhook.kube.resource_codec import Bookmark
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey


def test_a_shared_cap_counts_the_pods_of_all_its_namespaces() -> None:
    world = World(SHARED, namespaces=("team-a", "team-b", "other"))
    for uid, namespace in (("u1", "team-a"), ("u2", "team-b"), ("u3", "other")):
        world.store(uid, 1, namespace)
        world.see(uid)
    world.open()
    assert world.sums() == (2, 0)
    assert world.code("u4", 2, "team-b") == 200
    assert world.code("u5", 1, "team-a") == 403


def test_a_namespace_that_enters_a_shared_cap_brings_its_pods() -> None:
    world = World(BY_LABEL.replace("hard:", "shared: true\n  hard:"))
    world.labelled("team-a", gpu="yes")
    world.labelled("team-b")
    world.store("u1", 3, "team-b")
    world.see("u1")
    world.open()
    assert world.sums() == (0, 0)
    world.labelled("team-b", gpu="yes")
    assert world.code("u2", 2) == 403
    world.keep()
    assert world.sums() == (3, 0)
    world.labelled("team-b")
    assert world.code("u2", 2) == 200


def test_a_namespace_that_leaves_a_cap_and_comes_back_brings_what_it_took_in_meanwhile() -> None:
    world = World(BY_LABEL)
    world.labelled("team-a", gpu="yes")
    world.open()
    assert world.code("u0", dryRun=True) == 200, "from here on nothing need be counted because the cap is new here"
    world.labelled("team-a")
    world.store("u1", 4)
    world.see("u1")
    world.labelled("team-a", gpu="yes")
    assert world.code("u2", 1) == 403
    assert world.sums() == (0, 0)
    world.end("u1")
    assert world.code("u2", 4) == 200
    world.labelled("team-a", gpu="yes", other="label")
    assert world.code("u3", 1) == 403


def test_a_recount_of_newer_namespaces_and_older_pods_is_replaced_once_newer_pods_are_seen() -> None:
    """A replica sees the namespace return before it sees a pod that was stored while the namespace was away."""
    world = World(BY_LABEL)
    world.labelled("team-a", gpu="yes")
    world.open()
    assert world.code("u0", dryRun=True) == 200
    world.labelled("team-a")
    world.store("u1", 4)
    world.labelled("team-a", gpu="yes")
    assert world.code("u2") == 200, "no replica has seen the pod"
    world.see("u1")
    assert world.code("u3") == 403
    assert world.sums() == (0, 1), "a rejected request writes nothing"


def test_a_shared_cap_counts_what_a_namespace_that_left_and_returned_took_in_meanwhile() -> None:
    world = World(BY_LABEL.replace("hard:", "shared: true\n  hard:"), namespaces=("team-a", "team-b"))
    for name in ("team-a", "team-b"):
        world.labelled(name, gpu="yes")
    world.open()
    assert world.code("u0", dryRun=True) == 200
    world.labelled("team-b")
    world.store("u1", 3, "team-b")
    world.see("u1")
    world.labelled("team-b", gpu="yes")
    assert world.code("u2", 2) == 403
    assert world.code("u3", 1) == 200
    assert world.sums() == (3, 1)


def test_a_replica_whose_view_of_pods_is_behind_the_count_reserves_unless_its_namespace_has_changed_since() -> None:
    """It cannot recount. A bookmark, or a change of another namespace, is no reason to."""
    world = World(BY_LABEL)
    world.labelled("team-a", gpu="yes")
    world.open()
    (counted,) = world.caps.list_caps()
    newer = Put(lambda found: replace(found or Ledger(counted.hard), pods_revision=world.at + 100))
    world.ledgers.transact(LedgerKey(counted.key, "team-a"), newer, 0.0)
    assert world.code("u1") == 200
    world.labelled("team-b", gpu="yes")
    world.namespaces.apply(Bookmark(world.at + 50))
    assert world.code("u2") == 200
    world.at += 50
    world.labelled("team-a", gpu="yes", other="label")
    assert world.code("u3") == 429
    assert world.code("u4", 0) == 200, "what asks for nothing needs no count"
    assert world.sums() == (0, 2)


def test_a_ledger_whose_namespace_has_left_is_told_so() -> None:
    world = World(BY_LABEL)
    world.labelled("team-a", gpu="yes")
    world.open()
    before = world.kept().namespaces_hash
    world.labelled("team-a")
    world.keep()
    assert world.kept().namespaces_hash != before
    assert list(world.keeper.list_ledgers(["team-a"])) == []


def test_replicas_that_differ_by_bookmarks_only_do_not_send_each_other_away() -> None:
    """What is written says no more of namespaces than that nothing has changed since."""
    world = opened()
    world.namespaces.apply(Bookmark(world.at + 500))
    assert world.code("u1") == 200
    world.keep()
    assert world.kept().namespaces_revision <= world.at
    (counted,) = world.caps.list_caps()
    key = LedgerKey(counted.key, "team-a")
    world.ledgers.transact(
        key, Put(lambda found: replace(found or Ledger(counted.hard), namespaces_revision=world.at + 400)), 0.0
    )
    assert world.code("u2") == 200
    world.keep()
    assert world.kept().namespaces_revision == world.at + 400
    world.ledgers.transact(
        key, Put(lambda found: replace(found or Ledger(counted.hard), namespaces_revision=world.at + 600)), 0.0
    )
    assert world.code("u3") == 200
    assert world.hurries == 0


def test_a_replica_that_knows_other_and_older_namespaces_looks_again_in_a_hurry() -> None:
    world = opened()
    (counted,) = world.caps.list_caps()
    put = Put(
        lambda found: replace(
            found or Ledger(counted.hard), namespaces_revision=world.at + 600, namespaces_hash="others"
        )
    )
    world.ledgers.transact(LedgerKey(counted.key, "team-a"), put, 0.0)
    assert world.code("u1") == 429
    assert world.hurries == 1


@pytest.mark.parametrize(
    ("settled", "changed", "revision", "counted", "said"),
    [
        pytest.param(5, 5, 9, 7, 7, id="what the ledger says, where it has been so ever since"),
        pytest.param(5, 5, 9, 12, 9, id="no more than this replica has seen"),
        pytest.param(6, 5, 9, 3, 6, id="no less than the last change of any namespace"),
        pytest.param(5, 8, 9, 3, 8, id="no less than the last change of its own namespace"),
    ],
)
def test_a_count_is_said_to_be_as_of(settled: int, changed: int, revision: int, counted: int, said: int) -> None:
    members = Membership(frozenset({"team-a"}), "hash", revision=revision, unchanged_since=settled, last_change=changed)
    assert members.choose_revision(counted) == said
