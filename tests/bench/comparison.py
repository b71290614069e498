"""Comparison of servers: rounds of load that take turns, and a row of a table for each server."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.load import LoadResult, run_load
from tests.bench.servers import RunningServer

REVIEW = Path(__file__).parent / "review.json"
HEAD = (
    "| connections | server | requests/s | p50 µs | p99 µs | CPU µs/request | failed |\n"
    "| ---: | --- | ---: | ---: | ---: | ---: | ---: |"
)


@dataclass(frozen=True, slots=True)
class Effort:
    """The number of rounds, the seconds of each, and the number of connections."""

    rounds: int
    seconds: int
    connections: int


def compare(servers: Mapping[str, RunningServer], effort: Effort, folder: Path) -> dict[str, LoadResult]:
    """Measure each server, print a row for each, and return the medians."""
    results: dict[str, list[LoadResult]] = {label: [] for label in servers}
    for _ in range(effort.rounds):
        for label, server in servers.items():
            results[label].append(run_load(server, effort.connections, effort.seconds, REVIEW, folder))
    medians = {label: _compute_median(runs) for label, runs in results.items()}
    for label, each in medians.items():
        print(
            f"| {effort.connections} | {label} | {each.per_second:,.0f} | {each.p50} | {each.p99} | {each.cpu:.0f} | "
            f"{each.failed} |"
        )
    return medians


def format_ratio(title: str, mine: LoadResult, theirs: LoadResult, connections: int) -> str:
    """Return a row with the figures of one server divided by those of the other."""
    rate = mine.per_second / theirs.per_second
    return (
        f"| {connections} | *{title}* | **{rate:.2f} ×** | {mine.p50 / theirs.p50:.2f} | "
        f"**{mine.p99 / theirs.p99:.2f}** | {mine.cpu / theirs.cpu:.2f} | |"
    )


def _compute_median(runs: list[LoadResult]) -> LoadResult:
    return LoadResult(
        per_second=statistics.median(each.per_second for each in runs),
        p50=round(statistics.median(each.p50 for each in runs)),
        p99=round(statistics.median(each.p99 for each in runs)),
        cpu=statistics.median(each.cpu for each in runs),
        failed=sum(each.failed for each in runs),
    )
