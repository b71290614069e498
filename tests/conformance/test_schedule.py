"""The comparison of scheduling answers takes any implementation and compares every part."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.accounting.scheduling.clusters import node, pod
from tests.conformance.case import read_cases
from tests.conformance.report import run
from tests.conformance.schedule import compare, create_comparison


@dataclass(frozen=True)
class _Answer:
    nodes: tuple[str, ...] = ()
    nominated: tuple[str, ...] = ()
    message: str = ""


CASES = sorted(
    each for each in (Path(__file__).parent / "cases").glob("*schedule*") if "dra" not in each.name
)  # those with devices come from a real API server, with one choice
FULL = "0/1 nodes are available: 1 Too many pods."
PLACED = {"scheduled": True, "node": "n1", "nominated": "", "message": ""}
WAITING = {"scheduled": False, "node": "", "nominated": "n0", "message": FULL}
REFUSED = {"scheduled": False, "node": "", "message": FULL}


def _differences(result: dict[str, Any], answer: _Answer, **choices: list[str]) -> tuple[str, ...]:
    case = {"nodes": None, "pods": None, "pod": {}, "result": result}
    if choices:
        case["choices"] = {"nodes": [], "nominated": []} | choices
    return create_comparison(lambda *_: answer)(case).differences


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (PLACED, _Answer(nodes=("n0", "n1"))),
        (PLACED | {"feasible": 2}, _Answer(nodes=("n0", "n1"))),
        (WAITING, _Answer(nominated=("n0", "n2"), message=FULL)),
        (REFUSED, _Answer(message=FULL)),
    ],
)
def test_any_feasible_node_agrees(result: dict[str, Any], answer: _Answer) -> None:
    assert _differences(result, answer) == ()


@pytest.mark.parametrize(
    ("result", "answer", "part"),
    [
        pytest.param(PLACED, _Answer(), "scheduled", id="it fits somewhere"),
        pytest.param(REFUSED, _Answer(nodes=("n0",), message=FULL), "scheduled", id="it fits nowhere"),
        pytest.param(PLACED, _Answer(nodes=("n0", "n2")), "node", id="it does not fit the recorded node"),
        pytest.param(PLACED | {"feasible": 2}, _Answer(nodes=("n1",)), "feasible", id="another fits too"),
        pytest.param(WAITING, _Answer(nominated=("n1",), message=FULL), "nominated", id="another node"),
        pytest.param(WAITING, _Answer(message=FULL), "nominated", id="no node"),
        pytest.param(
            REFUSED, _Answer(nominated=("n0",), message=FULL), "nominated", id="a node where Kubernetes has none"
        ),
        pytest.param(REFUSED, _Answer(message=FULL + " "), "message", id="a space too many"),
        pytest.param(PLACED, _Answer(nodes=("n1",), message=FULL), "message", id="a message where Kubernetes has none"),
    ],
)
def test_each_part_can_differ(result: dict[str, Any], answer: _Answer, part: str) -> None:
    (difference,) = _differences(result, answer)
    assert difference.startswith(f"{part}: ")


@pytest.mark.parametrize(
    ("result", "choices", "answer"),
    [
        (PLACED, {"nodes": ["n0", "n1"]}, _Answer(nodes=("n1", "n0"))),
        (WAITING, {"nominated": ["n0", "n2"]}, _Answer(nominated=("n2", "n0"), message=FULL)),
        (REFUSED, {"nodes": []}, _Answer(message=FULL)),
    ],
)
def test_the_same_choices_agree(result: dict[str, Any], choices: dict[str, list[str]], answer: _Answer) -> None:
    assert _differences(result, answer, **choices) == ()


@pytest.mark.parametrize(
    ("result", "choices", "answer", "part"),
    [
        pytest.param(PLACED, {"nodes": ["n1"]}, _Answer(nodes=("n0", "n1")), "node", id="one node too many"),
        pytest.param(PLACED, {"nodes": ["n0", "n1"]}, _Answer(nodes=("n1",)), "node", id="one too few"),
        pytest.param(
            PLACED,
            {"nodes": ["n1", "n2"]},
            _Answer(nodes=("n0", "n1")),
            "node",
            id="a node other than Kubernetes' besides the chosen one",
        ),
        pytest.param(
            WAITING,
            {"nominated": ["n0"]},
            _Answer(nominated=("n0", "n2"), message=FULL),
            "nominated",
            id="one more to nominate",
        ),
        pytest.param(
            WAITING,
            {"nominated": ["n0", "n2"]},
            _Answer(nominated=("n0",), message=FULL),
            "nominated",
            id="one fewer to nominate",
        ),
        pytest.param(
            REFUSED, {"nominated": []}, _Answer(nominated=("n0",), message=FULL), "nominated", id="none to nominate"
        ),
    ],
)
def test_another_set_of_choices_differs(
    result: dict[str, Any], choices: dict[str, list[str]], answer: _Answer, part: str
) -> None:
    (difference,) = _differences(result, answer, **choices)
    assert difference.startswith(f"{part}: ")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_every_recorded_case_has_all_choices_with_its_own_among_them(path: Path) -> None:
    for case in read_cases(path):
        result, choices = case["result"], case["choices"]
        assert bool(choices["nodes"]) is result["scheduled"]
        assert result["node"] in (choices["nodes"] or [""])
        assert result.get("nominated", "") in (choices["nominated"] or [""])


def _create_case(cpu: str, result: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a case of one node with one CPU, and a pod that requests `cpu`."""
    return {"nodes": [node("n1", cpu="1")], "pods": [], "pod": pod(requests={"cpu": cpu}, **spec), "result": result}


FOREIGN = {"schedulerName": "volcano"}
SHORT = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 Preemption is not helpful for scheduling."
)


@pytest.mark.parametrize(
    ("case", "judged"),
    [
        pytest.param(_create_case("1", PLACED), True, id="it fits"),
        pytest.param(_create_case("2", REFUSED | {"message": SHORT}), True, id="it does not fit"),
        pytest.param(_create_case("1", PLACED, **FOREIGN), False, id="it fits, by the rules of the default scheduler"),
        pytest.param(_create_case("1", REFUSED, **FOREIGN), False, id="it would fit, but another scheduler rejects it"),
        pytest.param(
            _create_case("2", REFUSED, **FOREIGN), False, id="it does not fit by the rules of the default scheduler"
        ),
    ],
)
def test_the_product_names_features_that_it_does_not_model(
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
        pytest.param(_create_case("1", REFUSED), id="it fits"),
        pytest.param(_create_case("2", PLACED), id="it does not fit"),
        pytest.param(_create_case("2", PLACED, **FOREIGN), id="it does not fit by the rules of the default scheduler"),
    ],
)
def test_a_certain_answer_of_the_product_can_differ(case: dict[str, Any]) -> None:
    assert any(difference.startswith("scheduled: ") for difference in compare(case).differences)


def test_a_namespace_without_an_object_has_no_labels() -> None:
    term = {"labelSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "host"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    stored = pod("other", on="n1") | {"metadata": {"name": "other", "namespace": "green", "uid": "1"}}
    case = _create_case("1", PLACED, affinity=affinity) | {"pods": [stored]}
    assert (compare(case).differences, compare(case).is_judged) == ((), True)


def test_the_implementation_gets_the_whole_case() -> None:
    received: list[object] = []

    def scheduler(*parts: object) -> _Answer:
        received.extend(parts)
        return _Answer(message=FULL)

    case = {"nodes": [{"n": 1}], "pods": [{"p": 1}], "objects": [{"o": 1}], "pod": {"new": 1}, "result": REFUSED}
    assert create_comparison(scheduler)(case).differences == ()
    assert received == [[{"n": 1}], [{"p": 1}], [{"o": 1}], {"new": 1}]
