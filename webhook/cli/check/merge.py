"""Merging: one mistake is told once, however many would complain of it.

The API server fills a missing request in from its limit, and allocatable from capacity, and then complains of both; and
a rule often refuses what the API server refuses too, in other words.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from webhook.accounting.problem import Problem
from webhook.cli.manifest.locate import Spot
from webhook.cli.output.findings import FindingSeverity

API_SERVER = "the API server"
ACCEPTED_BY_KUBERNETES = "tallygate (Kubernetes lets it through)"

_RESOURCE_LIST_FIELD = re.compile(
    r"(?P<before>.*)\.(?:requests|limits|capacity|allocatable|default|defaultRequest|min|max)(?:[\[.].*)?", re.DOTALL
)
_CODES_COVERED_BY_RULE = {
    "TG101": {"TG006"},
    "TG102": {"TG001", "TG002", "TG003"},
    "TG103": {"TG010"},
    "TG104": {"TG012"},
    "TG109": {"TG004"},
    "TG110": {"TG007"},
    "TG111": {"TG005"},
}
"""Code of a rule to those of the API server's problems that it tells of too."""


@dataclass(frozen=True, slots=True)
class ReportedProblem:
    """A problem, who says it and how much it matters; `why` is the reason that a policy's author gives."""

    problem: Problem
    reporter: str
    severity: FindingSeverity
    why: str = ""


@dataclass(frozen=True, slots=True)
class LocatedProblem:
    """What was said, and where in the file it belongs."""

    reported: ReportedProblem
    location: Spot


def merge_problems(located: Sequence[LocatedProblem]) -> Iterator[LocatedProblem]:
    """Everything that was said, each mistake once.

    What is said of a field that is not written gives way to the same about one that is; what Kubernetes says gives way
    to a rule that says it too, which then speaks for both.
    """
    written_keys = {_create_key(each.reported) for each in located if each.location.exact}
    unique_problems = {(each.reported, each.location.place): each for each in located}.values()
    candidates = [
        each for each in unique_problems if each.location.exact or _create_key(each.reported) not in written_keys
    ]
    rule_problems = [each for each in candidates if each.reported.problem.rule]
    for candidate in candidates:
        if candidate.reported.problem.rule:
            reported = candidate.reported
            if any(other.reported.reporter == API_SERVER and _is_covered(candidate, other) for other in candidates):
                reported = replace(reported, reporter=f"{reported.reporter} and {API_SERVER}")
            yield replace(candidate, reported=reported)
        elif not any(_is_covered(rule, candidate) for rule in rule_problems):
            yield candidate


def _create_key(reported: ReportedProblem) -> tuple[str, ...]:
    """What a complaint about a request and its copy about the limit have in common."""
    match = _RESOURCE_LIST_FIELD.fullmatch(reported.problem.field)
    return (
        reported.reporter,
        reported.problem.code,
        reported.problem.message,
        match["before"] if match else reported.problem.field,
    )


def _is_covered(rule: LocatedProblem, other: LocatedProblem) -> bool:
    """Whether a rule tells of what Kubernetes says, or fails to say, at the same place or of the same name there."""
    rule_problem, other_problem = rule.reported.problem, other.reported.problem
    if other_problem.rule or (
        other.reported.reporter == API_SERVER
        and (
            rule.reported.severity is not FindingSeverity.ERROR
            or other_problem.code not in _CODES_COVERED_BY_RULE.get(rule_problem.code, ())
        )
    ):
        return False
    if rule.location.place == other.location.place:
        return True
    name = rule_problem.field.removeprefix(other_problem.field)
    return name.startswith("[") and f" {name[1:-1]} " in other_problem.message
