"""The allocator, against Kubernetes' own: every case of its tests, with the features that are on by default."""

from typing import Any

import pytest

from tallygate.accounting.kubernetes_versions.version import select_version
from tests.accounting.allocation.recorded_cases import Case, answer, read_cases, select_answer

_WRAPPED = {
    "consumable-capacity-range-policy-allocation-mode-all-overflow-aborts",
    "consumable-capacity-range-policy-overflow-aborts-not-skip",
    "consumable-capacity-range-policy-request-above-int64-rejected",
    "consumable-capacity-range-policy-rounded-value-overflow-rejected",
    "exact-count-total-would-wrap-to-zero",
}
"""The cases in which the integers of 1.36 wrap around: it allocates an amount of 0, or counts 0 devices."""

_CASES = {
    "1.36": {case["name"]: case for case in read_cases("allocator-1.36.jsonl")},
    "1.37": {case["name"]: case for name in ("1.36", "1.37") for case in read_cases(f"allocator-{name}.jsonl")},
}


def _expect(case: Case) -> dict[str, Any]:
    """Return the recorded answer with the fields that the product has."""
    return select_answer(case.get("default", case["answer"]))


def _list_cases(version: str) -> list[Any]:
    return [pytest.param(case, id=name) for name, case in _CASES[version].items() if name not in _WRAPPED]


@pytest.mark.parametrize("case", _list_cases("1.36"))
def test_the_answer_is_that_of_1_36(case: Case) -> None:
    assert answer(case, select_version(36)) == _expect(case)


@pytest.mark.parametrize("case", _list_cases("1.37"))
def test_the_answer_is_that_of_1_37(case: Case) -> None:
    assert answer(case, select_version(37)) == _expect(case)


@pytest.mark.parametrize("name", sorted(_WRAPPED))
def test_nothing_is_allocated_for_an_amount_that_1_36_wraps_around(name: str) -> None:
    found = answer(_CASES["1.36"][name], select_version(36))
    allocated = [result for each in found.get("results", ()) for result in each["devices"]["results"]]
    assert all(int(each["consumedCapacity"]["capacity-0"]) > 0 for each in allocated)
