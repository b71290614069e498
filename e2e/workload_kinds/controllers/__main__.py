"""`python -m e2e.workload_kinds.controllers`: records how many pods each project's controller makes of objects."""

import json
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from e2e.api import api
from e2e.errors import BuildError, ClusterError
from e2e.local.cluster import LocalCluster
from e2e.workload_kinds.controllers.counting import Outcome, count_pods, list_cases
from e2e.workload_kinds.controllers.projects import PROJECTS
from e2e.workload_kinds.controllers.running import run_controller
from tallygate.webhook.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR

_RECORD: Final = Path(__file__).parents[3] / "tests/admission/controller_pods.jsonl"
_NAMES: Final = tuple(project.name for project in PROJECTS)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(_NAMES))
@click.option("--out", type=click.Path(path_type=Path), default=_RECORD, help="The file to write.")
def main(names: tuple[str, ...], out: Path) -> None:
    """Run the controllers of the projects (all, or those named), and record the pods that they make; minutes."""
    try:
        outcomes = _record(names or _NAMES)
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    out.write_text("".join(f"{_format_line(outcome)}\n" for outcome in outcomes))
    click.echo(f"{out}: {len(outcomes)} cases")


def _record(names: tuple[str, ...]) -> list[Outcome]:
    with LocalCluster() as cluster, ExitStack() as ends:
        for project in PROJECTS:
            if project.name in names:
                click.echo(f"{project.name} {project.version} …", err=True)
                run_controller(project, cluster, ends)
        cases = [case for case in list_cases() if case.project.name in names]
        click.echo(f"{len(cases)} cases …", err=True)
        return count_pods(cases, api(cluster.kubeconfig))


def _format_line(outcome: Outcome) -> str:
    project = outcome.case.project
    return json.dumps(
        {
            "case": outcome.case.name,
            "module": project.module,
            "version": project.version,
            "objects": outcome.forms,
            "pods": dict(sorted(outcome.pods.items())),
        }
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
