"""Placing: a problem about a field becomes a finding about a line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webhook.accounting.problem import Problem
from webhook.cli.manifest.locate import Spot, locate
from webhook.cli.manifest.objects import Manifest
from webhook.cli.report.finding import Finding, Level, Subject

_SIDE = re.compile(r"\.(?:requests|limits)(?=\[|$)")


@dataclass(frozen=True, slots=True)
class Said:
    """A problem and how much it matters; `why` is the reason that the policy's author gives."""

    problem: Problem
    level: Level
    why: str = ""
    lets_through: bool = False

    @property
    def by(self) -> str:
        """Who says it."""
        if self.problem.rule:
            return f"{self.problem.by} {self.problem.rule}"
        return "tallygate: Kubernetes lets it through" if self.lets_through else "the API server"


def placed(manifest: Manifest, subject: Subject, said: Sequence[Said]) -> list[Finding]:
    """The findings, in the order of the file.

    The API server fills a missing request in from its limit and then complains of both. What it says of a field that is
    not written is left out where it says the same of one that is.
    """
    spots = [(each, locate(manifest.node, each.problem.field)) for each in said]
    written = {_echo(each) for each, spot in spots if spot.exact}
    return sorted(_finding(manifest, subject, each, spot) for each, spot in _unechoed(spots, written))


def _unechoed(spots: Sequence[tuple[Said, Spot]], written: set[tuple[str, ...]]) -> Iterator[tuple[Said, Spot]]:
    for each, spot in spots:
        if spot.exact or _echo(each) not in written:
            yield each, spot


def _echo(said: Said) -> tuple[str, ...]:
    """What a complaint about a request and its copy about the limit have in common."""
    problem = said.problem
    return said.by, problem.code, problem.value, _SIDE.sub("", problem.field)


def _finding(manifest: Manifest, subject: Subject, said: Said, spot: Spot) -> Finding:
    problem = said.problem
    return Finding(
        manifest.file,
        spot.place.line,
        spot.place.column,
        said.level,
        problem.code,
        problem.message,
        said.by,
        problem.field,
        subject,
        said.why,
    )
