"""Drawn groups on a real scheduler with the gates of PodGroups, each on a cluster of its own."""

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count

import click

from e2e.errors import ClusterError
from e2e.scheduling.api import Api, RejectedError
from e2e.scheduling.base_objects import create_base_objects
from e2e.scheduling.draw.pod_groups import draw_group
from e2e.scheduling.groups.group_runner import GroupRunner, RecordedGroup
from e2e.scheduling.plane import plane
from e2e.scheduling.scheduler_dumps import SchedulerDumps

_GATES = "GenericWorkload=true,DRAWorkloadResourceClaims=true"
_SERVED = "scheduling.k8s.io/v1beta1=true"


def run_drawn_groups(seed: int) -> Iterator[tuple[str, RecordedGroup]]:
    """Yield cases that the API server accepts, by name, without an end.

    A case that the scheduler does not end is left out with a message, and a new control plane has the next ones.
    """
    numbers = count()
    while True:
        with plane(feature_gates=_GATES, runtime_config=_SERVED) as running, closing(Api(running.access)) as api:
            create_base_objects(api)
            runner = GroupRunner(api, SchedulerDumps(running))
            for number in numbers:
                try:
                    with suppress(RejectedError):
                        yield f"{seed}/{number}", runner.run(draw_group(seed, number))
                except (ClusterError, OSError) as error:  # the latter where a connection was idle for too long
                    click.echo(f"{seed}/{number} is left out: {error}", err=True)
                    break
