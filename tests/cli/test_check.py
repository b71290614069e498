"""`tallygate check`: every case on disk gives what it expects."""

import pytest

from tests.cli.case import Case, cases, expectations


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_findings(case: Case) -> None:
    """Level, code, speaker and field of each finding, at its very line and column."""
    assert case.findings() == (case.folder / "expected.findings").read_text()


@pytest.mark.parametrize(("case", "form"), expectations(), ids=lambda value: getattr(value, "name", value))
def test_output(case: Case, form: str) -> None:
    """The whole output, byte for byte."""
    assert case.run(form).stdout == (case.folder / f"expected.{form}").read_text()
