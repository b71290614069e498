"""Each kind of case is compared in every part of its answer."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.case import Case, read_cases
from tests.conformance.errors import is_resource_field
from tests.conformance.kinds import compare
from tests.conformance.sums import find_wrapping_names

CASES = Path(__file__).parent / "cases"
ERROR = {
    "type": "FieldValueInvalid",
    "detail": "must be an integer",
    "message": 'Invalid value: "1m": must be an integer',
}


def find_first(kind: str, condition: Callable[[Case], bool]) -> Case:
    """Return the first case of a file that satisfies a condition."""
    return next(case for case in read_cases(CASES / f"{kind}.jsonl") if condition(case))


def _edit(case: Case, *path: Any, value: Any) -> Case:
    edited = copy.deepcopy(case)
    place: Any = edited
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return edited


POD = find_first("pod", lambda case: bool(case["answer"]["errors"]) and "cpu" in case["answer"]["requests"])
FIT = find_first("fit", lambda case: bool(case["answer"]["insufficient"]))
WORKLOAD = find_first("workload", lambda case: bool(case["causes"]))
NODE = find_first("node", lambda case: bool(case["answer"]["errors"]))
QUOTA = find_first("resourcequota", lambda case: bool(case["answer"]["errors"]))


@pytest.mark.parametrize("case", [POD, FIT, WORKLOAD, NODE, QUOTA])
def test_an_unchanged_case_agrees(case: Case) -> None:
    assert compare(case).differences == ()


@pytest.mark.parametrize(
    ("case", "path", "value"),
    [
        pytest.param(POD, ("answer", "errors"), [], id="pod errors"),
        pytest.param(POD, ("answer", "errors", 0, "field"), "spec.resources", id="pod error's field"),
        pytest.param(POD, ("answer", "errors", 0, "type"), "FieldValueRequired", id="pod error's type"),
        pytest.param(POD, ("answer", "errors", 0, "detail"), "must be nice", id="pod error's detail"),
        pytest.param(POD, ("answer", "requests", "cpu"), "77", id="pod requests"),
        pytest.param(POD, ("answer", "requests"), {}, id="pod requests missing"),
        pytest.param(POD, ("answer", "limits", "new.io/x"), "1", id="pod limits"),
        pytest.param(POD, ("answer", "quota", "pods"), "2", id="pod quota"),
        pytest.param(FIT, ("answer", "insufficient"), [], id="fit"),
        *[
            pytest.param(FIT, ("answer", "insufficient", 0, key), "x", id=f"fit {key}")
            for key in FIT["answer"]["insufficient"][0]
        ],
        pytest.param(WORKLOAD, ("causes",), [], id="workload causes"),
        pytest.param(WORKLOAD, ("causes", 0, "message"), "Invalid value", id="workload cause's message"),
        pytest.param(WORKLOAD, ("causes", 0, "reason"), "FieldValueRequired", id="workload cause's reason"),
        pytest.param(NODE, ("answer", "errors"), [], id="node errors"),
        pytest.param(QUOTA, ("answer", "errors"), [], id="quota errors"),
        pytest.param(QUOTA, ("answer", "errors", 0, "detail"), "must be nice", id="quota error's detail"),
    ],
)
def test_a_wrong_answer_is_a_difference(case: Case, path: tuple[Any, ...], value: Any) -> None:
    assert compare(_edit(case, *path, value=value)).differences


def test_a_repeated_error_must_be_reported_twice() -> None:
    twice = _edit(POD, "answer", "errors", value=[*POD["answer"]["errors"], POD["answer"]["errors"][0]])
    assert compare(twice).differences


@pytest.mark.parametrize("case", [POD, NODE, QUOTA])
def test_errors_about_other_fields_are_left_out(case: Case) -> None:
    other = {**ERROR, "field": "metadata.name"}
    assert compare(_edit(case, "answer", "errors", value=[*case["answer"]["errors"], other])).differences == ()


@pytest.mark.parametrize(
    ("path", "about"),
    [
        ("spec.containers[0].resources.limits[example.com/gpu]", True),
        ("spec.initContainers[2].resources.requests", True),
        ("spec.ephemeralContainers[0].resources", True),
        ("spec.template.spec.containers[0].resources.claims[1].request", True),
        ("spec.jobTemplate.spec.template.spec.containers[10].resources", True),
        ("template.spec.resources.requests[cpu]", True),
        ("spec.resources.containers[1][cpu].limits", True),
        ("spec.overhead.limits[a/b]", True),
        ("status.capacity.example.com/gpu", True),
        ("status.allocatable[]", True),
        ("spec.hard[pods]", True),
        ("status.used[pods]", True),
        ("spec.scopes", True),
        ("spec.scopeSelector.matchExpressions.operator", True),
        ("spec.limits[0].type", True),
        ("spec.containers[0].resizePolicy", False),
        ("spec.containers[0].name", False),
        ("spec.resourceClaims[0].name", False),
        ("spec.template.metadata.labels", False),
        ("metadata.name", False),
        ("status.phase", False),
    ],
)
def test_which_fields_are_about_resources(path: str, *, about: bool) -> None:
    assert is_resource_field(path) is about


@pytest.mark.parametrize(
    ("objects", "names"),
    [
        pytest.param([{"spec": {"hard": {"a": "9E"}}}], {"a"}, id="thousandths of 9E"),
        pytest.param([{"spec": {"hard": {"a": "9P"}}}], set(), id="thousandths of 9P fit"),
        pytest.param([{"spec": {"hard": {"a": "9P"}}}, {"limits": {"a": "9P"}}], {"a"}, id="twice 9P do not"),
        pytest.param([{"items": [{"requests": {"a": "-10E", "b": 1}}]}], {"a"}, id="negative ones"),
        pytest.param([{"requests": {"a": None, "b": "one", "c": ""}}], set(), id="a text that is not a quantity"),
        pytest.param([{"metadata": {"labels": {"a": "10E"}}}], set(), id="a number outside every resource list"),
    ],
)
def test_names_of_which_the_sum_wraps(objects: list[Any], names: set[str]) -> None:
    assert find_wrapping_names(*objects) == names


def test_only_the_name_that_wraps_is_excused() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"memory": "10E", "cpu": "1"}}}]}
    answer = {"errors": [], "requests": {"memory": "0", "cpu": "1"}, "limits": {}, "quota": {}}
    quota = {"count/pods": "1", "pods": "1", "cpu": "1", "requests.cpu": "1", "memory": "7", "requests.memory": "7"}
    case = {"pod": {"spec": spec}, "answer": {**answer, "quota": quota}}
    assert (compare(case).differences, compare(case).beyond_int64) == ((), True)
    assert compare(_edit(case, "answer", "requests", "cpu", value="2")).differences


def test_a_number_keeps_its_digits(tmp_path: Path) -> None:
    """Kubernetes reads the JSON number 1e3 as the quantity 1e3, and prints it so."""
    path = tmp_path / "cases.jsonl"
    path.write_text(
        '{"pod": {"spec": {"containers": [{"name": "a", "resources": {"requests": {"x.io/y": 1e3, "x.io/z": 2.5}}}]}}, '
        '"answer": {"errors": [], "requests": {"x.io/y": "1e3", "x.io/z": "2500m"}, "limits": {}, "quota": {}}}'
    )
    (case,) = read_cases(path)
    assert not [each for each in compare(case).differences if each.startswith("requests")]
