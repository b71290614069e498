"""`tallygate audit`: the output of every case on disk.

After an intended change of messages, `python -m tests.cli.record` records the expected output again.
"""

import pytest

from tests.cli.audit import CASES
from tests.cli.recorded import check_recorded
from tests.cli.usage.command_case import CommandCase, list_cases


@pytest.mark.parametrize("case", list_cases(CASES), ids=lambda case: case.name)
def test_the_output_is_expected(case: CommandCase) -> None:
    check_recorded(case.folder, case.expected, case.run())
