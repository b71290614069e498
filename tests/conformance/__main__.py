"""`python -m tests.conformance FILE...`: exit 0: all agree; 1: some do not; 2: a file cannot be compared."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.case import CaseFileError
from tests.conformance.report import run


def main(arguments: Sequence[str]) -> int:
    """Report on every file; the worst of them decides the exit code."""
    if not arguments:
        sys.stderr.write("usage: python -m tests.conformance FILE...\n")
        return 2
    return max(_report(Path(each)) for each in arguments)


def _report(path: Path) -> int:
    """Report on one file."""
    try:
        report = run(path)
    except CaseFileError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{report}\n")
    return 1 if report.disagreements else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
