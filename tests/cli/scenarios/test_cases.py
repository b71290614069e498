"""`tallygate test`: every case on disk gives what it expects.

A change of wording elsewhere may be meant: `python -m tests.cli.scenarios.record` writes the expectations anew.
"""

import pytest

from tests.cli.scenarios.case import Case, expectations


@pytest.mark.parametrize(("case", "form"), expectations(), ids=lambda value: getattr(value, "name", value))
def test_output(case: Case, form: str) -> None:
    """The whole output, byte for byte."""
    assert case.run(form) == (case.folder / f"expected.{form}").read_text()
