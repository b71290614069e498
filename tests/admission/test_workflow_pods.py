"""The pods of a Workflow: those that start with it, and those of later steps; also of Workflows that are odd."""

from typing import Any

import msgspec
import pytest

from tallygate.admission.workflow_pods import WorkflowPods, count_workflow_pods
from tests.admission.test_known_kinds import read_views
from tests.admission.test_pod_sets import create_template

LEAVES = [{"name": "a", "container": {}}, {"name": "b", "container": {}}, {"name": "c", "container": {}}]
A, B, C = (("templates", index) for index in range(1, 4))
Step = dict[str, Any]


def count(entry: dict[str, Any], *more: dict[str, Any], **spec: Any) -> WorkflowPods | None:
    """Return the pods of a Workflow whose entrypoint is the first template; the others are `a`, `b`, `c` and more."""
    templates = [{"name": "main", **entry}, *LEAVES, *more]
    return count_workflow_pods(msgspec.Raw(msgspec.json.encode({"entrypoint": "main", "templates": templates, **spec})))


def count_steps(*groups: list[Step], **spec: Any) -> WorkflowPods | None:
    """Return the pods of a Workflow with groups of steps."""
    return count({"steps": groups}, **spec)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        pytest.param([[{"template": "a"}], [{"template": "b"}]], ({A: 1}, {A: 1, B: 1}), id="one after the other"),
        pytest.param(
            [[{"template": "a"}], [{"template": "b", "withItems": [1, 2]}, {"template": "b"}], [{"template": "b"}]],
            ({A: 1}, {A: 1, B: 3}),
            id="the largest later group counts",
        ),
        pytest.param(
            [[{"template": "a", "when": "{{x}} == 1"}, {"template": "b"}]],
            ({B: 1}, {A: 1, B: 1}),
            id="a step with a condition may be skipped",
        ),
        pytest.param(
            [[{"template": "a", "when": "{{item}} == 1", "withItems": [1, 2]}]],
            ({}, {A: 1}),
            id="one of the items of a condition may run",
        ),
        pytest.param([[{"template": "a", "withParam": "{{x}}"}]], ({A: 1}, {A: 1}), id="items that are a parameter"),
        pytest.param([[{"template": "a", "withParam": "[]"}]], ({}, {}), id="no items"),
        pytest.param(
            [[{"template": "a", "withSequence": {"count": "{{x}}"}}]],
            ({A: 1}, {A: 1}),
            id="a count that is a parameter",
        ),
        pytest.param(
            [[{"template": "a", "withSequence": {"start": 2, "end": 5}}]], ({A: 4}, {A: 4}), id="a sequence of numbers"
        ),
        pytest.param(
            [[{"templateRef": {"name": "other", "template": "a"}}, {"template": "b"}]],
            ({B: 1}, {B: 1}),
            id="a template of another object is not read",
        ),
        pytest.param([[{"template": "missing"}]], ({}, {}), id="a template that is missing"),
        pytest.param([], ({}, {}), id="no steps"),
        pytest.param(
            [[{"template": "a", "onExit": "b", "hooks": {"x": {"template": "c"}}}]],
            ({A: 1}, {A: 1, B: 1, C: 1}),
            id="hooks run later",
        ),
    ],
)
def test_steps(groups: list[list[Step]], expected: tuple[dict[Any, int], dict[Any, int]]) -> None:
    pods = count_steps(*groups)
    assert pods is not None
    at_start, later = expected
    assert (pods.at_start, pods.later) == (at_start, later)


def test_parallelism_leaves_later_steps_out() -> None:
    pods = count_steps(
        [{"template": "a", "withItems": [1, 2, 3]}, {"template": "b", "withItems": [1, 2]}], parallelism=4
    )
    assert pods is not None
    assert pods.at_start == {A: 3, B: 1}


def test_no_parallelism_starts_nothing() -> None:
    pods = count_steps([{"template": "a"}], parallelism=0)
    assert pods is not None
    assert pods.at_start == {}


def test_a_target_starts_only_the_tasks_that_it_needs() -> None:
    tasks = [{"name": "x", "template": "a"}, {"name": "y", "template": "b", "withItems": [1, 2]}]
    pods = count({"dag": {"target": "x", "tasks": tasks}})
    assert pods is not None
    assert (pods.at_start, pods.later) == ({}, {A: 1, B: 2})


def test_the_handler_of_an_end_runs_later() -> None:
    pods = count({"container": {}}, onExit="b", hooks={"running": {"template": "c"}})
    assert pods is not None
    assert (pods.at_start, dict(pods.later)) == ({("templates", 0): 1}, {("templates", 0): 1, B: 1, C: 1})


def test_a_template_that_starts_itself_comes_to_no_pod() -> None:
    pods = count_steps([{"template": "main"}])
    assert pods is not None
    assert (pods.at_start, pods.later) == ({}, {})


def test_a_long_chain_of_templates_is_cut() -> None:
    chain = [{"name": f"n{index}", "steps": [[{"template": f"n{index + 1}"}]]} for index in range(1_500)]
    pods = count({"steps": [[{"template": "n0"}]]}, *chain)
    assert pods is not None
    assert pods.at_start == {}


def test_items_of_items_stay_whole_numbers() -> None:
    inner = [
        {"name": f"n{index}", "steps": [[{"template": f"n{index + 1}", "withItems": [0] * 9}]]} for index in range(40)
    ]
    pods = count({"steps": [[{"template": "n0"}]]}, *inner, {"name": "n40", "container": {}})
    assert pods is not None
    assert set(pods.at_start.values()) == {2**31 - 1}


def test_without_an_entrypoint_nothing_is_known() -> None:
    assert count_workflow_pods(msgspec.Raw(b'{"templates": [{"name": "a"}]}')) is None
    assert count_workflow_pods(msgspec.Raw(b'{"entrypoint": "b", "templates": [{"name": "a"}]}')) is None


def test_a_field_of_another_type_is_an_error_with_its_path() -> None:
    container = create_template()["spec"]["containers"][0]
    spec = {"entrypoint": "a", "parallelism": "many", "templates": [{"name": "a", "container": container}]}
    with pytest.raises(
        msgspec.ValidationError, match=r"Expected `int \| null`, got `str` - at `\$\.spec\.parallelism`"
    ):
        read_views("Workflow.argoproj.io", spec)
