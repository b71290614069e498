"""The reasons of unscheduled pods with their counts, which show whether each filter decides often enough."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from e2e.scheduling.recorded_case import Result

_HISTOGRAM = re.compile(r"0/\d+ nodes are available: (?P<reasons>.*?)\.(?: |$)")
_COUNT = re.compile(r"\d+ (?=\S)")
_NAME = re.compile(r'"[^"]*"')


def table(results: Iterable[Result]) -> Iterator[str]:
    """Yield lines of Markdown: outcomes, then reasons with the cases that have them, and that have no other."""
    outcomes, counts, sole_counts = Counter[str](), Counter[str](), Counter[str]()
    for result in results:
        outcomes[_outcome(result)] += 1
        reasons = set() if result.scheduled else _reasons(result.hold_reason or result.message)
        counts.update(reasons)
        sole_counts.update(reasons if len(reasons) == 1 else ())
    yield from ("| outcome | cases |", "| --- | ---: |")
    yield from (f"| {outcome} | {cases:,} |" for outcome, cases in outcomes.most_common())
    yield from ("", "| reason | cases | alone |", "| --- | ---: | ---: |")
    yield from (f"| {reason} | {cases:,} | {sole_counts[reason]:,} |" for reason, cases in counts.most_common())


def _outcome(result: Result) -> str:
    if result.scheduled:
        return "scheduled"
    return "preemption" if result.nominated else "not scheduled"


def _reasons(message: str) -> set[str]:
    """Return the reasons of nodes without their counts, or the reason of the whole pod."""
    histogram = _HISTOGRAM.match(message)
    parts = histogram["reasons"].split(", ") if histogram else [message]
    return {_NAME.sub('"…"', _COUNT.sub("", part, count=1)) for part in parts}
