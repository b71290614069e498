"""`tallygate test`: the output of every case on disk.

After an intended change, `python -m tests.cli.scenarios.record_scenarios` records the expected output again.
"""

import pytest

from tests.cli.recorded import check_recorded
from tests.cli.scenarios.scenario_case import ScenarioCase, list_expectations


@pytest.mark.parametrize(
    ("case", "output_format"), list_expectations(), ids=lambda value: getattr(value, "name", value)
)
def test_the_output_is_expected(case: ScenarioCase, output_format: str) -> None:
    check_recorded(case.folder, case.folder / f"expected.{output_format}", case.run(output_format))
