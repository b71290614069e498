"""The reference scheduler agrees with the recorded answers of a real scheduler of 1.36, case by case.

It transcribes 1.36. The cases that 1.37 and 1.38 decide differently are compared with the product (tests/conformance).
"""

from pathlib import Path
from typing import Any

import pytest

from tests.accounting.scheduling import reference
from tests.conformance.case import read_cases
from tests.conformance.schedule import create_comparison

CASES = [
    path
    for path in sorted((Path(__file__).parents[2] / "conformance" / "cases").glob("*schedule*.jsonl*"))
    if "dra" not in path.name  # devices are not transcribed there
    if path.name not in {"schedule-1.37.jsonl.gz", "schedule-1.38.jsonl.gz"}
]


def test_there_are_cases() -> None:
    assert {each.name.partition(".")[0] for each in CASES} >= {"schedule", "schedule-hard", "schedule-topology"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_it_agrees_with_the_real_scheduler(path: Path) -> None:
    compare = create_comparison(reference.schedule)
    outcomes = {number: compare(case).differences for number, case in enumerate(read_cases(path), start=1)}
    assert outcomes
    assert {number: differences for number, differences in outcomes.items() if differences} == {}


NODE = {"metadata": {"name": "n0"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
OLD = {
    "metadata": {"name": "old", "uid": "1"},
    "spec": {"nodeName": "n0", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "priority": 5},
}


def _schedule(spec: dict[str, Any], *others: dict[str, Any]) -> reference.Answer:
    """Return the answer for a pod that is not stored yet."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    return reference.schedule(
        [NODE], [OLD], others, {"metadata": {"name": "new"}, "spec": {"containers": containers, **spec}}
    )


def _class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **fields}


@pytest.mark.parametrize(
    ("spec", "classes"),
    [
        ({"priorityClassName": "high"}, [_class("high", 6)]),
        ({"priorityClassName": "system-node-critical"}, []),
        ({}, [_class("high", 6, globalDefault=True), _class("higher", 7, globalDefault=True)]),
        ({"priority": 6}, [_class("low", 1, globalDefault=True)]),
    ],
)
def test_a_new_pod_has_the_priority_of_its_class(spec: dict[str, Any], classes: list[dict[str, Any]]) -> None:
    assert _schedule(spec, *classes).nominated == {"n0"}


@pytest.mark.parametrize(
    ("spec", "classes"),
    [
        ({}, []),
        ({"priorityClassName": "low"}, [_class("low", 5), _class("high", 6, globalDefault=True)]),
        ({}, [_class("low", 5, globalDefault=True), _class("high", 6, globalDefault=True)]),
    ],
)
def test_a_pod_preempts_no_pod_of_the_same_or_a_higher_priority(
    spec: dict[str, Any], classes: list[dict[str, Any]]
) -> None:
    assert _schedule(spec, *classes).nominated == set()
    assert "No preemption victims found" in _schedule(spec, *classes).message


def test_a_class_may_forbid_preemption() -> None:
    polite = _class("polite", 6, preemptionPolicy="Never")
    assert _schedule({"priorityClassName": "polite"}, polite).message.endswith(
        "not eligible due to preemptionPolicy=Never."
    )


def test_a_feature_that_is_not_transcribed_is_an_error() -> None:
    claim = {"kind": "ResourceClaim", "metadata": {"name": "gpu"}, "spec": {"devices": {"requests": []}}}
    unbounded = {"containers": [{"name": "c"}], "resourceClaims": [{"name": "r", "resourceClaimName": "gpu"}]}
    with pytest.raises(reference.NotModelledError, match="the allocation of devices"):
        _schedule(unbounded, claim)
