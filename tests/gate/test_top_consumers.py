"""What a refusal tells beside its arithmetic: who holds most, and when what is only promised is free again."""

from typing import Any

import pytest

from tests.admission.case import policies
from tests.gate.scene import CAP, Scene, pod, response
from tests.gate.world import BOUND, World
from tests.state.informers.pods import pod as stored_pod
from webhook.state.informers.pod_store import PodStore

SHARED = CAP.replace("hard:", "shared: true\n  hard:")
LARGE = CAP.replace("gpu: 4", "gpu: 20")
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TEMPLATE = "6c9f"


def owned(kind: str, name: str) -> dict[str, Any]:
    """The metadata of a workload's pod."""
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


class Seen(World):
    """A world in which the watch has told of some pods, and ledgers are open."""

    def __init__(self, text: str = CAP, namespaces: tuple[str, ...] = ("team-a", "team-b")) -> None:
        super().__init__(text, namespaces)
        self.open()

    def there(self, uid: str, gpus: int, namespace: str = "team-a", **metadata: Any) -> None:
        """A pod is stored and seen."""
        self.store(uid, gpus, namespace)["metadata"] |= metadata
        self.see(uid)

    def message(self, gpus: int, namespace: str = "team-a") -> str:
        """What a pod is refused with, as far as it is about this cap's room."""
        answer = self.admit(stored_pod("asks", 0, str(gpus), namespace), namespace=namespace, name="asks")
        text: str = response(answer)["status"]["message"]
        return text[text.index("used") : text.index(" (TG201")]


def test_workloads_are_named_by_what_people_applied_and_pods_of_nobody_by_themselves() -> None:
    world = Seen(LARGE)
    for number in range(3):
        labels = {"labels": {"pod-template-hash": TEMPLATE}}
        world.there(f"d{number}", 2, **owned("ReplicaSet", f"trainer-{TEMPLATE}") | labels)
    world.there("s1", 4, **owned("StatefulSet", "db"))
    world.there("p1", 5)
    world.there("p2", 1)
    assert world.message(5) == (
        "used 16, reserved 0, hard 20, free 4; top consumers: Deployment trainer (6), Pod pod-p1 (5), StatefulSet db "
        "(4). Request 4 or less, or wait until pods end"
    )


def test_pods_that_are_being_deleted_are_marked() -> None:
    world = Seen(LARGE)
    world.there("p1", 7, **GOING)
    for number in range(2):
        world.there(f"r{number}", 3, **owned("Job", "eval") | (GOING if number else {}))
    assert "top consumers: Pod pod-p1 (7, terminating), Job eval (6, 3 terminating)." in world.message(9)


def test_pods_that_have_ended_hold_nothing_and_are_not_named() -> None:
    world = Seen()
    world.there("p1", 3)
    ended = world.store("p2", 4)
    ended["status"] = {"phase": "Succeeded"}
    world.see("p2")
    assert "top consumers: Pod pod-p1 (3)." in world.message(2)


def test_of_a_shared_cap_the_namespaces_are_named_with_what_is_promised_to_them() -> None:
    world = Seen(SHARED, ("team-a", "team-b", "team-c", "team-d"))
    world.there("p1", 1, "team-b")
    world.there("p2", 2, "team-c", **GOING)
    assert world.code("u1", 1, "team-b") == 200
    assert world.message(1, "team-a") == (
        "used 3, reserved 1, hard 4, free 0; top consumers: namespace team-b (2, 1 reserved), "
        "namespace team-c (2, terminating). Wait until pods end; unused reservations expire within 45 s"
    )


def test_a_cap_may_keep_its_holders_to_itself() -> None:
    world = Seen(CAP + "  showTopConsumers: false\n")
    world.there("p1", 4)
    assert world.message(1) == "used 4, reserved 0, hard 4, free 0. Wait until pods end"


def test_at_most_three_are_named_those_of_equal_amounts_in_order() -> None:
    world = Seen(LARGE)
    for letter in "dbcaef":
        world.there(letter, 3)
    assert "top consumers: Pod pod-a (3), Pod pod-b (3), Pod pod-c (3)." in world.message(9)


def test_owners_that_are_none_are_not_repeated() -> None:
    world = Seen(LARGE)
    world.there("a", 3, **owned("Evil\x1b[31m", "x"))
    world.there("b", 2, **owned("Thing", "n" * 5000))
    assert "top consumers: Pod pod-a (3), Pod pod-b (2)." in world.message(20)


@pytest.mark.parametrize(
    ("kind", "label"),
    [("ReplicaSet", "other"), ("Rollout", TEMPLATE)],
    ids=["a replica set of its own", "another kind that names its pods by their template"],
)
def test_whoever_is_no_replica_set_of_a_deployment_keeps_its_name(kind: str, label: str) -> None:
    world = Seen()
    world.there("a", 3, labels={"pod-template-hash": label}, **owned(kind, f"trainer-{TEMPLATE}"))
    assert f"top consumers: {kind} trainer-{TEMPLATE} (3)." in world.message(2)


def test_a_promise_grows_old_by_the_clock_of_who_keeps_it() -> None:
    world = Seen()
    assert world.code("u1", 4) == 200
    assert world.message(1).endswith("unused reservations expire within 45 s")
    world.keep()
    world.now += 20
    assert world.message(1).endswith("unused reservations expire within 25 s")
    world.now += 300
    assert world.message(1).endswith("unused reservations expire within 5 s")


def test_what_is_said_to_be_free_by_then_is_free_by_then() -> None:
    world = Seen()
    assert world.code("u1", 4) == 200
    world.keep()
    told = int(world.message(1).rsplit(" ", 2)[1])
    for _ in range(told):
        world.keep(1)
    assert world.code("u2", 4) == 200
    assert told < BOUND + 10


def test_the_promise_that_was_made_last_decides() -> None:
    world = Seen()
    assert world.code("u1", 2) == 200
    world.keep()
    world.now += 30
    assert world.code("u2", 2) == 200
    world.keep()
    world.now += 5
    assert world.message(1).endswith("expire within 40 s")


def test_nothing_is_said_of_promises_where_none_are_or_waiting_does_not_help() -> None:
    world = Seen()
    world.there("p1", 4)
    assert "unused reservations" not in world.message(1)
    nothing = Seen(CAP.replace("gpu: 4", "gpu: 0"))
    assert nothing.message(1) == "used 0, reserved 0, hard 0, free 0. The cap allows none in this namespace"


def test_nothing_is_said_of_reservations_that_are_counted_already() -> None:
    world = Seen()
    world.there("p1", 1)
    assert world.code("p1", 4, oldObject=stored_pod("p1", 0, "1", "team-a")) == 200
    world.there("p1", 4)
    world.keep()
    assert len(world.kept().reservations) == 1
    assert world.message(1).endswith(
        "used 4, reserved 0, hard 4, free 0; top consumers: Pod pod-p1 (4). Wait until pods end"
    )


def test_nothing_is_said_of_reservations_under_a_cap_that_allows_nothing_any_more() -> None:
    world = Seen()
    assert world.code("u1", 4) == 200
    world.policies = policies(CAP.replace("gpu: 4", "gpu: 0"))
    assert world.message(1).endswith("The cap allows none in this namespace")


def test_without_a_watch_the_promises_themselves_are_named_and_never_said_to_come_back() -> None:
    scene = Scene()
    scene.admit(pod("u1", 3), name="first")
    message = response(scene.admit(pod("u2", 3), name="second"))["status"]["message"]
    assert "free 1; top consumers: Pod first (3, reserved). Request 1 or less, or wait until pods end (" in message


def test_a_look_that_took_long_is_good_for_ten_times_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Seen()
    world.there("p1", 4)
    looks = 0
    list_groups = PodStore.list_groups

    def slow(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        world.now += 0.2
        return list_groups(*args)

    monkeypatch.setattr(PodStore, "list_groups", slow)
    assert "Pod pod-p1 (4)" in world.message(1)
    world.now += 1.9
    assert "Pod pod-p1 (4)" in world.message(1)
    assert looks == 1
    world.now += 0.2
    world.message(1)
    assert looks == 2


def test_who_asks_while_another_looks_makes_do_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Seen()
    world.there("p1", 4)
    list_groups = PodStore.list_groups
    within: list[str] = []

    def asked_again(*args: Any) -> Any:
        monkeypatch.setattr(PodStore, "list_groups", list_groups)
        within.append(world.message(1))
        return list_groups(*args)

    monkeypatch.setattr(PodStore, "list_groups", asked_again)
    assert "Pod pod-p1 (4)" in world.message(1)
    assert within == ["used 4, reserved 0, hard 4, free 0. Wait until pods end"]
