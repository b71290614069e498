"""`tallygate audit`: every case on disk gives what it expects.

A change of wording may be meant: `python -m tests.cli.record` writes the expectations anew.
"""

import pytest

from tests.cli.audit import CASES
from tests.cli.usage.case import Case, cases


@pytest.mark.parametrize("case", cases(CASES), ids=lambda case: case.name)
def test_what_is_shown(case: Case) -> None:
    """The whole output, byte for byte."""
    assert case.run() == case.expected.read_text()
