"""The top consumers in a rejection, and the time until unused reservations expire."""

from threading import Thread
from typing import Any

import pytest

from tallygate.state.informers.pod_store import PodStore
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GateFixture, pod, read_facts, response
from tests.gate.replica_fixture import BOUND, ReplicaFixture
from tests.state.informers.pods import pod as stored_pod

SHARED = CAP.replace("hard:", "shared: true\n  hard:")
LARGE = CAP.replace("gpu: 4", "gpu: 20")
TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TEMPLATE = "6c9f"


def create_owner_metadata(kind: str, name: str) -> dict[str, Any]:
    """Return the metadata of a pod with a controller."""
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


class ReplicaWithPods(ReplicaFixture):
    """A replica with active ledgers and observed pods."""

    def __init__(self, text: str = CAP, namespaces: tuple[str, ...] = ("team-a", "team-b")) -> None:
        super().__init__(text, namespaces)
        self.activate_ledgers()

    def add_pod(self, uid: str, gpus: int, namespace: str = "team-a", **metadata: Any) -> None:
        """Store a pod and deliver its watch event."""
        self.store_pod(uid, gpus, namespace)["metadata"] |= metadata
        self.observe(uid)

    def message(self, gpus: int, namespace: str = "team-a") -> str:
        """Return the part of a rejection with the amounts and the consumers."""
        decision = self.admit(stored_pod("new", 0, str(gpus), namespace), namespace=namespace, name="new")
        text: str = response(decision)["status"]["message"]
        return text[text.index("used") : text.index(" (TG201")]


def test_consumers_are_named_by_their_workload_and_pods_without_an_owner_by_their_name() -> None:
    replica = ReplicaWithPods(LARGE)
    for number in range(3):
        labels = {"labels": {"pod-template-hash": TEMPLATE}}
        replica.add_pod(f"d{number}", 2, **create_owner_metadata("ReplicaSet", f"trainer-{TEMPLATE}") | labels)
    replica.add_pod("s1", 4, **create_owner_metadata("StatefulSet", "db"))
    replica.add_pod("p1", 5)
    replica.add_pod("p2", 1)
    message = replica.message(5)
    assert read_facts(message).startswith("used=16 reserved=0 hard=20 free=4 ")
    assert "Deployment trainer (6), Pod pod-p1 (5), StatefulSet db (4). " in message


def test_pods_that_are_being_deleted_are_marked() -> None:
    replica = ReplicaWithPods(LARGE)
    replica.add_pod("p1", 7, **TERMINATING)
    for number in range(2):
        replica.add_pod(f"r{number}", 3, **create_owner_metadata("Job", "eval") | (TERMINATING if number else {}))
    assert "Pod pod-p1 (7, terminating), Job eval (6, 3 terminating)." in replica.message(9)


def test_ended_pods_use_nothing_and_are_not_named() -> None:
    replica = ReplicaWithPods()
    replica.add_pod("p1", 3)
    ended = replica.store_pod("p2", 4)
    ended["status"] = {"phase": "Succeeded"}
    replica.observe("p2")
    assert " Pod pod-p1 (3)." in replica.message(2)


def test_a_shared_cap_names_the_namespaces_with_their_reserved_amounts() -> None:
    replica = ReplicaWithPods(SHARED, ("team-a", "team-b", "team-c", "team-d"))
    replica.add_pod("p1", 1, "team-b")
    replica.add_pod("p2", 2, "team-c", **TERMINATING)
    assert replica.request_pod("u1", 1, "team-b") == 200
    assert replica.message(1, "team-a") == (
        "used 3, reserved 1, hard 4, free 0; top consumers: namespace team-b (2, 1 reserved), "
        "namespace team-c (2, terminating). Wait until pods end; unused reservations expire within 45 s"
    )


def test_a_cap_can_hide_its_top_consumers() -> None:
    replica = ReplicaWithPods(CAP + "  showTopConsumers: false\n")
    replica.add_pod("p1", 4)
    assert read_facts(replica.message(1)) == "used=4 reserved=0 hard=4 free=0"


def test_at_most_three_consumers_are_named_and_equal_ones_in_order() -> None:
    replica = ReplicaWithPods(LARGE)
    for letter in "dbcaef":
        replica.add_pod(letter, 3)
    assert " Pod pod-a (3), Pod pod-b (3), Pod pod-c (3)." in replica.message(9)


def test_invalid_owners_are_not_named() -> None:
    replica = ReplicaWithPods(LARGE)
    replica.add_pod("a", 3, **create_owner_metadata("Evil\x1b[31m", "x"))
    replica.add_pod("b", 2, **create_owner_metadata("Thing", "n" * 5000))
    assert " Pod pod-a (3), Pod pod-b (2)." in replica.message(20)


@pytest.mark.parametrize(
    ("kind", "label"),
    [("ReplicaSet", "other"), ("Rollout", TEMPLATE)],
    ids=["a replica set of its own", "another kind that names its pods by their template"],
)
def test_an_owner_that_is_no_replica_set_of_a_deployment_is_named_itself(kind: str, label: str) -> None:
    replica = ReplicaWithPods()
    replica.add_pod("a", 3, labels={"pod-template-hash": label}, **create_owner_metadata(kind, f"trainer-{TEMPLATE}"))
    assert f" {kind} trainer-{TEMPLATE} (3)." in replica.message(2)


def test_the_time_until_expiry_follows_the_ages_of_the_reconciler() -> None:
    replica = ReplicaWithPods()
    assert replica.request_pod("u1", 4) == 200
    assert replica.message(1).endswith(" 45 s")
    replica.reconcile()
    replica.now += 20
    assert replica.message(1).endswith(" 25 s")
    replica.now += 300
    assert replica.message(1).endswith(" 5 s")


def test_an_unused_reservation_expires_within_the_stated_time() -> None:
    replica = ReplicaWithPods()
    assert replica.request_pod("u1", 4) == 200
    replica.reconcile()
    seconds = int(replica.message(1).rsplit(" ", 2)[1])
    for _ in range(seconds):
        replica.reconcile(1)
    assert replica.request_pod("u2", 4) == 200
    assert seconds < BOUND + 10


def test_the_newest_reservation_determines_the_time_until_expiry() -> None:
    replica = ReplicaWithPods()
    assert replica.request_pod("u1", 2) == 200
    replica.reconcile()
    replica.now += 30
    assert replica.request_pod("u2", 2) == 200
    replica.reconcile()
    replica.now += 5
    assert replica.message(1).endswith(" 40 s")


def test_reservations_are_not_mentioned_if_none_exist_or_waiting_does_not_help() -> None:
    replica = ReplicaWithPods()
    replica.add_pod("p1", 4)
    assert "unused reservations" not in replica.message(1)
    nothing = ReplicaWithPods(CAP.replace("gpu: 4", "gpu: 0"))
    assert read_facts(nothing.message(1)) == "used=0 reserved=0 hard=0 free=0"


def test_reservations_that_are_already_counted_are_not_mentioned() -> None:
    replica = ReplicaWithPods()
    replica.add_pod("p1", 1)
    assert replica.request_pod("p1", 4, oldObject=stored_pod("p1", 0, "1", "team-a")) == 200
    replica.add_pod("p1", 4)
    replica.reconcile()
    assert len(replica.read_ledger().reservations) == 1
    assert read_facts(replica.message(1)) == "used=4 reserved=0 hard=4 free=0 pod-p1 4"


def test_reservations_under_a_cap_of_zero_are_not_mentioned() -> None:
    replica = ReplicaWithPods()
    assert replica.request_pod("u1", 4) == 200
    replica.policies = parse_policies(CAP.replace("gpu: 4", "gpu: 0"))
    assert "unused reservations" not in replica.message(1)


def test_reservations_are_named_without_an_expiry_if_pods_are_not_watched() -> None:
    fixture = GateFixture()
    fixture.admit(pod("u1", 3), name="first")
    message = response(fixture.admit(pod("u2", 3), name="second"))["status"]["message"]
    assert "Pod first (3, reserved). " in message
    assert "expire" not in message


def test_a_slow_listing_is_cached_for_ten_times_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = ReplicaWithPods()
    replica.add_pod("p1", 4)
    listings = 0
    list_groups = PodStore.list_groups

    def slow(*args: Any) -> Any:
        nonlocal listings
        listings += 1
        replica.now += 0.2
        return list_groups(*args)

    monkeypatch.setattr(PodStore, "list_groups", slow)
    assert "Pod pod-p1 (4)" in replica.message(1)
    replica.now += 1.9
    assert "Pod pod-p1 (4)" in replica.message(1)
    assert listings == 1
    replica.now += 0.2
    replica.message(1)
    assert listings == 2


def test_a_request_during_the_first_listing_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, messages, list_groups = ReplicaWithPods(), list[str](), PodStore.list_groups
    other = Thread(target=lambda: messages.append(replica.message(1)))
    listings: list[int] = []

    def request_during_listing(*args: Any) -> Any:
        listings.append(0)
        other.start()
        other.join(0.2)
        return list_groups(*args)

    replica.add_pod("p1", 4)
    monkeypatch.setattr(PodStore, "list_groups", request_during_listing)
    assert "Pod pod-p1 (4)" in replica.message(1)
    other.join(60)
    assert "Pod pod-p1 (4)" in messages[0]
    assert len(listings) == 1


def test_a_request_during_a_later_listing_uses_the_cached_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, messages, list_groups = ReplicaWithPods(LARGE), list[str](), PodStore.list_groups
    replica.add_pod("p1", 4)
    assert "Pod pod-p1 (4)" in replica.message(20)

    def request_during_listing(*args: Any) -> Any:
        monkeypatch.setattr(PodStore, "list_groups", list_groups)
        messages.append(replica.message(20))
        return list_groups(*args)

    replica.add_pod("p2", 5)
    monkeypatch.setattr(PodStore, "list_groups", request_during_listing)
    assert "Pod pod-p2 (5)" in replica.message(20)
    assert "Pod pod-p1 (4)" in messages[0]
    assert "Pod pod-p2" not in messages[0]
