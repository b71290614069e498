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
from e2e.storm.table import table
from webhook.cli.framework import EXIT_FINDINGS, EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(STORMS)))
def main(names: tuple[str, ...]) -> None:
    """Bring storms over caps (all, or those named); progress on stderr.

    Exit code 1 when a cap was passed, or something else was not as it should be.
    """
    load = os.getloadavg()[0]
    try:
        outcomes, failures = _outcomes(names or tuple(STORMS))
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    click.echo(
        f"Kubernetes {kubernetes_version()} and everything else on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; load before: {load:.1f}, after: {os.getloadavg()[0]:.1f}.\n"
    )
    unmet = [*failures, *(f"{each.title}: {text}" for each in outcomes for text in each.unmet)]
    is_over = any(each.is_over for each in outcomes)
    for line in (*table(outcomes), "", *unmet, "OVER" if is_over else "never over"):
        click.echo(line)
    sys.exit(EXIT_FINDINGS if is_over or unmet else 0)


def _outcomes(names: tuple[str, ...]) -> tuple[list[Outcome], list[str]]:
    """What came of each, and what was said of those that broke off."""
    click.echo("starting a control plane …", err=True)
    outcomes, failures = list[Outcome](), list[str]()
    with LocalCluster() as cluster, ground(cluster) as made:
        for name in names:
            click.echo(f"{name} …", err=True)
            try:
                outcomes.append(STORMS[name](made))
            except ClusterError as error:
                failures.append(f"{name}: {error}")
                made.cluster.check()
    return outcomes, failures


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    main()
