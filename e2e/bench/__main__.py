"""`python -m e2e.bench [-o json]`: what webhooks cost a create on the local control plane; minutes on two cores."""

import json
import os
import platform
import signal
import sys
from dataclasses import asdict

import click

from e2e.bench.figures import Figure, Refusal, figures, refusal_figures
from e2e.bench.ground import ground
from e2e.bench.measure import ALONE, SELDOM, WAYS, Round, Way, one_round, refusals
from e2e.bench.table import refusal_table, table
from e2e.errors import BuildError, ClusterError
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from webhook.cli.command import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR

_ROUNDS = 10
_CREATES = 200  # in each variant, in each round, in each way


@click.command()
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", help="How to print the figures.")
def main(output: str) -> None:
    """Measure what webhooks add to the creation of a pod; progress on stderr."""
    try:
        load = os.getloadavg()
        taken, refused = _rounds()
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    found = [figure for way in WAYS for figure in figures([each[way] for each in taken], way)]
    told = [told for way in (ALONE, SELDOM) for told in refusal_figures([each[way] for each in refused], way)]
    click.echo(_as_json(found, told, load) if output == "json" else _as_table(found, told, load))


def _rounds() -> tuple[list[dict[Way, Round]], list[dict[Way, Round]]]:
    click.echo("starting a control plane …", err=True)
    with LocalCluster() as cluster, ground(cluster) as made:
        taken, refused = [], []
        for number in range(_ROUNDS):
            click.echo(f"round {number + 1} of {_ROUNDS} …", err=True)
            taken.append(one_round(made, _CREATES))
            refused.append(refusals(made, _CREATES))
    return taken, refused


def _as_table(found: list[Figure], refused: list[Refusal], load: tuple[float, float, float]) -> str:
    machine = (
        f"Kubernetes {kubernetes_version()} and everything else on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; load before: {load[0]:.1f}. {_ROUNDS} rounds of {_CREATES} creates."
    )
    return "\n".join([machine, "", *table(found), "", *refusal_table(refused)])


def _as_json(found: list[Figure], refused: list[Refusal], load: tuple[float, float, float]) -> str:
    return json.dumps(
        {
            "kubernetes": kubernetes_version(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": load[0],
            "rounds": _ROUNDS,
            "creates": _CREATES,
            "figures": [asdict(figure) for figure in found],
            "refusals": [asdict(refusal) for refusal in refused],
        },
        indent=2,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    main()
