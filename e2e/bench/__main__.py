"""`python -m e2e.bench [-o json] [--rounds N]`: the cost of webhooks for a create on the local control plane."""

import json
import os
import platform
import signal
import sys
from dataclasses import asdict, dataclass, field

import click

from e2e.bench.bench_cluster import bench_cluster
from e2e.bench.figures import Figure, RejectionFigure, compute_figures, compute_rejection_figures
from e2e.bench.measure import (
    ALONE,
    LOADS,
    RESERVATIONS,
    RESERVING_LOADS,
    SELDOM,
    Load,
    Round,
    measure_rejections,
    measure_round,
    measure_with_reservations,
)
from e2e.bench.table import format_rejection_table, format_table
from e2e.errors import BuildError, ClusterError
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from tallygate.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=10, show_default=True, help="Rounds of each table.")
@click.option("--creates", type=click.IntRange(1), default=200, show_default=True, help="Creates in each variant.")
@click.option(
    "--only-reservations", is_flag=True, help="Only an empty ledger and one with reservations, beside a quota."
)
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", help="How to print the figures.")
def main(rounds: int, creates: int, output: str, *, only_reservations: bool) -> None:
    """Measure the time that webhooks add to the creation of a pod; progress on stderr."""
    try:
        load_average = os.getloadavg()
        measured = _rounds(rounds, creates, only_reservations=only_reservations)
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    results = _Results(
        [
            figure
            for load in (LOADS if measured.samples else ())
            for figure in compute_figures([each[load] for each in measured.samples], load)
        ],
        [
            rejection
            for load in ((ALONE, SELDOM) if measured.rejected else ())
            for rejection in compute_rejection_figures([each[load] for each in measured.rejected], load)
        ],
        [
            each
            for load in RESERVING_LOADS
            for each in compute_figures([samples[load] for samples in measured.reserving], load)
        ],
        min(measured.open_reservations),
    )
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
    """All rounds, those with rejections, those with reservations, and the open reservations after each load."""

    samples: list[dict[Load, Round]] = field(default_factory=list)
    rejected: list[dict[Load, Round]] = field(default_factory=list)
    reserving: list[dict[Load, Round]] = field(default_factory=list)
    open_reservations: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Results:
    """The figures of all tables, and the minimum number of open reservations."""

    figures: list[Figure]
    rejections: list[RejectionFigure]
    reserving: list[Figure]
    min_open: int


def _rounds(rounds: int, creates: int, *, only_reservations: bool) -> _Measured:
    click.echo("starting a control plane …", err=True)
    measured = _Measured()
    with LocalCluster() as cluster, bench_cluster(cluster) as bench:
        for number in range(0 if only_reservations else rounds):
            click.echo(f"round {number + 1} of {rounds} …", err=True)
            measured.samples.append(measure_round(bench, creates))
            measured.rejected.append(measure_rejections(bench, creates))
        for number in range(rounds):  # last, because the gate reads and writes while reservations expire
            click.echo(f"round {number + 1} of {rounds} with {RESERVATIONS:,} open reservations …", err=True)
            samples, after = measure_with_reservations(bench, creates)
            measured.reserving.append(samples)
            measured.open_reservations.extend(after)
    return measured


def _as_table(results: _Results, run: _Run) -> str:
    machine = (
        f"Kubernetes {kubernetes_version()} and everything else on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; load before: {run.load:.1f}. {run.rounds} rounds of {run.creates} creates."
    )
    reserving = f"With at least {results.min_open:,} open reservations:"
    lines = [machine, ""]
    if results.figures:
        lines += [*format_table(results.figures), "", *format_rejection_table(results.rejections), ""]
    lines += [reserving, ""]
    return "\n".join([*lines, *format_table(results.reserving)])


def _as_json(results: _Results, run: _Run) -> str:
    return json.dumps(
        {
            "kubernetes": kubernetes_version(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": run.load,
            "rounds": run.rounds,
            "creates": run.creates,
            "figures": [asdict(figure) for figure in results.figures],
            "rejections": [asdict(rejection) for rejection in results.rejections],
            "reserving": [asdict(figure) for figure in results.reserving],
            "min_open": results.min_open,
        },
        indent=2,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the shell ignores it
    main()
