"""The hours of devices since a server began: what counts as what, whose they are, and their bounds."""

from typing import Any

import pytest

from tallygate.answers import live_hours
from tallygate.answers.device_hours import OTHERS, Grouping
from tallygate.answers.live_hours import HoursQuestion, LiveHours
from tallygate.cluster.device_times import MAX_LABEL_CHARACTERS
from tallygate.kube.resource_codec import Changed, Deleted, Replaced, WatchEvent
from tallygate.state.informers.named_stores import NamespaceRecord
from tests.answers.device_histories import BEGIN, GPU, NIC, ClaimLife, Life, PodLife, Watcher

END = BEGIN + 100
CLAIM = ClaimLife("c", "team-a", BEGIN, ((BEGIN + 10, BEGIN + 60),), BEGIN + 80)
POD = PodLife("p", "team-a", BEGIN, BEGIN + 20, BEGIN + 50, BEGIN + 60, labels=(("team", "vision"),), owner="train")


def list_workloads(*lives: Life, until: int = END, by: str = "workload") -> list[tuple[Any, ...]]:
    """Return workload or value, name of devices, seconds, pods and claims of each item of an answer."""
    watcher = Watcher(lives, BEGIN)
    watcher.watch_until(until)
    return list_items(watcher.answer(by))


def list_items(answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    keys = "value" if answer["by"].startswith("label") else "workload", "resource", "seconds", "pods", "claims"
    return [tuple(item[key] for key in keys) for item in answer["items"]]


def test_a_claim_counts_from_its_allocation_until_that_is_removed() -> None:
    assert list_workloads(CLAIM) == [("ResourceClaim c", GPU, 50, 0, 1)]
    assert list_workloads(CLAIM, until=BEGIN + 40) == [("ResourceClaim c", GPU, 30, 0, 1)]
    assert list_workloads(CLAIM._replace(deleted=BEGIN + 30)) == [("ResourceClaim c", GPU, 20, 0, 1)]


def test_a_claim_of_several_pods_counts_once() -> None:
    pods = [POD._replace(uid=uid, amount=0, owner=uid) for uid in ("p1", "p2")]
    assert list_workloads(CLAIM._replace(users=("p1", "p2")), *pods) == [("ResourceClaim c", GPU, 50, 0, 1)]


@pytest.mark.parametrize("deleted", [BEGIN + 55, BEGIN + 60, BEGIN + 90])
def test_a_claim_of_a_template_belongs_to_the_workload_of_its_pod(deleted: int) -> None:
    """Expect it whichever of both ends first, and the labels of the pod."""
    claim, pod = CLAIM._replace(pod="p"), POD._replace(amount=0, deleted=deleted)
    assert list_workloads(claim, pod) == [("Job train", GPU, 50, 0, 1)]
    assert list_workloads(claim, pod, by="label=team") == [("vision", GPU, 50, 0, 1)]
    assert list_workloads(claim, pod._replace(owner="")) == [("Pod p", GPU, 50, 0, 1)]


def test_a_claim_does_not_name_a_pod_of_another_namespace() -> None:
    """Write an owner into a claim as its user may: the report of his namespace has no workload of the other one."""
    stranger = POD._replace(namespace="team-b", amount=0)
    assert list_workloads(CLAIM._replace(pod="p"), stranger) == [("ResourceClaim c", GPU, 50, 0, 1)]


def test_a_claim_of_kube_scheduler_counts_what_its_pod_does_not() -> None:
    """Expect the whole claim where the status of the pod does not name it."""
    claim = CLAIM._replace(pod="p", users=("p",), is_of_scheduler=True)
    pod = POD._replace(claim_name="c")
    assert list_workloads(claim, pod) == [("Job train", GPU, 30, 1, 0)]
    assert list_workloads(claim._replace(amount=3), pod) == [("Job train", GPU, 130, 1, 1)]
    assert list_workloads(claim, pod._replace(claim_name="another")) == [("Job train", GPU, 80, 1, 1)]
    assert list_workloads(claim._replace(users=()), pod) == [("Job train", GPU, 80, 1, 1)]


def test_devices_of_a_class_have_one_name() -> None:
    """Expect the extended resource of the class, by whatever way they were requested, else the name of the class."""
    nic = CLAIM._replace(uid="nic", device_class="nic")
    by_class = POD._replace(resource="deviceclass.resource.kubernetes.io/gpu", owner="")
    by_other = POD._replace(uid="o", resource="deviceclass.resource.kubernetes.io/nic", owner="")
    found = list_workloads(nic, by_class, by_other, POD._replace(uid="e", owner=""))
    assert {item[:3] for item in found} == {
        ("ResourceClaim nic", NIC, 50),
        ("Pod p", GPU, 30),
        ("Pod o", NIC, 30),
        ("Pod e", GPU, 30),
    }


def test_pods_without_devices_or_a_node_have_no_hours() -> None:
    waiting = POD._replace(started=END + 1, ended=END + 2, deleted=END + 3)
    cpu = POD._replace(uid="c", resource="cpu")
    assert list_workloads(waiting, cpu, POD._replace(uid="z", amount=0)) == []


def test_what_was_before_the_first_list_is_not_counted() -> None:
    pod = POD._replace(created=BEGIN - 50, started=BEGIN - 40, ended=BEGIN + 50)
    ended = POD._replace(uid="e", created=BEGIN - 50, started=BEGIN - 40, ended=BEGIN - 5, owner="before")
    assert list_workloads(pod, ended) == [("Job train", GPU, 50, 1, 0)]


def test_a_list_after_an_interruption_loses_nothing_that_statuses_tell() -> None:
    """Interrupt the watch while a pod starts and ends, one ends without a trace, and one runs."""
    long_ago = POD._replace(uid="long", created=BEGIN - 9, started=BEGIN - 5, ended=END + 5, deleted=END + 6, owner="")
    lost = long_ago._replace(uid="lost", ended=BEGIN + 30, deleted=BEGIN + 31)
    watcher = Watcher([POD._replace(deleted=END), lost, long_ago], BEGIN)
    watcher.watch_until(BEGIN + 10)
    watcher.now = BEGIN + 55
    watcher.list_all()
    watcher.watch_until(BEGIN + 60)
    answer = watcher.answer("workload")
    bounds = {item["workload"]: (item["seconds"], item["secondsAtMost"]) for item in answer["items"]}
    assert bounds == {"Job train": (30, 30), "Pod lost": (10, 55), "Pod long": (60, 60)}
    assert answer["longestGapSeconds"] == 45
    assert "the watch was interrupted for up to 0 min 45 s" in answer["notes"][1]


def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    watcher = Watcher([POD], BEGIN)
    watcher.watch_until(BEGIN + 40)
    watcher.now = BEGIN - 1000
    watcher.list_all()
    assert list_items(watcher.answer("workload")) == [("Job train", GPU, 20, 1, 0)]


def create_pods(number: int, namespace: str, **more: Any) -> list[PodLife]:
    """Return pods one after the other, each with a workload of its own."""
    return [
        POD._replace(
            uid=f"{namespace}-{index}",
            namespace=namespace,
            owner=f"run-{index}",
            created=BEGIN,
            started=BEGIN + index,
            ended=BEGIN + index + 1,
            deleted=BEGIN + index + 1,
            **more,
        )
        for index in range(number)
    ]


def test_old_workloads_of_the_namespace_with_the_most_become_one() -> None:
    """Expect the workloads of the other namespace, and exact sums of both."""
    watcher = Watcher([*create_pods(50, "many"), *create_pods(2, "few")], BEGIN, 12)
    watcher.watch_until(END)
    assert list_items(watcher.answer("workload", "few")) == [
        ("Job run-0", GPU, 1, 1, 0),
        ("Job run-1", GPU, 1, 1, 0),
    ]
    many = watcher.answer("workload", "many")
    assert list_items(many)[0][0] is None
    assert ("Job run-49", GPU, 1, 1, 0) in list_items(many)
    assert sum(item["seconds"] for item in many["items"]) == 50
    assert any(note.startswith(OTHERS) for note in many["notes"])
    assert len(watcher.hours._ended) <= 12  # noqa: SLF001  # its memory


def test_notes_name_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw more namespaces, and more names of devices, than are kept."""
    watcher = Watcher([pod for number in range(9) for pod in create_pods(1, f"n-{number}")], BEGIN, 4)
    watcher.watch_until(END)
    answer = watcher.answer()
    assert len(answer["items"]) == 4
    assert "5 sums of a namespace and a name of devices are left out" in answer["notes"][-1]
    monkeypatch.setattr(live_hours, "_MAX_OTHERS", 2)
    invented = [pod._replace(resource=f"x.com/{pod.uid}") for pod in create_pods(9, "n")]
    watcher = Watcher(invented, BEGIN, 4)
    watcher.watch_until(END)
    assert "left out" in watcher.answer()["notes"][-1]
    assert len(watcher.hours._ended) <= 4  # noqa: SLF001  # its memory


def test_long_labels_are_not_kept() -> None:
    pod = POD._replace(labels=(("team", "x" * MAX_LABEL_CHARACTERS),))
    assert list_workloads(pod, by="label=team") == [(None, GPU, 30, 1, 0)]


def test_labels_of_one_pod_do_not_split_what_has_ended() -> None:
    pods = [
        pod._replace(owner="train", labels=(("batch.kubernetes.io/job-completion-index", pod.uid),))
        for pod in create_pods(9, "team-a")
    ]
    watcher = Watcher(pods, BEGIN)
    watcher.watch_until(END)
    assert len(watcher.hours._ended) == 1  # noqa: SLF001  # its memory


def test_no_names_are_kept_of_a_deleted_namespace() -> None:
    """Delete a namespace before the last of its pods is seen to end, and while no watch runs."""
    events: list[WatchEvent[NamespaceRecord]] = [Deleted(NamespaceRecord("u", "many", 5, {}), 5), Replaced([], 5)]
    for event in events:
        watcher = Watcher(create_pods(3, "many"), BEGIN)
        namespaces = [NamespaceRecord("u", "many", 1, {})]
        watcher.hours.apply_namespaces(Replaced(namespaces, 1))
        watcher.watch_until(BEGIN + 2)
        assert ("Job run-0", GPU, 1, 1, 0) in list_items(watcher.answer("workload"))
        watcher.hours.apply_namespaces(event)
        watcher.watch_until(END)
        watcher.hours.apply_namespaces(Changed(NamespaceRecord("v", "many", 9, {}), 9))
        assert list_items(watcher.answer("workload")) == [(None, GPU, 3, 3, 0)]


def test_notes_name_what_is_not_known_of_claims() -> None:
    hours = LiveHours(lambda: BEGIN, dict)
    question = HoursQuestion(None, "namespace", Grouping())
    hours.apply_pods(Replaced([], 1))
    answer = hours.answer(question, BEGIN, "it may not list resourceclaims", lambda: None)
    assert answer["notes"][1:] == ["not all claims for devices are counted: it may not list resourceclaims"]
    watcher = Watcher([CLAIM], BEGIN)
    watcher.hours = LiveHours(lambda: watcher.now, dict)
    watcher.hours.apply_pods(Replaced([], 1))
    watcher.now += 30
    watcher.list_all()
    assert watcher.answer()["notes"][-1] == "claims for devices are known since 2023-11-14T22:13:50Z"
