"""The comparison of placed pods takes any implementation, and can fail in every part of its answer."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.accounting.scheduling.clusters import node, pod
from tests.conformance.case import read_cases
from tests.conformance.report import run
from tests.conformance.schedule import compare, comparing


@dataclass(frozen=True)
class _Said:
    nodes: tuple[str, ...] = ()
    nominated: tuple[str, ...] = ()
    message: str = ""


CASES = sorted((Path(__file__).parent / "cases").glob("*schedule*"))
FULL = "0/1 nodes are available: 1 Too many pods."
PLACED = {"scheduled": True, "node": "n1", "nominated": "", "message": ""}
WAITING = {"scheduled": False, "node": "", "nominated": "n0", "message": FULL}
REFUSED = {"scheduled": False, "node": "", "message": FULL}


def _differences(result: dict[str, Any], said: _Said, **choices: list[str]) -> tuple[str, ...]:
    case = {"nodes": None, "pods": None, "pod": {}, "result": result}
    if choices:
        case["choices"] = {"nodes": [], "nominated": []} | choices
    return comparing(lambda *_: said)(case).differences


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (PLACED, _Said(nodes=("n0", "n1"))),
        (PLACED | {"feasible": 2}, _Said(nodes=("n0", "n1"))),
        (WAITING, _Said(nominated=("n0", "n2"), message=FULL)),
        (REFUSED, _Said(message=FULL)),
    ],
)
def test_any_node_that_would_do_agrees(result: dict[str, Any], said: _Said) -> None:
    assert _differences(result, said) == ()


@pytest.mark.parametrize(
    ("result", "said", "part"),
    [
        pytest.param(PLACED, _Said(), "scheduled", id="it fits somewhere"),
        pytest.param(REFUSED, _Said(nodes=("n0",), message=FULL), "scheduled", id="it fits nowhere"),
        pytest.param(PLACED, _Said(nodes=("n0", "n2")), "node", id="it does not fit there"),
        pytest.param(PLACED | {"feasible": 2}, _Said(nodes=("n1",)), "feasible", id="another fits too"),
        pytest.param(WAITING, _Said(nominated=("n1",), message=FULL), "nominated", id="another node"),
        pytest.param(WAITING, _Said(message=FULL), "nominated", id="no node"),
        pytest.param(REFUSED, _Said(nominated=("n0",), message=FULL), "nominated", id="a node where there is none"),
        pytest.param(REFUSED, _Said(message=FULL + " "), "message", id="a space too many"),
        pytest.param(PLACED, _Said(nodes=("n1",), message=FULL), "message", id="a message where there is none"),
    ],
)
def test_each_part_can_differ(result: dict[str, Any], said: _Said, part: str) -> None:
    (difference,) = _differences(result, said)
    assert difference.startswith(f"{part}: ")


@pytest.mark.parametrize(
    ("result", "choices", "said"),
    [
        (PLACED, {"nodes": ["n0", "n1"]}, _Said(nodes=("n1", "n0"))),
        (WAITING, {"nominated": ["n0", "n2"]}, _Said(nominated=("n2", "n0"), message=FULL)),
        (REFUSED, {"nodes": []}, _Said(message=FULL)),
    ],
)
def test_the_same_choices_agree(result: dict[str, Any], choices: dict[str, list[str]], said: _Said) -> None:
    assert _differences(result, said, **choices) == ()


@pytest.mark.parametrize(
    ("result", "choices", "said", "part"),
    [
        pytest.param(PLACED, {"nodes": ["n1"]}, _Said(nodes=("n0", "n1")), "node", id="one node too many"),
        pytest.param(PLACED, {"nodes": ["n0", "n1"]}, _Said(nodes=("n1",)), "node", id="one too few"),
        pytest.param(
            PLACED, {"nodes": ["n1", "n2"]}, _Said(nodes=("n0", "n1")), "node", id="another beside the chosen"
        ),
        pytest.param(
            WAITING,
            {"nominated": ["n0"]},
            _Said(nominated=("n0", "n2"), message=FULL),
            "nominated",
            id="one more to nominate",
        ),
        pytest.param(
            WAITING,
            {"nominated": ["n0", "n2"]},
            _Said(nominated=("n0",), message=FULL),
            "nominated",
            id="one fewer to nominate",
        ),
        pytest.param(
            REFUSED, {"nominated": []}, _Said(nominated=("n0",), message=FULL), "nominated", id="none to nominate"
        ),
    ],
)
def test_where_all_choices_are_known_no_other_set_agrees(
    result: dict[str, Any], choices: dict[str, list[str]], said: _Said, part: str
) -> None:
    (difference,) = _differences(result, said, **choices)
    assert difference.startswith(f"{part}: ")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_every_case_on_file_names_all_choices_and_its_own_among_them(path: Path) -> None:
    for case in read_cases(path):
        result, choices = case["result"], case["choices"]
        assert bool(choices["nodes"]) is result["scheduled"]
        assert result["node"] in (choices["nodes"] or [""])
        assert result.get("nominated", "") in (choices["nominated"] or [""])


def _case(cpu: str, result: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """One node with one CPU, and a pod that asks for so much."""
    return {"nodes": [node("n1", cpu="1")], "pods": [], "pod": pod(asks={"cpu": cpu}, **spec), "result": result}


DEVICES = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
SHORT = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 Preemption is not helpful for scheduling."
)


@pytest.mark.parametrize(
    ("case", "judged"),
    [
        pytest.param(_case("1", PLACED), True, id="it fits"),
        pytest.param(_case("2", REFUSED | {"message": SHORT}), True, id="it does not fit"),
        pytest.param(_case("1", PLACED, **DEVICES), False, id="it fits, if devices are free"),
        pytest.param(_case("1", REFUSED, **DEVICES), False, id="it would fit, but devices are not free"),
        pytest.param(_case("2", REFUSED, **DEVICES), False, id="it does not fit, whatever devices are free"),
    ],
)
def test_the_product_is_asked_and_names_what_it_does_not_judge(
    case: dict[str, Any], *, judged: bool, tmp_path: Path
) -> None:
    outcome = compare(case)
    assert (outcome.differences, outcome.is_judged) == ((), judged)
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(case))
    assert str(run(path)) == f"{path}: 1 cases, 0 disagreements, {0 if judged else 1} not judged"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(_case("1", REFUSED), id="it fits"),
        pytest.param(_case("2", PLACED), id="it does not fit"),
        pytest.param(_case("2", PLACED, **DEVICES), id="it does not fit, whatever devices are free"),
    ],
)
def test_what_the_product_says_for_certain_can_differ(case: dict[str, Any]) -> None:
    assert any(difference.startswith("scheduled: ") for difference in compare(case).differences)


def test_a_namespace_that_no_case_describes_has_no_labels() -> None:
    term = {"labelSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "host"}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    there = pod("other", on="n1") | {"metadata": {"name": "other", "namespace": "green", "uid": "1"}}
    case = _case("1", PLACED, affinity=alone) | {"pods": [there]}
    assert (compare(case).differences, compare(case).is_judged) == ((), True)


def test_the_implementation_is_given_the_whole_case() -> None:
    given: list[object] = []

    def answering(*parts: object) -> _Said:
        given.extend(parts)
        return _Said(message=FULL)

    case = {"nodes": [{"n": 1}], "pods": [{"p": 1}], "objects": [{"o": 1}], "pod": {"new": 1}, "result": REFUSED}
    assert comparing(answering)(case).differences == ()
    assert given == [[{"n": 1}], [{"p": 1}], [{"o": 1}], {"new": 1}]
