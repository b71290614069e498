"""`python -m e2e.bench [-o json] [--rounds N] [--table NAME]…`: the cost of webhooks on the local control plane."""

import json
import os
import platform
import signal
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

import click

from e2e.bench.bench_cluster import bench_cluster
from e2e.bench.figures import Figure, RejectionFigure, compute_figures, compute_rejection_figures
from e2e.bench.measure import (
    ALONE,
    SELDOM,
    Rounds,
    measure_compiled,
    measure_rejections,
    measure_round,
    measure_uncounted,
    measure_with_reservations,
)
from e2e.bench.table import format_rejection_table, format_table
from e2e.errors import BuildError, ClusterError
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from tallygate.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR


class _Table(StrEnum):
    """The tables of a run, each of which may be left out."""

    CREATES = "creates"
    REJECTIONS = "rejections"
    UNCOUNTED = "uncounted"
    COMPILED = "compiled"
    RESERVATIONS = "reservations"


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=10, show_default=True, help="Rounds of each table.")
@click.option("--creates", type=click.IntRange(1), default=200, show_default=True, help="Creates in each variant.")
@click.option(
    "--table",
    "tables",
    type=click.Choice([each.value for each in _Table]),
    multiple=True,
    help="Only this table; repeat it for several. All by default.",
)
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", help="How to print the figures.")
def main(rounds: int, creates: int, tables: Sequence[str], output: str) -> None:
    """Measure the time that webhooks add to the creation of a pod; progress on stderr."""
    try:
        load_average = os.getloadavg()
        measured = _measure(rounds, creates, frozenset(map(_Table, tables)) or frozenset(_Table))
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    rejections = [
        rejection
        for load in ((ALONE, SELDOM) if measured.rejected else ())
        for rejection in compute_rejection_figures([each[load] for each in measured.rejected], load)
    ]
    figures = {table: _compute(samples) for table, samples in measured.samples.items()}
    results = _Results(figures, rejections, min(measured.open_reservations, default=0))
    run = _Run(rounds, creates, load_average[0])
    click.echo(_as_json(results, run) if output == "json" else _as_table(results, run))


@dataclass(frozen=True, slots=True)
class _Run:
    """The size of a run: rounds, creates of each variant under each load, and the machine's load average."""

    rounds: int
    creates: int
    load: float


@dataclass(frozen=True, slots=True)
class _Measured:
    """All rounds by table, those with rejections, and the open reservations after each load."""

    samples: defaultdict[_Table, list[Rounds]] = field(default_factory=lambda: defaultdict(list))
    rejected: list[Rounds] = field(default_factory=list)
    open_reservations: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Results:
    """The figures of all tables, and the minimum number of open reservations."""

    figures: Mapping[_Table, list[Figure]]
    rejections: list[RejectionFigure]
    min_open: int


def _measure(rounds: int, creates: int, tables: frozenset[_Table]) -> _Measured:
    click.echo("starting a control plane …", err=True)
    measured = _Measured()
    with LocalCluster() as cluster, bench_cluster(cluster) as bench:
        for _ in _count_rounds(rounds, tables - {_Table.COMPILED, _Table.RESERVATIONS}):
            if _Table.CREATES in tables:
                measured.samples[_Table.CREATES].append(measure_round(bench, creates))
            if _Table.REJECTIONS in tables:
                measured.rejected.append(measure_rejections(bench, creates))
            if _Table.UNCOUNTED in tables:
                measured.samples[_Table.UNCOUNTED].append(measure_uncounted(bench, creates))
        if _Table.COMPILED in tables:
            with bench.apply_backstop():
                for _ in _count_rounds(rounds, {_Table.COMPILED}):
                    measured.samples[_Table.COMPILED].append(measure_compiled(bench, creates))
        # Last, because the gate reads and writes while reservations expire.
        for _ in _count_rounds(rounds, tables & {_Table.RESERVATIONS}):
            samples, after = measure_with_reservations(bench, creates)
            measured.samples[_Table.RESERVATIONS].append(samples)
            measured.open_reservations.extend(after)
    return measured


def _count_rounds(rounds: int, tables: Collection[_Table]) -> Iterator[int]:
    """Yield the numbers of the rounds of these tables, and print each; none without tables."""
    for number in range(rounds if tables else 0):
        click.echo(f"round {number + 1} of {rounds}: {', '.join(sorted(tables))} …", err=True)
        yield number


def _compute(rounds: Sequence[Rounds]) -> list[Figure]:
    return [figure for load in rounds[0] for figure in compute_figures([each[load] for each in rounds], load)]


def _as_table(results: _Results, run: _Run) -> str:
    machine = (
        f"Kubernetes {kubernetes_version()} and everything else on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; load before: {run.load:.1f}. {run.rounds} rounds of {run.creates} creates."
    )
    titles = {
        _Table.CREATES: "",
        _Table.UNCOUNTED: "Pods that no policy concerns:",
        _Table.COMPILED: "With twenty policies:",
        _Table.RESERVATIONS: f"With at least {results.min_open:,} open reservations:",
    }
    lines = [machine]
    for table, figures in results.figures.items():
        lines += ["", *([titles[table], ""] if titles[table] else ()), *format_table(figures)]
    if results.rejections:
        lines += ["", "Rejected:", "", *format_rejection_table(results.rejections)]
    return "\n".join(lines)


def _as_json(results: _Results, run: _Run) -> str:
    return json.dumps(
        {
            "kubernetes": kubernetes_version(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": run.load,
            "rounds": run.rounds,
            "creates": run.creates,
            "figures": {table: [asdict(figure) for figure in figures] for table, figures in results.figures.items()},
            "rejections": [asdict(rejection) for rejection in results.rejections],
            "min_open": results.min_open,
        },
        indent=2,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the shell ignores it
    main()
