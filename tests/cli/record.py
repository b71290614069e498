"""Write down what the cases give now: `python -m tests.cli.record [CASE...]`. Read the difference before committing."""

import sys

from tests.cli.audit import CASES as AUDITING
from tests.cli.case import FORMATS, cases
from tests.cli.predict import CASES as PREDICTING
from tests.cli.usage import case as usage


def record(names: list[str]) -> None:
    """Renew what is expected of these cases, or of all."""
    for case in cases():
        if names and case.name not in names:
            continue
        (case.folder / "expected.findings").write_text(case.findings())
        for form in FORMATS:
            path = case.folder / f"expected.{form}"
            if path.exists():
                path.write_text(case.run(form).stdout)
    for shown in (*usage.cases(), *usage.cases(PREDICTING), *usage.cases(AUDITING)):
        if not names or shown.name in names:
            shown.expected.write_text(shown.run())


if __name__ == "__main__":
    record(sys.argv[1:])
