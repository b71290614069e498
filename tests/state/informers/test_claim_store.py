"""The store of claims: their charge groups, and the claims that the scheduler made."""

import json

from tallygate.kube.resource_codec import Bookmark, Replaced
from tallygate.state.informers.claim_store import ClaimStore
from tests.accounting.claims import Object, claim_object, exactly, result
from tests.state.informers.claims import GPU, claim_line, claim_page, create_claim, device_cap, scheduler_claim

CAP = device_cap("""
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {hard: {nvidia.com/gpu: 8}}
""")


def create_store(*claims: Object) -> ClaimStore:
    """Return a store with a list at revision 10."""
    store = ClaimStore(lambda: 0.0)
    body = json.dumps({"metadata": {"resourceVersion": "10"}, "items": claims}).encode()
    store.apply(Replaced(store.codec.decode_page(body).items, 10))
    return store


def test_claims_of_one_template_have_one_charge_group() -> None:
    store = create_store(*(create_claim(f"u{number}", number + 1) for number in range(5)))
    assert (len(store), store.group_count) == (5, 1)
    assert store.compute_usage(CAP, ["team-a"]).used == {GPU: 5}


def test_claims_of_one_template_have_one_charge_group_whatever_their_devices() -> None:
    selective = claim_object(exactly(1, selectors=[{"cel": {"expression": "true"}}]), uid="u1")
    plain = claim_object(exactly(1), uid="u2")
    allocated = [claim_object(exactly(1), results=[result(device=name)], uid=name) for name in ("gpu-0", "gpu-1")]
    assert create_store(selective, plain).group_count == 2
    assert create_store(*allocated).group_count == 1
    assert create_store(plain, *allocated).group_count == 2


def test_the_names_of_devices_are_in_memory_once() -> None:
    store = create_store(*(claim_object(exactly(1), results=[result()], uid=uid, name=uid) for uid in ("u1", "u2")))
    one, other = store.list_devices()
    assert one == other
    assert all(name is same for name, same in zip(one, other, strict=True))


def test_a_deleted_claim_leaves_a_tombstone_and_uses_nothing() -> None:
    store = create_store(create_claim("u1", 5, 2))
    store.apply(claim_line("DELETED", create_claim("u1", 11, 2)))
    usage = store.compute_usage(CAP, ["team-a"], ["u1"])
    assert (dict(usage.used), set(usage.deleted), dict(usage.used_by_consumer)) == ({}, {"u1"}, {})


def test_the_lowest_revision_of_the_same_claims_is_that_of_the_last_change() -> None:
    store = create_store(create_claim("u1", 5))
    store.apply(claim_line("MODIFIED", create_claim("u1", 12, 2)))
    store.apply(Bookmark(20))
    assert [store.choose_revision(preferred) for preferred in (0, 12, 15, 99)] == [12, 12, 15, 20]


def test_a_claim_that_the_scheduler_seems_to_have_made_is_listed_with_its_pod() -> None:
    store = create_store(scheduler_claim("u1", 5, "p1", 2), create_claim("u2", 6))
    ((uid, owned),) = store.list_owned(CAP, ["team-a"]).items()
    assert (uid, owned.owner, owned.amounts) == ("u1", ("p1", "team-a", "claim-u1"), {GPU: 2})
    assert (owned.is_reserved, owned.is_young) == (True, True)
    store.apply(claim_line("DELETED", scheduler_claim("u1", 11, "p1", 2)))
    assert store.list_owned(CAP, ["team-a"]) == {}


def test_the_age_of_such_a_claim_survives_changes_and_lists() -> None:
    now = 0.0
    store = ClaimStore(lambda: now)
    store.apply(claim_page(10, scheduler_claim("u1", 5, "p1", is_reserved=False)))
    now = 29.0
    store.apply(claim_line("MODIFIED", scheduler_claim("u1", 12, "p1")))
    store.apply(claim_page(20, scheduler_claim("u1", 12, "p1")))
    assert [each.is_young for each in store.list_owned(CAP, ["team-a"]).values()] == [True]
    now = 31.0
    assert [each.is_young for each in store.list_owned(CAP, ["team-a"]).values()] == [False]


def test_a_claim_whose_devices_are_reserved_for_another_pod_is_not_reserved_for_its_owner() -> None:
    claim = scheduler_claim("u1", 5, "p1")
    claim["status"]["reservedFor"][0]["uid"] = "p2"
    (owned,) = create_store(claim).list_owned(CAP, ["team-a"]).values()
    assert not owned.is_reserved
