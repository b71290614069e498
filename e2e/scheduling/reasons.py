"""Why pods were not scheduled, counted: whether each filter decides often enough."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from e2e.scheduling.asked import Result

_HISTOGRAM = re.compile(r"0/\d+ nodes are available: (?P<reasons>.*?)\.(?: |$)")
_COUNT = re.compile(r"\d+ (?=\S)")
_NAME = re.compile(r'"[^"]*"')


def table(results: Iterable[Result]) -> Iterator[str]:
    """Lines in Markdown: outcomes, then reasons by the cases in which they appear, and in which nothing else does."""
    outcomes, seen, alone = Counter[str](), Counter[str](), Counter[str]()
    for result in results:
        outcomes[_outcome(result)] += 1
        reasons = set() if result.scheduled else _reasons(result.message)
        seen.update(reasons)
        alone.update(reasons if len(reasons) == 1 else ())
    yield from ("| outcome | cases |", "| --- | ---: |")
    yield from (f"| {outcome} | {cases:,} |" for outcome, cases in outcomes.most_common())
    yield from ("", "| reason | cases | alone |", "| --- | ---: | ---: |")
    yield from (f"| {reason} | {cases:,} | {alone[reason]:,} |" for reason, cases in seen.most_common())


def _outcome(result: Result) -> str:
    if result.scheduled:
        return "scheduled"
    return "room is made by preemption" if result.nominated else "not scheduled"


def _reasons(message: str) -> set[str]:
    """What is said of nodes, of which each has its count, or of the pod as a whole."""
    histogram = _HISTOGRAM.match(message)
    parts = histogram["reasons"].split(", ") if histogram else [message]
    return {_NAME.sub('"…"', _COUNT.sub("", part, count=1)) for part in parts}
