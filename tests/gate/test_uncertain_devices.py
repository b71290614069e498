"""Devices of claims whose amounts no slice shows: how they are named, and which claims are top consumers."""

from tallygate.cluster.consumers import CountedClaim, describe_uncertain
from tallygate.cluster.usage_lister import get_ledger_key
from tests.gate.claim_replica import ClaimReplica
from tests.gate.gate_fixture import CAP
from tests.gate.test_allocated_devices import BY_MODEL, create_replica, h100s, publish, store
from tests.state.informers.slices import DRIVER, POOL, create_device

BOTH = CAP.replace(
    "{nvidia.com/gpu: 4}",
    "{any: 2, gpu-memory: 160Gi}\n  devices: {any: {selector: 'true'}, gpu-memory: {sum: memory}}",
)
UNPUBLISHED = "no ResourceSlice publishes devices that claims have"


def describe(replica: ClaimReplica) -> list[str]:
    """Return the texts on the ledger of team-a, as the replica sees the cluster."""
    (cap,) = replica.caps.list_caps()
    consumers = replica.usage_lister.list_consumers(cap, get_ledger_key(cap, "team-a"), replica.read_ledger())
    return list(describe_uncertain(cap, [each.origin for each in consumers if isinstance(each.origin, CountedClaim)]))


def test_published_devices_are_certain() -> None:
    replica = create_replica(BOTH, *h100s(2))
    store(replica, "c1", "h-0", "h-1")
    assert not describe(replica)


def test_a_device_that_no_replica_and_no_ledger_knows_is_named_with_how_it_counts() -> None:
    replica = create_replica(BOTH)
    store(replica, "c1", "h-0")
    assert describe(replica) == [
        (
            f"{UNPUBLISHED}, {DRIVER}/{POOL}/h-0 of resourceclaim team-a/claim-c1: each counts 1 under any, the most "
            "that it can count, and the used amount under gpu-memory is unknown"
        )
    ]


def test_a_device_that_was_published_counts_what_it_counted() -> None:
    replica = create_replica(BOTH, *h100s(1))
    store(replica, "c1", "h-0")
    publish(replica, generation=2)
    assert describe(replica) == [
        (
            f"{UNPUBLISHED}, {DRIVER}/{POOL}/h-0 of resourceclaim team-a/claim-c1: they count what they counted when "
            "they were published"
        )
    ]


def test_ten_devices_are_named_and_the_others_are_counted() -> None:
    replica = create_replica(BOTH)
    store(replica, "c1", *(f"h-{number}" for number in range(12)))
    (text,) = describe(replica)
    assert (text.count("of resourceclaim"), " and 2 more: " in text) == (10, True)


def test_undecided_devices_have_the_reason_of_each_of_the_first_ten() -> None:
    nameless = [{**create_device(f"n-{number}"), "attributes": {}} for number in range(12)]
    replica = create_replica(BY_MODEL, *nameless)
    store(replica, "c1", *(each["name"] for each in nameless))
    texts = describe(replica)
    assert texts[0] == (
        f"device {DRIVER}/{POOL}/n-0 is undecided under h100, and counts as if it were selected: no such key: model"
    )
    assert texts[10:] == ["2 more devices are undecided"]
