"""Judging: every case on disk, and what holds for any change."""

import pytest

from tests.admission.case import Case, read, said

CASES = read()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_verdict_is_what_the_sentence_says(case: Case) -> None:
    assert said(case.verdict()) == case.answers
