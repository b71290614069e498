"""`python -m e2e.workload_kinds.controllers`: records how many pods each project's controller makes of objects."""

import json
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from e2e.api import api
from e2e.errors import BuildError, ClusterError
from e2e.local.cluster import LocalCluster
from e2e.workload_kinds.controllers.counting import Outcome, count_pods
from e2e.workload_kinds.controllers.projects import PROJECTS, Project
from e2e.workload_kinds.controllers.running import run_controller
from tallygate.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR

_RECORDS: Final = Path(__file__).parents[3] / "tests/admission/controller_pods"
_NAMES: Final = tuple(project.name for project in PROJECTS)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(_NAMES))
@click.option("--out", type=click.Path(path_type=Path), default=_RECORDS, help="The folder of the files to write.")
def main(names: tuple[str, ...], out: Path) -> None:
    """Run the controllers of the projects (all, or those named), and record the pods that they make; minutes."""
    out.mkdir(parents=True, exist_ok=True)
    for project in PROJECTS:
        if project.name not in (names or _NAMES):
            continue
        click.echo(f"{project.name} {project.version} …", err=True)
        try:
            outcomes = _record(project)
        except ClusterError as error:
            click.echo(f"tallygate: {error}", err=True)
            sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
        file = out / f"{project.name}.jsonl"
        file.write_text("".join(f"{_format_line(outcome)}\n" for outcome in outcomes))
        click.echo(f"{file}: {len(outcomes)} cases")


def _record(project: Project) -> list[Outcome]:
    """Return the outcomes of the cases of a project, on a cluster of its own: some projects define the same kind.

    Raises:
        BuildError: if a program is not built and cannot be.
        ClusterError: if something is refused, or is not ready in time.
    """
    with LocalCluster() as cluster, ExitStack() as ends:
        for each in (*project.needs, project):
            run_controller(each, cluster, ends)
        return count_pods(project, api(cluster.kubeconfig))


def _format_line(outcome: Outcome) -> str:
    project = outcome.case.project
    line: dict[str, Any] = {
        "case": outcome.case.name,
        "module": project.module,
        "version": project.version,
        "objects": outcome.forms,
        "pods": dict(sorted(outcome.pods.items())),
    }
    if outcome.changed is not None:
        line["changed"] = dict(sorted(outcome.changed.items()))
    return json.dumps(line)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
