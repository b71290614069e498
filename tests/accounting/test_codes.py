"""The codes of problems that Kubernetes reports, or should report."""

import re

import pytest

from tallygate.accounting.kubernetes_codes import CODES
from tallygate.accounting.problem import Code


def test_numbers_and_slugs_are_unique_and_in_order() -> None:
    numbers = [code.number for code in CODES]
    assert numbers == sorted(set(numbers))
    assert len({code.slug for code in CODES}) == len(CODES)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.number)
def test_a_code_is_complete(code: Code) -> None:
    assert re.fullmatch(r"TG0\d\d", code.number)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.slug)
    for sentence in (code.summary, code.explanation):
        assert sentence.endswith(".")
    assert code.invalid_example.strip()
    assert code.valid_example.strip()
    assert code.invalid_example != code.valid_example
