"""Merging: one mistake is told once, however many would complain of it.

The API server fills a missing request in from its limit, and allocatable from capacity, and then complains of both; and
a rule often refuses what the API server refuses too, in other words.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from webhook.accounting.problem import Problem
from webhook.cli.manifest.locate import Spot
from webhook.cli.report.finding import Level

API_SERVER = "the API server"
LETS_THROUGH = "tallygate (Kubernetes lets it through)"

_LIST = re.compile(
    r"(?P<before>.*)\.(?:requests|limits|capacity|allocatable|default|defaultRequest|min|max)(?:[\[.].*)?", re.DOTALL
)
_SAME = {
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
class Said:
    """A problem, who says it and how much it matters; `why` is the reason that a policy's author gives."""

    problem: Problem
    by: str
    level: Level
    why: str = ""


@dataclass(frozen=True, slots=True)
class Located:
    """What was said, and where in the file it belongs."""

    said: Said
    spot: Spot


def merged(located: Sequence[Located]) -> Iterator[Located]:
    """Everything that was said, each mistake once.

    What is said of a field that is not written gives way to the same about one that is; what Kubernetes says gives way
    to a rule that says it too, which then speaks for both.
    """
    written = {_echo(each.said) for each in located if each.spot.exact}
    told = {(each.said, each.spot.place): each for each in located}.values()
    every = [each for each in told if each.spot.exact or _echo(each.said) not in written]
    by_rules = [each for each in every if each.said.problem.rule]
    for each in every:
        if each.said.problem.rule:
            also = any(other.said.by == API_SERVER and _covers(each, other) for other in every)
            said = replace(each.said, by=f"{each.said.by} and {API_SERVER}") if also else each.said
            yield replace(each, said=said)
        elif not any(_covers(rule, each) for rule in by_rules):
            yield each


def _echo(said: Said) -> tuple[str, ...]:
    """What a complaint about a request and its copy about the limit have in common."""
    match = _LIST.fullmatch(said.problem.field)
    return said.by, said.problem.code, said.problem.message, match["before"] if match else said.problem.field


def _covers(rule: Located, other: Located) -> bool:
    """Whether a rule tells of what Kubernetes says, or fails to say, at the same place or of the same name there."""
    ours, theirs = rule.said.problem, other.said.problem
    if theirs.rule or (
        other.said.by == API_SERVER
        and (rule.said.level is not Level.ERROR or theirs.code not in _SAME.get(ours.code, ()))
    ):
        return False
    if rule.spot.place == other.spot.place:
        return True
    name = ours.field.removeprefix(theirs.field)
    return name.startswith("[") and f" {name[1:-1]} " in theirs.message
