"""The report on one file."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.case import Case, CaseFileError, Outcome, read_cases
from tests.conformance.kinds import UnknownKindError, compare

SHOWN = 5
"""The number of disagreements that are shown in full."""


@dataclass(slots=True)
class Report:
    """The counts of a file, and its disagreements."""

    path: Path
    cases: int = 0
    not_judged: int = 0
    beyond_int64: int = 0
    disagreements: list[tuple[int, Case, Outcome]] = field(default_factory=list)

    def __str__(self) -> str:
        """Return a line of counts, then the first disagreements, each with its case."""
        wrong = len(self.disagreements)
        counts = f"{self.path}: {self.cases} cases, {wrong} disagreements, {self.not_judged} not judged"
        beyond = f", {self.beyond_int64} beyond int64" if self.beyond_int64 else ""
        return "\n".join([counts + beyond, *(_format_disagreement(*each) for each in self.disagreements[:SHOWN])])


def run(path: Path) -> Report:
    """Compare every case of a file.

    Agreeing cases have separate counts where tallygate does not model a feature, and where integers wrap around.

    Raises:
        CaseFileError: if the file cannot be read, or has a case of an unknown kind.
    """
    report = Report(path)
    for case in read_cases(path):
        report.cases += 1
        outcome = _compare_case(path, report.cases, case)
        if outcome.differences:
            report.disagreements.append((report.cases, case, outcome))
        elif not outcome.is_judged:
            report.not_judged += 1
        elif outcome.beyond_int64:
            report.beyond_int64 += 1
    return report


def _compare_case(path: Path, number: int, case: Case) -> Outcome:
    """Compare one case, and name its number if its kind is unknown."""
    try:
        return compare(case)
    except UnknownKindError as error:
        raise CaseFileError(f"{path}: case {number}: {error}") from error


def _format_disagreement(number: int, case: Case, outcome: Outcome) -> str:
    """Format a disagreement with its case."""
    return "\n".join([f"  case {number}: {json.dumps(case)}", *(f"    {each}" for each in outcome.differences)])
