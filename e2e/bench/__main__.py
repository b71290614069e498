"""`python -m e2e.bench [-o json] [--rounds N]`: what webhooks cost a create on the local control plane."""

import json
import os
import platform
import signal
import sys
from dataclasses import asdict, dataclass, field

import click

from e2e.bench.figures import Figure, Refusal, figures, refusal_figures
from e2e.bench.ground import ground
from e2e.bench.measure import (
    ALONE,
    RESERVATIONS,
    RESERVING_WAYS,
    SELDOM,
    WAYS,
    Round,
    Way,
    beside_reservations,
    one_round,
    refusals,
)
from e2e.bench.table import refusal_table, table
from e2e.errors import BuildError, ClusterError
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from webhook.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=10, show_default=True, help="Rounds of each table.")
@click.option("--creates", type=click.IntRange(1), default=200, show_default=True, help="Creates in each variant.")
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", help="How to print the figures.")
def main(rounds: int, creates: int, output: str) -> None:
    """Measure what webhooks add to the creation of a pod; progress on stderr."""
    try:
        load = os.getloadavg()
        measured = _rounds(rounds, creates)
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    found = _Found(
        [figure for way in WAYS for figure in figures([each[way] for each in measured.taken], way)],
        [told for way in (ALONE, SELDOM) for told in refusal_figures([each[way] for each in measured.refused], way)],
        [each for way in RESERVING_WAYS for each in figures([taken[way] for taken in measured.reserving], way)],
        min(measured.open_reservations),
    )
    run = _Run(rounds, creates, load[0])
    click.echo(_as_json(found, run) if output == "json" else _as_table(found, run))


@dataclass(frozen=True, slots=True)
class _Run:
    """The size of a run: rounds, creates in each variant in each round and way; and the load before it."""

    rounds: int
    creates: int
    load: float


@dataclass(frozen=True, slots=True)
class _Measured:
    """All rounds, those with refusals, those with reservations, and how many of these were open after each way."""

    taken: list[dict[Way, Round]] = field(default_factory=list)
    refused: list[dict[Way, Round]] = field(default_factory=list)
    reserving: list[dict[Way, Round]] = field(default_factory=list)
    open_reservations: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Found:
    """The figures of all tables, and the least number of reservations that were open."""

    figures: list[Figure]
    refusals: list[Refusal]
    reserving: list[Figure]
    least_open: int


def _rounds(rounds: int, creates: int) -> _Measured:
    click.echo("starting a control plane …", err=True)
    measured = _Measured()
    with LocalCluster() as cluster, ground(cluster) as made:
        for number in range(rounds):
            click.echo(f"round {number + 1} of {rounds} …", err=True)
            measured.taken.append(one_round(made, creates))
            measured.refused.append(refusals(made, creates))
        for number in range(rounds):  # at last: while reservations expire the gate reads and writes for them
            click.echo(f"round {number + 1} of {rounds} with {RESERVATIONS:,} open reservations …", err=True)
            taken, after = beside_reservations(made, creates)
            measured.reserving.append(taken)
            measured.open_reservations.extend(after)
    return measured


def _as_table(found: _Found, run: _Run) -> str:
    machine = (
        f"Kubernetes {kubernetes_version()} and everything else on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; load before: {run.load:.1f}. {run.rounds} rounds of {run.creates} creates."
    )
    reserving = f"Beside open reservations, {found.least_open:,} at least:"
    lines = [machine, "", *table(found.figures), "", *refusal_table(found.refusals), "", reserving, ""]
    return "\n".join([*lines, *table(found.reserving)])


def _as_json(found: _Found, run: _Run) -> str:
    return json.dumps(
        {
            "kubernetes": kubernetes_version(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": run.load,
            "rounds": run.rounds,
            "creates": run.creates,
            "figures": [asdict(figure) for figure in found.figures],
            "refusals": [asdict(refusal) for refusal in found.refusals],
            "reserving": [asdict(figure) for figure in found.reserving],
            "least_open": found.least_open,
        },
        indent=2,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    main()
