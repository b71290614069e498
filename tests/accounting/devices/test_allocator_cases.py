"""The recorded answers of Kubernetes' allocators of devices: complete lines, and every kind of answer."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

_CASES = Path(__file__).parent / "cases"
_VERSIONS = ("1.36", "1.37")
_INPUTS = ("features", "allocated", "classes", "slices", "node", "claims")
_FEWEST_CASES = 200
_FEWEST_OF_A_KIND = 25


def _read_lines(version: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_CASES / f"allocator-{version}.jsonl").read_text("utf-8").splitlines()]


def _find_kind(answer: dict[str, Any]) -> str:
    """Return the kind of an answer: an error, results, or none of them on the node."""
    if "error" in answer:
        return "error"
    return "refusal" if answer["results"] is None else "results"


@pytest.mark.parametrize("version", _VERSIONS)
def test_each_case_has_a_name_of_its_own_and_all_inputs(version: str) -> None:
    cases = _read_lines(version)
    names = [case["name"] for case in cases]
    assert names == sorted(set(names))
    fields = ("name", *_INPUTS, "answer")
    assert {tuple(case) for case in cases} <= {fields, (*fields, "default")}
    assert {frozenset(case["answer"]) for case in cases} <= {
        frozenset(fields) for fields in (["results"], ["error"], ["error", "onNode"])
    }


@pytest.mark.parametrize("version", _VERSIONS)
def test_each_claim_has_a_result_and_each_share_the_same_id(version: str) -> None:
    for case in _read_lines(version):
        results = case["answer"].get("results")
        if results is not None:
            assert len(results) == len(case["claims"]), case["name"]
            devices = [device for result in results for device in result["devices"].get("results", [])]
            assert {device.get("shareID", "") for device in devices} <= {""}, case["name"]


def test_the_cases_of_1_36_are_many_of_every_kind() -> None:
    cases = _read_lines("1.36")
    assert len(cases) >= _FEWEST_CASES
    kinds = Counter(_find_kind(case["answer"]) for case in cases)
    assert kinds.keys() == {"error", "refusal", "results"}
    assert min(kinds.values()) >= _FEWEST_OF_A_KIND
    assert any("onNode" in case["answer"] for case in cases)


def test_the_cases_of_1_37_differ_from_those_of_1_36_by_their_answers() -> None:
    older = {case["name"]: case for case in _read_lines("1.36")}
    for case in _read_lines("1.37"):
        same = older.get(case["name"])
        if same is not None:
            outputs = [(each["answer"], each.get("default")) for each in (case, same)]
            assert outputs[0] != outputs[1], case["name"]
            assert [case[field] for field in _INPUTS] == [same[field] for field in _INPUTS], case["name"]
