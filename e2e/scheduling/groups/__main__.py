"""`python -m e2e.scheduling.groups`: drawn PodGroups for a real scheduler, compared with their predictions."""

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count, islice

import click

from e2e.errors import ClusterError
from e2e.scheduling.api import Api, RejectedError
from e2e.scheduling.base_objects import create_base_objects
from e2e.scheduling.draw.pod_groups import draw_group
from e2e.scheduling.groups.comparison import find_differences, is_unknown
from e2e.scheduling.groups.group_runner import GroupRunner, RecordedGroup
from e2e.scheduling.plane import plane
from e2e.scheduling.scheduler_dumps import SchedulerDumps
from tallygate.cli.framework import EXIT_FINDINGS

_GATES = "GenericWorkload=true,DRAWorkloadResourceClaims=true"
_SERVED = "scheduling.k8s.io/v1beta1=true"


@click.command()
@click.option("--cases", default=500, show_default=True, help="Number of cases.")
@click.option("--seed", default=1, show_default=True, help="Seed of the cases.")
def main(cases: int, seed: int) -> None:
    """Draw clusters with a PodGroup, run the scheduler on them, and print where the predictions differ.

    Exit code 1 if some differ.
    """
    different, unknown, outcomes = 0, 0, Counter[str]()
    for name, case in islice(_run_cases(seed), cases):
        outcomes[_name_outcome(case)] += 1
        unknown += is_unknown(case)
        if lines := list(find_differences(case)):
            different += 1
            click.echo("\n  ".join((name, *lines)))
    click.echo(", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common()))
    click.echo(f"{different} of {cases:,} groups differ, {unknown} are unknown")
    sys.exit(EXIT_FINDINGS if different else 0)


def _run_cases(seed: int) -> Iterator[tuple[str, RecordedGroup]]:
    """Yield cases that the API server accepts, by name; a new control plane follows one that did not end a case."""
    numbers = count()
    while True:
        with (
            plane(feature_gates=_GATES, runtime_config=_SERVED) as running,
            closing(Api(running.access)) as api,
        ):
            create_base_objects(api)
            runner = GroupRunner(api, SchedulerDumps(running))
            for number in numbers:
                try:
                    with suppress(RejectedError):
                        yield f"{seed}/{number}", runner.run(draw_group(seed, number))
                except ClusterError as error:
                    click.echo(f"{seed}/{number} is left out: {error}", err=True)
                    break


def _name_outcome(case: RecordedGroup) -> str:
    placed = sum(bool(result.node) for result in case.results.values())
    if placed:
        return "bound whole" if placed == len(case.results) else "bound in part"
    return "refused" if any(result.message for result in case.results.values()) else "kept out of the queue"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the shell ignores it
    main()
