"""Servers beside each other: rounds of load that take turns, and a row of a table for each."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.load import Measured, run
from tests.bench.servers import Running

REVIEW = Path(__file__).parent / "review.json"
HEAD = (
    "| connections | server | requests/s | p50 µs | p99 µs | CPU µs/request | failed |\n"
    "| ---: | --- | ---: | ---: | ---: | ---: | ---: |"
)


@dataclass(frozen=True, slots=True)
class Effort:
    """So many rounds of so many seconds each, by so many connections."""

    rounds: int
    seconds: int
    connections: int


def compare(servers: Mapping[str, Running], effort: Effort, folder: Path) -> dict[str, Measured]:
    """The median of each server; a row is printed for each."""
    taken: dict[str, list[Measured]] = {label: [] for label in servers}
    for _ in range(effort.rounds):
        for label, server in servers.items():
            taken[label].append(run(server, effort.connections, effort.seconds, REVIEW, folder))
    middle = {label: _median(runs) for label, runs in taken.items()}
    for label, each in middle.items():
        print(
            f"| {effort.connections} | {label} | {each.per_second:,.0f} | {each.p50} | {each.p99} | {each.cpu:.0f} | "
            f"{each.failed} |"
        )
    return middle


def ratio(title: str, mine: Measured, theirs: Measured, connections: int) -> str:
    """A row with one over the other."""
    rate = mine.per_second / theirs.per_second
    return (
        f"| {connections} | *{title}* | **{rate:.2f} ×** | {mine.p50 / theirs.p50:.2f} | "
        f"**{mine.p99 / theirs.p99:.2f}** | {mine.cpu / theirs.cpu:.2f} | |"
    )


def _median(runs: list[Measured]) -> Measured:
    return Measured(
        per_second=statistics.median(each.per_second for each in runs),
        p50=round(statistics.median(each.p50 for each in runs)),
        p99=round(statistics.median(each.p99 for each in runs)),
        cpu=statistics.median(each.cpu for each in runs),
        failed=sum(each.failed for each in runs),
    )
