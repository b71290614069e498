"""`tallygate headroom`: how many more of a pod there is room for."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from webhook.accounting.quantity_parser import QuantityError
from webhook.accounting.scheduling.remaining_capacity import RemainingCapacity
from webhook.accounting.scheduling.remaining_capacity import compute_remaining_capacity as room_for
from webhook.cli.cluster.options import connection_options, snapshot_option
from webhook.cli.cluster.source import Source
from webhook.cli.command import Command, Misuse
from webhook.cli.predicting import data
from webhook.cli.predicting.asked import candidates_in, world_of
from webhook.cli.predicting.candidates import Candidate
from webhook.cli.predicting.world import World
from webhook.cli.progress import shown
from webhook.cli.report import write
from webhook.cli.report.table import aligned, harmless
from webhook.errors import TallygateError


@click.command(
    cls=Command,
    examples=(
        ("tallygate headroom -f train.yaml", "how many more of this pod, on which nodes, and what then is full"),
        ("tallygate headroom -f shapes/ --snapshot now.json", "of each pod in a folder, each by itself, in a snapshot"),
        ("tallygate headroom -f train.yaml -o json", "for a program"),
    ),
)
@click.option(
    "-f",
    "--filename",
    "filenames",
    metavar="FILE",
    multiple=True,
    required=True,
    type=click.Path(allow_dash=True),
    help="Manifests, a folder of them, or - for stdin; may be given several times. What makes pods stands for one.",
)
@click.option(
    "--namespace", metavar="NAME", default="default", show_default=True, help="Where objects go that do not say."
)
@connection_options
@snapshot_option(
    "Not a cluster, but what `tallygate snapshot` wrote of one, or `kubectl get "
    "nodes,pods,namespaces,pvc,pv,sc,priorityclasses,pdb -A` with -o json or -o yaml."
)
@click.option("-o", "--output", type=click.Choice(write.DATA_FORMATS), default="table", help="How to print it.")
def headroom(  # noqa: PLR0913 -- one argument for each option
    *,
    filenames: tuple[str, ...],
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool,
    snapshot: Path | None,
    output: str,
) -> None:
    """Say how many more copies of a pod the nodes have room for, on each and in all, and what keeps the next one out.

    Copies are placed as kube-scheduler 1.36 would place them until none fits any more; of several pods each is asked
    about by itself. Nobody is asked to leave for them. The last line begins as the scheduler's own would. Needed rights
    are those of `tallygate predict`.

    Exit codes: 0 shown, 2 misuse, or the cluster cannot be read.
    """
    wanted = [each.anew() for each in candidates_in(filenames, namespace, 1)]
    world = world_of(Source(kubeconfig, context, in_cluster, snapshot))
    found = list(_rooms(wanted, world))
    if output != "table":
        write.show_data(data.headrooms(found), output)
        return
    for candidate, room in found:
        write.show(_paragraph(candidate, room))
        if room.copies_by_node:
            rows = [(name, str(copies)) for name, copies in room.copies_by_node.items()]
            click.echo("\n".join(aligned(("NODE", "COPIES"), rows)))


def _rooms(wanted: Sequence[Candidate], world: World) -> Iterator[tuple[Candidate, RemainingCapacity]]:
    for each in shown("counting room", wanted):
        candidate = each.ranked(world.cluster.priority_classes)
        try:
            room = room_for(candidate.pod, world.cluster)
        except QuantityError as error:
            raise Misuse(f"{each.subject}: {error}; `tallygate check` says where") from error
        except TallygateError as error:
            raise Misuse(f"{each.subject}: {error}") from error
        yield candidate, replace(room, unmodelled=(*room.unmodelled, *candidate.unknown))


def _paragraph(candidate: Candidate, room: RemainingCapacity) -> Group:
    told = f"room for {room.total} more, on {len(room.copies_by_node)} node{'s' * (len(room.copies_by_node) != 1)}"
    head = Text.assemble((f"{harmless(str(candidate.subject))}: ", "bold"), told)
    below = [room.message, *(f"not judged: {question}" for question in room.unmodelled)]
    return Group(head, *(Padding(Text(harmless(line)), (0, 0, 0, 4)) for line in below))
