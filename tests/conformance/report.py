"""What came of one file."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.case import Case, CaseFileError, Outcome, read_cases
from tests.conformance.kinds import UnknownKindError, compare

SHOWN = 5
"""How many disagreements are shown in full."""


@dataclass(slots=True)
class Report:
    """The count of a file, and its disagreements."""

    path: Path
    cases: int = 0
    not_judged: int = 0
    beyond_int64: int = 0
    disagreements: list[tuple[int, Case, Outcome]] = field(default_factory=list)

    def __str__(self) -> str:
        """One line of counts, then the first disagreements, each with its case."""
        wrong = len(self.disagreements)
        counts = f"{self.path}: {self.cases} cases, {wrong} disagreements, {self.not_judged} not judged"
        beyond = f", {self.beyond_int64} beyond int64" if self.beyond_int64 else ""
        return "\n".join([counts + beyond, *(_shown(*each) for each in self.disagreements[:SHOWN])])


def run(path: Path) -> Report:
    """Compare every case of a file.

    Cases that agree are counted apart where tallygate does not judge, and where Kubernetes' integers wrap around.

    Raises:
        CaseFileError: the file cannot be read, or holds a case of an unknown kind.
    """
    report = Report(path)
    for case in read_cases(path):
        report.cases += 1
        outcome = _outcome(path, report.cases, case)
        if outcome.differences:
            report.disagreements.append((report.cases, case, outcome))
        elif not outcome.is_judged:
            report.not_judged += 1
        elif outcome.beyond_int64:
            report.beyond_int64 += 1
    return report


def _outcome(path: Path, number: int, case: Case) -> Outcome:
    """How one case went, an unknown kind being said with its place."""
    try:
        return compare(case)
    except UnknownKindError as error:
        raise CaseFileError(f"{path}: case {number}: {error}") from error


def _shown(number: int, case: Case, outcome: Outcome) -> str:
    """A disagreement in full."""
    return "\n".join([f"  case {number}: {json.dumps(case)}", *(f"    {each}" for each in outcome.differences)])
