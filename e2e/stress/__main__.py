"""`python -m e2e.stress [NAME…]`: stress tests of caps on the local control plane; minutes on two cores."""

import os
import platform
import signal
import sys

import click

from e2e.errors import BuildError, ClusterError
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from e2e.stress.environment import prepare_environment
from e2e.stress.outcome import Outcome
from e2e.stress.runs import STRESS_RUNS
from e2e.stress.table import format_table
from tallygate.cli.framework import EXIT_FINDINGS, EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(STRESS_RUNS)))
def main(names: tuple[str, ...]) -> None:
    """Run stress tests of caps (all, or those named); progress on stderr.

    Exit code 1 when a cap was exceeded, or something else was not as expected.
    """
    load = os.getloadavg()[0]
    try:
        outcomes, failures = _outcomes(names or tuple(STRESS_RUNS))
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    click.echo(
        f"Kubernetes {kubernetes_version()} and everything else on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; load before: {load:.1f}, after: {os.getloadavg()[0]:.1f}.\n"
    )
    unmet = [*failures, *(f"{each.title}: {text}" for each in outcomes for text in each.unmet)]
    is_over = any(each.is_over for each in outcomes)
    for line in (*format_table(outcomes), "", *unmet, "OVER" if is_over else "never over"):
        click.echo(line)
    sys.exit(EXIT_FINDINGS if is_over or unmet else 0)


def _outcomes(names: tuple[str, ...]) -> tuple[list[Outcome], list[str]]:
    """Return the outcome of each test, and the errors of those that broke off."""
    click.echo("starting a control plane …", err=True)
    outcomes, failures = list[Outcome](), list[str]()
    with LocalCluster() as cluster, prepare_environment(cluster) as made:
        for name in names:
            click.echo(f"{name} …", err=True)
            try:
                outcomes.append(STRESS_RUNS[name](made))
            except ClusterError as error:
                failures.append(f"{name}: {error}")
                made.cluster.check()
    return outcomes, failures


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    main()
