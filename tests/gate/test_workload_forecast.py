"""Warnings of caps about a workload at its admission."""

import json
from typing import Any, TypeVar

import pytest

from tallygate.admission.request import Phase
from tallygate.state.ports import LedgerKey, StoreUnavailableError, Transition
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, read_facts, response

T = TypeVar("T")

DENY = CAP + "  workloads: deny\n"
LIMITS = CAP.replace("nvidia.com/gpu: 4", "limits.memory: 4Gi")


def workload(gpus: int, kind: str = "Deployment", *, image: str = "a", **spec: Any) -> dict[str, Any]:
    """Return a workload whose pods request the given GPUs each."""
    template = pod("", gpus)
    template["spec"]["containers"][0]["image"] = image
    body: dict[str, Any] = {"template": template, **spec}
    return {"kind": kind, "spec": {"jobTemplate": {"spec": body}} if kind == "CronJob" else body}


def list_warnings(fixture: GateFixture, object_: dict[str, Any], **request: Any) -> list[str]:
    """Return the facts of each warning about a workload, which must be allowed."""
    return [read_facts(message) for message in list_messages(fixture, object_, **request)]


def list_messages(fixture: GateFixture, object_: dict[str, Any], **request: Any) -> list[str]:
    """Return the warnings about a workload, which must be allowed."""
    group = "batch" if "Job" in object_["kind"] else "apps"
    kind = {"group": "" if object_["kind"] == "ReplicationController" else group, "kind": object_["kind"]}
    result = response(fixture.admit(object_, **{"kind": kind, "name": "w"} | request))
    assert result["allowed"], result
    subject = f'{object_["kind"]} "w": '
    warnings: list[str] = result.get("warnings", [])
    assert all(warning.startswith(subject) for warning in warnings)
    return [warning.removeprefix(subject) for warning in warnings]


def get_rejection(fixture: GateFixture, object_: dict[str, Any], **request: Any) -> dict[str, Any]:
    """Return the status of a denied Deployment, with the facts of its message."""
    kind = {"group": "apps", "kind": "Deployment"}
    status: dict[str, Any] = response(fixture.admit(object_, **{"kind": kind, "name": "w"} | request))["status"]
    return status | {"message": read_facts(status["message"].removeprefix('Deployment "w": '))}


def test_a_workload_that_fits_gets_no_warning() -> None:
    assert list_warnings(GateFixture(), workload(1, replicas=4)) == []


def test_a_workload_larger_than_the_cap_is_warned_with_the_sum() -> None:
    (warning,) = list_warnings(GateFixture(), workload(2, replicas=3))
    assert warning == "3 6 nvidia.com/gpu gpus hard=4 2 TG204 gpus"


@pytest.mark.parametrize(
    ("kind", "spec", "counts"),
    [
        ("StatefulSet", {"replicas": 3}, "3 15"),
        ("ReplicaSet", {}, "1 5"),
        ("ReplicationController", {"replicas": 1}, "1 5"),
        ("Job", {"parallelism": 3, "completions": 2}, "2 10"),
        ("CronJob", {}, "1 5"),
    ],
)
def test_every_kind_counts_the_pods_that_it_runs_at_a_time(kind: str, spec: dict[str, Any], counts: str) -> None:
    (warning,) = list_warnings(GateFixture(), workload(5, kind, **spec))
    assert warning == f"{counts} nvidia.com/gpu gpus hard=4 TG204 gpus"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {"replicas": 0}),
        ("Deployment", {"replicas": -1}),
        ("Job", {"suspend": True}),
        ("Job", {"parallelism": 0}),
    ],
)
def test_a_workload_without_pods_gets_no_warning(kind: str, spec: dict[str, Any]) -> None:
    assert list_warnings(GateFixture(), workload(5, kind, **spec)) == []


@pytest.mark.parametrize(
    ("used", "end"),
    [
        (1, "free=3 1 2"),
        (3, "free=1 2"),
    ],
)
def test_a_workload_larger_than_the_cap_is_warned_how_many_pods_can_run_next_to_others(used: int, end: str) -> None:
    fixture = GateFixture()
    fixture.create(used)
    (warning,) = list_warnings(fixture, workload(2, replicas=3))
    assert warning == f"3 6 nvidia.com/gpu gpus hard=4 {end} TG204 gpus"


def test_the_pods_of_the_workload_itself_leave_room_for_those_of_its_change() -> None:
    fixture = GateFixture()
    fixture.create(3)
    (warning,) = list_warnings(fixture, workload(1, replicas=5), oldObject=workload(1, replicas=3))
    assert warning.endswith("hard=4 4 TG204 gpus")


def test_the_pods_of_the_workload_itself_can_run_besides_what_is_free_next_to_others() -> None:
    fixture = GateFixture()
    fixture.create(3)
    (warning,) = list_warnings(fixture, workload(1, replicas=5), oldObject=workload(1, replicas=2))
    assert warning.endswith("hard=4 free=1 3 4 TG204 gpus")


def test_a_workload_over_the_free_amount_is_warned_how_many_pods_wait() -> None:
    fixture = GateFixture()
    fixture.create(3)
    (warning,) = list_warnings(fixture, workload(1, replicas=3))
    assert warning == "3 3 nvidia.com/gpu gpus hard=4 free=1 2 TG205 gpus"
    assert fixture.read_reserved() == {GPU: 3}


def test_no_more_pods_wait_than_are_requested_under_an_exceeded_cap() -> None:
    fixture = GateFixture(CAP.replace("4}", "6}"))
    fixture.create(6)
    fixture.policies = GateFixture().policies
    (warning,) = list_warnings(fixture, workload(1, replicas=2))
    assert warning == "2 2 nvidia.com/gpu gpus hard=4 free=0 2 TG205 gpus"


def test_a_change_is_warned_only_about_its_growth() -> None:
    fixture = GateFixture()
    fixture.create(3)
    old = workload(1, replicas=3)
    assert list_warnings(fixture, workload(1, replicas=4), oldObject=old) == []
    assert list_warnings(fixture, workload(1, replicas=2), oldObject=old) == []
    assert list_warnings(fixture, workload(2, replicas=5), oldObject=workload(2, replicas=6)) == []
    assert len(list_warnings(fixture, workload(2, replicas=6), oldObject=workload(2, replicas=5))) == 1


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    """Return the strategy of a rolling update."""
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def test_a_rollout_over_the_cap_can_never_proceed() -> None:
    new, old = (workload(1, image=image, replicas=4, strategy=rolling(1, 0)) for image in "ba")
    text = "1 5 5 nvidia.com/gpu gpus hard=4 never maxUnavailable TG206 gpus"
    assert list_warnings(GateFixture(), new, oldObject=old) == [text]
    assert list_warnings(GateFixture(), old) == [text]
    assert list_warnings(GateFixture(), old, oldObject=old) == []
    assert get_rejection(GateFixture(DENY), new, oldObject=old)["message"] == text
    assert list_warnings(GateFixture(DENY), old) == [text]


_NEVER, _ONLY_AS_OLD_PODS_END = "hard=4 never maxUnavailable TG206", "hard=4 TG206"


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        (rolling("25%", "25%"), _ONLY_AS_OLD_PODS_END),
        (None, _ONLY_AS_OLD_PODS_END),
        (rolling("50%", "0%"), _NEVER),
        (rolling(0, 1), ""),
        (rolling("0%", "10%"), ""),  # both are rounded to zero, and then one pod can be unavailable
        ({"type": "Recreate"}, ""),
    ],
)
def test_a_rollout_is_warned_how_it_proceeds(strategy: dict[str, Any] | None, text: str) -> None:
    new, old = (workload(1, image=image, replicas=4, strategy=strategy) for image in "ba")
    warnings = list_warnings(GateFixture(), new, oldObject=old)
    assert [text in warning for warning in warnings] == ([True] if text else [])


@pytest.mark.parametrize(
    ("gpus", "replicas", "strategy", "text"),
    [
        pytest.param(1, 3, rolling(1, 0), "", id="one more pod fits"),
        pytest.param(1, 4, rolling(1, 0), _NEVER, id="one more pod does not fit"),
        pytest.param(1, 3, rolling(2, 0), _ONLY_AS_OLD_PODS_END, id="one of two more pods fits"),
        pytest.param(2, 1, rolling(1, 0), "", id="one more pod of two GPUs fits"),
        pytest.param(2, 2, rolling(1, 0), _NEVER, id="one more pod of two GPUs does not fit"),
        pytest.param(2, 1, rolling(2, 0), "", id="there is one new pod at most"),
        pytest.param(5, 0, rolling(1, 0), "", id="there are no pods"),
    ],
)
def test_a_rollout_that_ends_no_pod_first_needs_one_more_pod(
    gpus: int, replicas: int, strategy: dict[str, Any], text: str
) -> None:
    new, old = (workload(gpus, image=image, replicas=replicas, strategy=strategy) for image in "ba")
    warnings = list_warnings(GateFixture(), new, oldObject=old)
    assert [text in warning for warning in warnings] == ([True] if text else [])


@pytest.mark.parametrize(
    ("strategy", "replicas", "requests", "end"),
    [
        (rolling(1, 0), 1, "2 replicas request 2", "free 0: no new pod starts until others end"),
        (rolling(1, 1), 1, "2 replicas request 2", "free 0: the rollout proceeds only as pods end"),
        (rolling(2, 0), 2, "4 replicas request 4", "free 1: the rollout proceeds only as pods end"),
        (rolling(1, 0), 2, "", ""),
        ({"type": "Recreate"}, 1, "", ""),
    ],
)
def test_a_rollout_over_the_free_amount_is_warned(
    strategy: dict[str, Any], replicas: int, requests: str, end: str
) -> None:
    fixture = GateFixture()
    fixture.create(3 if replicas == 1 else 1)
    fixture.create(replicas)  # the own pods, which run
    new, old = (workload(1, image=image, replicas=replicas, strategy=strategy) for image in "ba")
    more = strategy.get("rollingUpdate", {}).get("maxSurge")
    text = f"with {more} more during a rollout, {requests} {GPU}, cap gpus of this namespace has hard 4, {end}"
    assert list_messages(fixture, new, oldObject=old) == ([f"{text} (TG206, cap gpus)"] if end else [])
    assert list_warnings(fixture, old, oldObject=old) == []


def test_a_new_workload_is_warned_of_the_pods_that_wait_now_and_of_its_next_rollout() -> None:
    fixture = GateFixture()
    fixture.create(3)
    waiting, rollout = list_warnings(fixture, workload(1, replicas=4, strategy=rolling(1, 0)))
    assert waiting == "4 4 nvidia.com/gpu gpus hard=4 free=1 3 TG205 gpus"
    assert _NEVER in rollout


def test_a_grown_workload_is_warned_of_the_pods_that_wait_and_of_its_rollout() -> None:
    fixture = GateFixture()
    fixture.create(1)
    fixture.create(3)
    new, old = (
        workload(1, image=image, replicas=replicas, strategy=rolling(3, 1)) for image, replicas in (("b", 3), ("a", 1))
    )
    warnings = list_warnings(fixture, new, oldObject=old)
    assert ["TG205" in each for each in warnings] == [True, False]
    assert _ONLY_AS_OLD_PODS_END in warnings[1]


def test_a_cap_can_deny_a_workload_that_never_fits_but_not_one_that_waits() -> None:
    fixture = GateFixture(DENY)
    status = get_rejection(fixture, workload(2, replicas=3))
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].endswith("2 TG204 gpus")
    fixture.create(3)
    assert len(list_warnings(fixture, workload(1, replicas=3))) == 1


def test_a_cap_can_ignore_workloads() -> None:
    assert list_warnings(GateFixture(DENY.replace("deny", "ignore")), workload(2, replicas=3)) == []


def test_an_owned_workload_is_not_warned_again() -> None:
    owned = workload(2, "ReplicaSet", replicas=3)
    owned["metadata"] = {"ownerReferences": [{"controller": True, "kind": "Deployment"}]}
    assert list_warnings(GateFixture(), owned) == []
    owned["metadata"]["ownerReferences"][0]["controller"] = False
    assert len(list_warnings(GateFixture(), owned)) == 1


def test_a_template_without_a_counted_limit_is_warned() -> None:
    (warning,) = list_warnings(GateFixture(LIMITS), workload(1))
    assert warning == "spec.template.spec.containers: gpus limits.memory missing 0 TG203 gpus"
    assert get_rejection(GateFixture(LIMITS + "  workloads: deny\n"), workload(1))["code"] == 403


def test_a_limit_that_the_stored_template_lacks_too_is_not_warned_about() -> None:
    assert list_warnings(GateFixture(LIMITS), workload(1, image="b"), oldObject=workload(1)) == []
    more = workload(1)
    more["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"})
    (warning,) = list_messages(GateFixture(LIMITS), more, oldObject=workload(1))
    assert " sidecar:" in warning


def test_the_filter_of_a_cap_uses_the_template() -> None:
    text = CAP + "  pods: {objectSelector: {matchLabels: {tier: batch}}}\n"
    batch = workload(2, replicas=3)
    assert list_warnings(GateFixture(text), batch) == []
    batch["spec"]["template"]["metadata"]["labels"] = {"tier": "batch"}
    assert len(list_warnings(GateFixture(text), batch)) == 1


def test_a_namespace_with_unknown_labels_gets_no_warning() -> None:
    text = CAP.replace('include: ["team-*"]', "selector: {matchLabels: {a: b}}")
    assert list_warnings(GateFixture(text), workload(2, replicas=3)) == []


def test_an_unavailable_ledger_stops_no_workload() -> None:
    class UnavailableLedgers:
        """Ledgers that are unavailable."""

        is_standalone = False

        def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
            """Fail because the store is unavailable."""
            raise StoreUnavailableError(f"{key} {attempt} {deadline}")

    fixture = GateFixture(DENY, ledgers=UnavailableLedgers())
    assert list_warnings(fixture, workload(1, replicas=3)) == []
    assert get_rejection(fixture, workload(2, replicas=3))["code"] == 403


def test_the_mutating_phase_has_no_forecast() -> None:
    assert list_warnings(GateFixture(), workload(2, replicas=3), phase=Phase.MUTATING) == []


def test_the_record_names_the_warnings() -> None:
    fixture = GateFixture()
    decision = fixture.admit(workload(2, replicas=3), kind={"group": "apps", "kind": "Deployment"})
    assert decision.record.warnings == ("TG204",)
    assert json.loads(decision.body)["response"]["allowed"]
