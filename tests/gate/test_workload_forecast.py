"""What the caps say to a workload when it is applied."""

import json
from typing import Any, TypeVar

import pytest

from tests.gate.scene import CAP, GPU, Scene, pod, response
from webhook.admission.request import Phase
from webhook.state.ports import LedgerKey, StoreUnavailableError, Transition

T = TypeVar("T")

DENY = CAP + "  workloads: deny\n"
LIMITS = CAP.replace("nvidia.com/gpu: 4", "limits.memory: 4Gi")


def workload(gpus: int, kind: str = "Deployment", *, image: str = "a", **spec: Any) -> dict[str, Any]:
    """A workload whose pods ask for so many GPUs each."""
    template = pod("", gpus)
    template["spec"]["containers"][0]["image"] = image
    body: dict[str, Any] = {"template": template, **spec}
    return {"kind": kind, "spec": {"jobTemplate": {"spec": body}} if kind == "CronJob" else body}


def told(scene: Scene, object_: dict[str, Any], **request: Any) -> list[str]:
    """The warnings; the workload is stored."""
    group = "batch" if "Job" in object_["kind"] else "apps"
    kind = {"group": "" if object_["kind"] == "ReplicationController" else group, "kind": object_["kind"]}
    said = response(scene.admit(object_, **{"kind": kind, "name": "w"} | request))
    assert said["allowed"], said
    subject = f'{object_["kind"]} "w": '
    warnings: list[str] = said.get("warnings", [])
    assert all(warning.startswith(subject) for warning in warnings)
    return [warning.removeprefix(subject) for warning in warnings]


def refusal(scene: Scene, object_: dict[str, Any], **request: Any) -> dict[str, Any]:
    """The status of a refused Deployment."""
    kind = {"group": "apps", "kind": "Deployment"}
    status: dict[str, Any] = response(scene.admit(object_, **{"kind": kind, "name": "w"} | request))["status"]
    return status | {"message": status["message"].removeprefix('Deployment "w": ')}


def test_a_workload_that_fits_hears_nothing() -> None:
    assert told(Scene(), workload(1, replicas=4)) == []


def test_a_workload_that_can_never_run_whole_is_told_the_sum() -> None:
    (warning,) = told(Scene(), workload(2, replicas=3))
    assert warning == (
        "3 replicas request 6 nvidia.com/gpu, cap gpus of this namespace has hard 4: 2 of them can run at a time "
        "(TG204, cap gpus)"
    )


@pytest.mark.parametrize(
    ("kind", "spec", "sum_"),
    [
        ("StatefulSet", {"replicas": 3}, "3 replicas request 15"),
        ("ReplicaSet", {}, "1 replica requests 5"),
        ("ReplicationController", {"replicas": 1}, "1 replica requests 5"),
        ("DaemonSet", {}, "1 pod requests 5"),
        ("Job", {"parallelism": 3, "completions": 2}, "2 parallel pods request 10"),
        ("CronJob", {}, "1 parallel pod requests 5"),
    ],
)
def test_every_kind_counts_the_pods_that_it_runs_at_a_time(kind: str, spec: dict[str, Any], sum_: str) -> None:
    (warning,) = told(Scene(), workload(5, kind, **spec))
    assert warning == (
        f"{sum_} nvidia.com/gpu, cap gpus of this namespace has hard 4: none of them can ever run (TG204, cap gpus)"
    )


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {"replicas": 0}),
        ("Deployment", {"replicas": -1}),
        ("Job", {"suspend": True}),
        ("Job", {"parallelism": 0}),
    ],
)
def test_a_workload_without_pods_asks_nothing(kind: str, spec: dict[str, Any]) -> None:
    assert told(Scene(), workload(5, kind, **spec)) == []


def test_a_workload_with_room_later_but_not_now_is_told_who_waits() -> None:
    scene = Scene()
    scene.create(3)
    (warning,) = told(scene, workload(1, replicas=3))
    assert warning == (
        "3 replicas request 3 nvidia.com/gpu, cap gpus of this namespace has hard 4, free 1: "
        "2 wait until other pods end (TG205, cap gpus)"
    )
    assert scene.promised() == {GPU: 3}


def test_no_more_wait_than_are_asked_for_though_a_cap_is_overfull() -> None:
    scene = Scene(CAP.replace("4}", "6}"))
    scene.create(6)
    scene.policies = Scene().policies
    (warning,) = told(scene, workload(1, replicas=2))
    assert warning == (
        "2 replicas request 2 nvidia.com/gpu, cap gpus of this namespace has hard 4, free 0: "
        "2 wait until other pods end (TG205, cap gpus)"
    )


def test_a_change_is_told_of_what_it_adds_only() -> None:
    scene = Scene()
    scene.create(3)
    old = workload(1, replicas=3)
    assert told(scene, workload(1, replicas=4), oldObject=old) == []
    assert told(scene, workload(1, replicas=2), oldObject=old) == []
    assert told(scene, workload(2, replicas=5), oldObject=workload(2, replicas=6)) == []
    assert len(told(scene, workload(2, replicas=6), oldObject=workload(2, replicas=5))) == 1


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    """The strategy of a Deployment."""
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def test_a_rollout_without_room_for_its_first_pod_can_never_go_on() -> None:
    new, old = (workload(1, image=image, replicas=4, strategy=rolling(1, 0)) for image in "ba")
    text = (
        "with 1 more during a rollout, 5 replicas request 5 nvidia.com/gpu, cap gpus of this namespace has hard 4: "
        "the rollout can never proceed, since maxUnavailable lets no old pod end first (TG206, cap gpus)"
    )
    assert told(Scene(), new, oldObject=old) == [text]
    assert told(Scene(), old) == [text]
    assert told(Scene(), old, oldObject=old) == []
    assert refusal(Scene(DENY), new, oldObject=old)["message"] == text
    assert told(Scene(DENY), old) == [text]


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (rolling("25%", "25%"), "the rollout proceeds only as old pods end"),
        (None, "the rollout proceeds only as old pods end"),
        (rolling("50%", "0%"), "the rollout can never proceed"),
        (rolling(0, 1), ""),
        (rolling("0%", "10%"), ""),  # both come to nothing, and then one may be unavailable
        ({"type": "Recreate"}, ""),
    ],
)
def test_a_rollout_is_told_how_it_will_go(strategy: dict[str, Any] | None, said: str) -> None:
    new, old = (workload(1, image=image, replicas=4, strategy=strategy) for image in "ba")
    warnings = told(Scene(), new, oldObject=old)
    assert [said in warning for warning in warnings] == ([True] if said else [])


@pytest.mark.parametrize(
    ("gpus", "replicas", "strategy", "said"),
    [
        pytest.param(1, 3, rolling(1, 0), "", id="room for its one pod more is enough"),
        pytest.param(1, 4, rolling(1, 0), "the rollout can never proceed", id="no room for one more"),
        pytest.param(1, 3, rolling(2, 0), "the rollout proceeds only as old pods end", id="room for one of two more"),
        pytest.param(2, 1, rolling(1, 0), "", id="room for one more of two GPUs"),
        pytest.param(2, 2, rolling(1, 0), "the rollout can never proceed", id="no room for one more of two GPUs"),
        pytest.param(
            2, 1, rolling(2, 0), "the rollout proceeds only as old pods end", id="room for one of two more of two GPUs"
        ),
    ],
)
def test_a_rollout_that_may_end_no_pod_first_needs_room_for_one_more(
    gpus: int, replicas: int, strategy: dict[str, Any], said: str
) -> None:
    new, old = (workload(gpus, image=image, replicas=replicas, strategy=strategy) for image in "ba")
    warnings = told(Scene(), new, oldObject=old)
    assert [said in warning for warning in warnings] == ([True] if said else [])


@pytest.mark.parametrize(
    ("strategy", "held", "asks", "end"),
    [
        (rolling(1, 0), 3, "2 replicas request 2", "free 0: no new pod starts until others end"),
        (rolling(1, 1), 3, "2 replicas request 2", "free 0: the rollout proceeds only as pods end"),
        (rolling(2, 0), 2, "3 replicas request 3", "free 1: the rollout proceeds only as pods end"),
        (rolling(1, 0), 2, "", ""),
        ({"type": "Recreate"}, 3, "", ""),
    ],
)
def test_a_rollout_that_has_no_room_beside_what_others_hold_is_told(
    strategy: dict[str, Any], held: int, asks: str, end: str
) -> None:
    scene = Scene()
    scene.create(held)
    scene.create(1)  # its own, as it runs
    new, old = (workload(1, image=image, replicas=1, strategy=strategy) for image in "ba")
    more = strategy.get("rollingUpdate", {}).get("maxSurge")
    said = f"with {more} more during a rollout, {asks} {GPU}, cap gpus of this namespace has hard 4, {end}"
    assert told(scene, new, oldObject=old) == ([f"{said} (TG206, cap gpus)"] if end else [])
    assert told(scene, old, oldObject=old) == []


def test_a_cap_may_refuse_what_it_could_never_hold_but_not_what_must_wait() -> None:
    scene = Scene(DENY)
    status = refusal(scene, workload(2, replicas=3))
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].endswith("2 of them can run at a time (TG204, cap gpus)")
    scene.create(3)
    assert len(told(scene, workload(1, replicas=3))) == 1


def test_a_cap_may_ignore_workloads() -> None:
    assert told(Scene(DENY.replace("deny", "ignore")), workload(2, replicas=3)) == []


def test_what_a_controller_makes_for_a_judged_workload_is_not_told_again() -> None:
    owned = workload(2, "ReplicaSet", replicas=3)
    owned["metadata"] = {"ownerReferences": [{"controller": True, "kind": "Deployment"}]}
    assert told(Scene(), owned) == []
    owned["metadata"]["ownerReferences"][0]["controller"] = False
    assert len(told(Scene(), owned)) == 1


def test_templates_without_a_counted_limit_are_told_before_their_pods_are_refused() -> None:
    (warning,) = told(Scene(LIMITS), workload(1))
    assert warning == (
        "spec.template.spec.containers: cap gpus counts limits.memory, which is missing on c: set it (TG203, cap gpus)"
    )
    assert refusal(Scene(LIMITS + "  workloads: deny\n"), workload(1))["code"] == 403


def test_a_limit_that_a_stored_template_lacks_too_is_not_told_at_every_update() -> None:
    assert told(Scene(LIMITS), workload(1, image="b"), oldObject=workload(1)) == []
    more = workload(1)
    more["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"})
    (warning,) = told(Scene(LIMITS), more, oldObject=workload(1))
    assert "which is missing on sidecar: set it" in warning


def test_the_filter_of_a_cap_goes_by_the_template() -> None:
    text = CAP + "  pods: {objectSelector: {matchLabels: {tier: batch}}}\n"
    batch = workload(2, replicas=3)
    assert told(Scene(text), batch) == []
    batch["spec"]["template"]["metadata"]["labels"] = {"tier": "batch"}
    assert len(told(Scene(text), batch)) == 1


def test_a_namespace_whose_labels_nobody_knows_is_not_told() -> None:
    text = CAP.replace('include: ["team-*"]', "selector: {matchLabels: {a: b}}")
    assert told(Scene(text), workload(2, replicas=3)) == []


def test_a_ledger_out_of_reach_stops_no_workload() -> None:
    class Away:
        """Ledgers that nobody reaches."""

        is_standalone = False

        def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
            """Say so."""
            raise StoreUnavailableError(f"{key} {attempt} {deadline}")

    scene = Scene(DENY, ledgers=Away())
    assert told(scene, workload(1, replicas=3)) == []
    assert refusal(scene, workload(2, replicas=3))["code"] == 403


def test_nothing_is_foreseen_in_the_mutating_phase() -> None:
    assert told(Scene(), workload(2, replicas=3), phase=Phase.MUTATING) == []


def test_the_record_names_what_was_told() -> None:
    scene = Scene()
    answer = scene.admit(workload(2, replicas=3), kind={"group": "apps", "kind": "Deployment"})
    assert answer.record.warnings == ("TG204",)
    assert json.loads(answer.body)["response"]["allowed"]
