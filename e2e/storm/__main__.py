"""`python -m e2e.storm [NAME…]`: caps under storms on the local control plane; minutes on two cores."""

import os
import platform
import signal
import sys

import click

from e2e.errors import BuildError, ClusterError
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from e2e.storm.ground import ground
from e2e.storm.outcome import Outcome
from e2e.storm.storms import STORMS
from e2e.storm.table import conclusion, table
from webhook.cli.command import EXIT_FAULT, EXIT_FINDINGS, EXIT_MISUSE


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(STORMS)))
def main(names: tuple[str, ...]) -> None:
    """Bring storms over caps (all, or those named); progress on stderr.

    Exit code 1 when a cap was passed, or something else was not as it should be.
    """
    load = os.getloadavg()[0]
    try:
        outcomes = _outcomes(names or tuple(STORMS))
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_MISUSE if isinstance(error, BuildError) else EXIT_FAULT)
    click.echo(
        f"Kubernetes {kubernetes_version()} and everything else on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; load before: {load:.1f}, after: {os.getloadavg()[0]:.1f}.\n"
    )
    for line in (*table(outcomes), "", *conclusion(outcomes)):
        click.echo(line)
    sys.exit(EXIT_FINDINGS if any(each.is_over or each.unmet for each in outcomes) else 0)


def _outcomes(names: tuple[str, ...]) -> list[Outcome]:
    click.echo("starting a control plane …", err=True)
    outcomes = []
    with LocalCluster() as cluster, ground(cluster) as made:
        for name in names:
            click.echo(f"{name} …", err=True)
            outcomes.append(STORMS[name](made))
    return outcomes


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    main()
