"""The summary: how much was looked at, and what came of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from webhook.cli.report.finding import Finding, Level


@dataclass(slots=True)
class Seen:
    """What was looked at. `things` are counted by `noun`; `passed_over` are kinds that nothing is known about."""

    noun: str
    files: int = 0
    things: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)
    not_objects: int = 0
    remarks: list[str] = field(default_factory=list)


def levels(findings: Sequence[Finding]) -> Counter[Level]:
    """How many findings there are of each level."""
    return Counter(finding.level for finding in findings)


def sentences(seen: Seen, findings: Sequence[Finding]) -> list[str]:
    """The summary for a person."""
    found = levels(findings)
    said = ", ".join(_count(found[level], level.value) for level in Level if found[level]) or "nothing found"
    lines = [f"{_count(seen.things, seen.noun)} in {_count(seen.files, 'file')}: {said}"]
    if seen.passed_over:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(seen.passed_over.items()))
        lines.append(f"{_count(seen.passed_over.total(), 'object')} of kinds that ask for nothing passed over: {kinds}")
    if seen.not_objects:
        lines.append(f"{_count(seen.not_objects, 'document')} passed over that no API has: neither apiVersion nor kind")
    return lines + seen.remarks


def fails(findings: Sequence[Finding], *, strict: bool) -> bool:
    """Whether the findings make the command fail: errors do, under `strict` warnings too."""
    found = levels(findings)
    return bool(found[Level.ERROR] or (strict and found[Level.WARNING]))


def as_data(seen: Seen, findings: Sequence[Finding]) -> dict[str, object]:
    """The summary for a program."""
    found = levels(findings)
    return {
        "files": seen.files,
        f"{seen.noun}s" if not seen.noun.endswith("y") else "policies": seen.things,
        **{f"{level.value}s": found[level] for level in Level},
        "passedOver": dict(sorted(seen.passed_over.items())),
        "notObjects": seen.not_objects,
        "remarks": seen.remarks,
    }


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{number} {noun}s"
