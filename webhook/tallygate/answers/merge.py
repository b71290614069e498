"""The merging of problems: one mistake is reported once, although several checks find it.

The API server fills a missing request from its limit, and allocatable from capacity, and then reports both; and a rule
often denies an object for the same mistake as the API server, in other words.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tallygate.accounting.problem import Problem
from tallygate.admission.implied_requests import IMPLIED_FOR_PODS
from tallygate.documents.syntax_tree import FieldLocation, Position
from tallygate.manifests.findings import FindingSeverity

API_SERVER = "the API server"
ACCEPTED_BY_KUBERNETES = "tallygate (Kubernetes lets it through)"

_RESOURCE_LIST_FIELD = re.compile(
    r"(?P<before>.*)\.(?:requests|limits|capacity|allocatable|default|defaultRequest|min|max)(?:[\[.].*)?", re.DOTALL
)
_BRACKET = re.compile(r"\[")
_CODES_COVERED_BY_RULE = {
    "TG101": {"TG006"},
    "TG102": {"TG001", "TG002", "TG003"},
    "TG103": {"TG010"},
    "TG104": {"TG012"},
    "TG109": {"TG004"},
    "TG110": {"TG007"},
    "TG111": {"TG005"},
}
"""The codes of the API server's problems that each code of a rule covers."""


@dataclass(frozen=True, slots=True)
class ReportedProblem:
    """A problem, its reporter and its severity; `why` is the reason that the author of a policy gives."""

    problem: Problem
    reporter: str
    severity: FindingSeverity
    why: str = ""


@dataclass(frozen=True, slots=True)
class LocatedProblem:
    """A reported problem and its location in the file."""

    reported: ReportedProblem
    location: FieldLocation


def merge_problems(located: Sequence[LocatedProblem]) -> Iterator[LocatedProblem]:
    """Yield the problems, each mistake once.

    A problem of a field that is not written is dropped if a written field has the same one. A problem of Kubernetes is
    dropped if a rule reports the same mistake, and the rule's problem then names both reporters.
    """
    written_keys = {_create_key(problem.reported) for problem in located if problem.location.exact}
    unique_problems = {(problem.reported, problem.location.position): problem for problem in located}.values()
    candidates = [
        problem
        for problem in unique_problems
        if problem.location.exact or _create_key(problem.reported) not in written_keys
    ]
    rule_problems = [
        candidate
        for candidate in candidates
        if candidate.reported.problem.rule
        and candidate.reported.problem.code != IMPLIED_FOR_PODS  # a remark covers none
    ]
    by_rules = _PlaceIndex(rule_problems, candidates)
    by_api_server = _PlaceIndex(
        (candidate for candidate in candidates if candidate.reported.problem.rule),
        [candidate for candidate in candidates if candidate.reported.reporter == API_SERVER],
    )
    # rules of one code at one position cover the same problems there: a missing list has one position for all its names
    first_at_position = {
        (problem.location.position, problem.reported.problem.code, problem.reported.severity): problem
        for problem in reversed(rule_problems)
    }
    covered = {id(other) for rule in first_at_position.values() for other in by_rules.list_covered(rule)}
    covered |= {id(other) for rule in rule_problems for other in by_rules.list_covered_by_name(rule)}
    for candidate in candidates:
        if candidate.reported.problem.rule:
            reported = candidate.reported
            if any(by_api_server.list_covered(candidate)):
                reported = replace(reported, reporter=f"{reported.reporter} and {API_SERVER}")
            yield replace(candidate, reported=reported)
        elif id(candidate) not in covered:
            yield candidate


class _PlaceIndex:
    """Problems by their places and by the resource names in their messages, to find those that a rule covers.

    An object may have 100,000 problems, so that not every rule's one can be compared with every other one.
    """

    def __init__(self, rule_problems: Iterable[LocatedProblem], others: Sequence[LocatedProblem]) -> None:
        names = {name for problem in rule_problems for _, name in _list_named_fields(problem.reported.problem.field)}
        names_with_spaces = sorted(name for name in names if " " in name)
        self._by_position: dict[Position, list[LocatedProblem]] = {}
        self._by_name: dict[tuple[str, str], list[LocatedProblem]] = {}
        for other in others:
            problem = other.reported.problem
            self._by_position.setdefault(other.location.position, []).append(other)
            found = names.intersection(problem.message.split(" ")[1:-1])
            for name in found.union(name for name in names_with_spaces if f" {name} " in problem.message):
                self._by_name.setdefault((problem.field, name), []).append(other)

    def list_covered(self, rule: LocatedProblem) -> Iterator[LocatedProblem]:
        """Yield the problems whose mistake a rule reports, too."""
        at_position = self._by_position.get(rule.location.position, ())
        return chain(
            (finding for finding in at_position if _is_covered(rule, finding)), self.list_covered_by_name(rule)
        )

    def list_covered_by_name(self, rule: LocatedProblem) -> Iterator[LocatedProblem]:
        """Yield those of them whose messages have the resource name."""
        keys = _list_named_fields(rule.reported.problem.field)
        return (finding for key in keys for finding in self._by_name.get(key, ()) if _is_covered(rule, finding))


def _list_named_fields(field: str) -> Iterator[tuple[str, str]]:
    """Yield the fields around a field whose last step is a key in brackets, each with the text in the brackets."""
    if field.endswith("]"):
        yield from ((field[: bracket.start()], field[bracket.end() : -1]) for bracket in _BRACKET.finditer(field))


def _create_key(reported: ReportedProblem) -> tuple[str, ...]:
    """Return the key that a problem of a request shares with its copy at the limit."""
    match = _RESOURCE_LIST_FIELD.fullmatch(reported.problem.field)
    return (
        reported.reporter,
        reported.problem.code,
        reported.problem.message,
        match["before"] if match else reported.problem.field,
    )


def _is_covered(rule: LocatedProblem, other: LocatedProblem) -> bool:
    """Return whether a rule reports the mistake that another problem reports, at the same place or resource name."""
    rule_problem, other_problem = rule.reported.problem, other.reported.problem
    if other_problem.rule or (
        other.reported.reporter == API_SERVER
        and (
            rule.reported.severity is not FindingSeverity.ERROR
            or other_problem.code not in _CODES_COVERED_BY_RULE.get(rule_problem.code, ())
        )
    ):
        return False
    if rule.location.position == other.location.position:
        return True
    name = rule_problem.field.removeprefix(other_problem.field)
    return name.startswith("[") and f" {name[1:-1]} " in other_problem.message
