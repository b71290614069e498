"""The plain transcription says what a real scheduler said, case by case."""

from pathlib import Path

import pytest

from tests.accounting.scheduling import plain
from tests.conformance.case import read_cases
from tests.conformance.schedule import comparing

CASES = sorted((Path(__file__).parents[2] / "conformance" / "cases").glob("*schedule*.jsonl*"))


def test_there_are_cases() -> None:
    assert {each.name.partition(".")[0] for each in CASES} >= {"schedule", "schedule-hard", "schedule-topology"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_it_agrees_with_the_real_scheduler(path: Path) -> None:
    compare = comparing(plain.schedule)
    outcomes = {number: compare(case).differences for number, case in enumerate(read_cases(path), start=1)}
    assert outcomes
    assert {number: differences for number, differences in outcomes.items() if differences} == {}
