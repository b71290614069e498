"""Warnings of caps about objects of other projects: several templates, autoscalers, and rollouts of Argo."""

from typing import Any

import pytest

from tests.gate.gate_fixture import CAP, GateFixture, pod, read_facts, response
from tests.gate.test_quotas import create_fixture, gpus

DENY = CAP + "  workloads: deny\n"
HARD = "nvidia.com/gpu gpus hard=4"


def list_messages(
    fixture: GateFixture, name: str, spec: dict[str, Any], old: dict[str, Any] | None = None
) -> list[str]:
    """Return the facts of the warnings about an object, or of its denial; its kind is given as `RayJob.ray.io`."""
    kind, _, group = name.partition(".")
    request: dict[str, Any] = {"kind": {"group": group, "kind": kind}, "name": "w"}
    if old is not None:
        request["oldObject"] = {"kind": kind, "spec": old}
    result = response(fixture.admit({"kind": kind, "spec": spec}, **request))
    warnings: list[str] = result.get("warnings", [])
    messages = warnings if result["allowed"] else [f"denied: {result['status']['message']}"]
    return [read_facts(each.replace(f'{kind} "w": ', "")) for each in messages]


def describe(most: object, pods: int, end: str) -> str:
    """Return the facts of the warning that a cap stops an autoscaler, for pods of one GPU each."""
    return f"{most} {pods} {pods} {HARD} never{end} TG214 gpus"


def ray(workers: int, most: int, gpus: int = 1, *, head: int = 0, image: str = "a") -> dict[str, Any]:
    """Return a RayCluster with one group of workers that an autoscaler scales."""
    template = pod("", gpus)
    template["spec"]["containers"][0]["image"] = image
    group = {"groupName": "a", "replicas": workers, "maxReplicas": most, "template": template}
    return {
        "enableInTreeAutoscaling": True,
        "headGroupSpec": {"template": pod("", head) if head else {"spec": {"containers": []}}},
        "workerGroupSpecs": [group],
    }


@pytest.mark.parametrize(
    ("spec", "old", "expected"),
    [
        pytest.param(ray(1, 4), None, [], id="the maximum fits"),
        pytest.param(
            ray(1, 20),
            None,
            [describe(20, 20, " 4")],
            id="the maximum exceeds the cap",
        ),
        pytest.param(
            ray(1, 20, head=1),
            None,
            [describe(20, 21, " 3")],
            id="the head takes one of the GPUs",
        ),
        pytest.param(
            ray(5, 20),
            None,
            ["5 5 nvidia.com/gpu gpus hard=4 4 TG204 gpus"],
            id="the start exceeds the cap",
        ),
        pytest.param(ray(2, 20), ray(1, 20), [], id="a change that leaves the maximum"),
        pytest.param(
            ray(1, 20),
            ray(1, 4),
            [describe(20, 20, " 4")],
            id="the maximum is raised",
        ),
        pytest.param(
            ray(1, 20, image="b"),
            ray(1, 20),
            [describe(20, 20, " 4")],
            id="the template changes",
        ),
        pytest.param({**ray(1, 20), "enableInTreeAutoscaling": False}, None, [], id="there is no autoscaler"),
        pytest.param({**ray(1, 20), "suspend": True}, None, [], id="the cluster is suspended"),
    ],
)
def test_an_autoscaler_that_can_exceed_the_cap_is_a_warning(
    spec: dict[str, Any], old: dict[str, Any] | None, expected: list[str]
) -> None:
    assert list_messages(GateFixture(), "RayCluster.ray.io", spec, old) == expected


def test_an_autoscaler_that_can_exceed_the_cap_is_never_denied() -> None:
    (warning,) = list_messages(GateFixture(DENY), "RayCluster.ray.io", ray(1, 20))
    assert warning == describe(20, 20, " 4")


def test_autoscalers_of_two_groups_are_in_one_warning() -> None:
    cluster = ray(1, 3)
    cluster["workerGroupSpecs"].append({**cluster["workerGroupSpecs"][0], "groupName": "b", "maxReplicas": 2})
    assert list_messages(GateFixture(), "RayCluster.ray.io", cluster) == [describe("3 2", 5, "")]


def workflow(*gpus: int) -> dict[str, Any]:
    """Return a Workflow with one template for each number of GPUs."""
    containers = [pod("", count)["spec"]["containers"][0] for count in gpus]
    return {"templates": [{"name": f"step-{index}", "container": each} for index, each in enumerate(containers)]}


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param((3, 3, 2), None, [], id="each step fits"),
        pytest.param(
            (3, 5),
            None,
            ["1 5 nvidia.com/gpu gpus hard=4 TG204 gpus"],
            id="one step exceeds the cap",
        ),
        pytest.param((3, 5), (5, 1), [], id="the largest step stays as large"),
    ],
)
def test_steps_of_a_workflow_are_not_added(
    new: tuple[int, ...], old: tuple[int, ...] | None, expected: list[str]
) -> None:
    before = workflow(*old) if old is not None else None
    assert list_messages(GateFixture(), "Workflow.argoproj.io", workflow(*new), before) == expected


def steps(*groups: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """Return a Workflow that starts with the first group of steps, whose pods request from one to three GPUs each."""
    return {**workflow(1, 2, 3), **spec, "entrypoint": "main"} | {
        "templates": [{"name": "main", "steps": groups}, *workflow(1, 2, 3)["templates"]]
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            steps([{"template": "step-0", "withItems": [1, 2, 3, 4, 5]}]),
            ["5 5 nvidia.com/gpu gpus hard=4 4 TG204 gpus"],
            id="the items of a step exceed the cap",
        ),
        pytest.param(
            steps([{"template": "step-0", "withItems": [1, 2, 3, 4, 5]}], parallelism=4), [], id="a few at a time fit"
        ),
        pytest.param(
            steps([{"template": "step-1"}, {"template": "step-2"}]),
            [f"2 5 {HARD} TG204 gpus"],
            id="the first steps exceed the cap together",
        ),
        pytest.param(steps([{"template": "step-1"}], [{"template": "step-2"}]), [], id="each step fits"),
        pytest.param(
            steps([{"template": "step-1"}], [{"template": "step-2", "withItems": [1, 2]}]),
            ["2 6 nvidia.com/gpu gpus hard=4 1 TG204 gpus"],
            id="a later step exceeds the cap",
        ),
    ],
)
def test_a_workflow_counts_the_steps_that_run_at_a_time(spec: dict[str, Any], expected: list[str]) -> None:
    assert list_messages(GateFixture(), "Workflow.argoproj.io", spec) == expected


def rollout(replicas: int, strategy: dict[str, Any], image: str = "a") -> dict[str, Any]:
    """Return a Rollout whose pods request one GPU each."""
    template = pod("", 1)
    template["spec"]["containers"][0]["image"] = image
    return {"replicas": replicas, "strategy": strategy, "template": template}


@pytest.mark.parametrize(
    ("replicas", "strategy", "end"),
    [
        pytest.param(2, {"blueGreen": {"activeService": "a"}}, "", id="both versions fit"),
        pytest.param(
            3,
            {"blueGreen": {"activeService": "a"}},
            "3 6 6 nvidia.com/gpu gpus hard=4 never TG206 gpus",
            id="both versions exceed the cap",
        ),
        pytest.param(
            4,
            {"canary": {"maxSurge": 1, "maxUnavailable": 0}},
            "1 5 5 nvidia.com/gpu gpus hard=4 never maxUnavailable TG206 gpus",
            id="a canary exceeds the cap with its first pod",
        ),
        pytest.param(
            4,
            {"canary": {}},
            "1 5 5 nvidia.com/gpu gpus hard=4 TG206 gpus",
            id="a canary by default ends a quarter first",
        ),
    ],
)
def test_a_rollout_of_argo_over_the_cap_is_a_warning(replicas: int, strategy: dict[str, Any], end: str) -> None:
    new, old = (rollout(replicas, strategy, image) for image in "ba")
    assert list_messages(GateFixture(), "Rollout.argoproj.io", new, old) == ([end] if end else [])


@pytest.mark.parametrize(
    ("name", "new", "old", "expected"),
    [
        pytest.param("RayCluster.ray.io", ray(1, 4), None, [], id="the maximum fits"),
        pytest.param(
            "RayCluster.ray.io",
            ray(1, 5),
            None,
            ["5 5 5 requests.nvidia.com/gpu hard=4 never 4 TG208"],
            id="the maximum exceeds the quota",
        ),
        pytest.param("Workflow.argoproj.io", workflow(3, 3), None, [], id="each step fits"),
        pytest.param("Workflow.argoproj.io", workflow(4, 1), workflow(4), [], id="one more step"),
    ],
)
def test_a_quota_counts_alike(name: str, new: dict[str, Any], old: dict[str, Any] | None, expected: list[str]) -> None:
    assert list_messages(create_fixture(gpus(4, 0)), name, new, old) == expected
