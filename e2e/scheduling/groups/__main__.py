"""`python -m e2e.scheduling.groups`: drawn PodGroups for a real scheduler, compared with their predictions."""

import signal
import sys
from collections import Counter
from contextlib import suppress
from itertools import count

import click

from e2e.errors import ClusterError
from e2e.scheduling.api import Api, RejectedError
from e2e.scheduling.base_objects import create_base_objects
from e2e.scheduling.draw.pod_groups import draw_group
from e2e.scheduling.groups.comparison import find_differences, is_unknown
from e2e.scheduling.groups.group_runner import GroupRunner, RecordedGroup
from e2e.scheduling.plane import plane
from e2e.scheduling.scheduler_dumps import SchedulerDumps
from tallygate.cli.framework import EXIT_FINDINGS, EXIT_INTERNAL_ERROR

_GATES = "GenericWorkload=true,DRAWorkloadResourceClaims=true"
_SERVED = "scheduling.k8s.io/v1beta1=true"


@click.command()
@click.option("--cases", default=500, show_default=True, help="Number of cases.")
@click.option("--seed", default=1, show_default=True, help="Seed of the cases.")
def main(cases: int, seed: int) -> None:
    """Draw clusters with a PodGroup, run the scheduler on them, and print where the predictions differ.

    Exit code 1 if some differ.
    """
    different, unknown, outcomes, done = 0, 0, Counter[str](), 0
    try:
        with plane(feature_gates=_GATES, runtime_config=_SERVED) as running:
            api = Api(running.access)
            create_base_objects(api)
            runner = GroupRunner(api, SchedulerDumps(running))
            for number in count():
                if done == cases:
                    break
                with suppress(RejectedError):
                    case = runner.run(draw_group(seed, number))
                    done += 1
                    outcomes[_name_outcome(case)] += 1
                    unknown += is_unknown(case)
                    if lines := list(find_differences(case)):
                        different += 1
                        click.echo("\n  ".join((f"{seed}/{number}", *lines)))
            api.close()
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_INTERNAL_ERROR)
    click.echo(", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common()))
    click.echo(f"{different} of {done:,} groups differ, {unknown} are unknown")
    sys.exit(EXIT_FINDINGS if different else 0)


def _name_outcome(case: RecordedGroup) -> str:
    placed = sum(bool(result.node) for result in case.results.values())
    if placed:
        return "bound whole" if placed == len(case.results) else "bound in part"
    return "refused" if any(result.message for result in case.results.values()) else "kept out of the queue"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the shell ignores it
    main()
