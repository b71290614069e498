"""Record the current output of cases: `python -m tests.cli.record [CASE...]`. Review the difference."""

import sys

from tests.cli.audit import CASES as AUDIT_CASES
from tests.cli.check_case import FORMATS, list_cases
from tests.cli.compile import CASES as COMPILE_CASES
from tests.cli.predict import CASES as PREDICT_CASES
from tests.cli.usage import command_case


def record(names: list[str]) -> None:
    """Record the expected output of these cases, or of all."""
    for case in list_cases():
        if names and case.name not in names:
            continue
        (case.folder / "expected.findings").write_text(case.format_findings())
        for output_format in FORMATS:
            path = case.folder / f"expected.{output_format}"
            if path.exists():
                path.write_text(case.run(output_format).stdout)
    for command in (
        *command_case.list_cases(),
        *command_case.list_cases(PREDICT_CASES),
        *command_case.list_cases(AUDIT_CASES),
        *command_case.list_cases(COMPILE_CASES),
    ):
        if not names or command.name in names:
            command.expected.write_text(command.run())


if __name__ == "__main__":
    record(sys.argv[1:])
