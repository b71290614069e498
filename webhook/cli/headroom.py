"""The command `tallygate headroom`: the number of further copies of a pod for which a cluster has capacity."""

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
from webhook.cli.framework import DATA_FORMATS, Command, UsageError
from webhook.cli.output import tables
from webhook.cli.output.tables import align_rows, escape_control
from webhook.cli.predict import prediction_json
from webhook.cli.predict.cluster_input import ClusterInput, read_cluster_input
from webhook.cli.predict.pods_to_place import PodsToPlace, read_pods_to_place
from webhook.cli.progress import track
from webhook.cli.sources.cluster_source import ClusterSource
from webhook.cli.sources.options import connection_options, snapshot_option
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
@click.option("-o", "--output", type=click.Choice(DATA_FORMATS), default="table", help="How to print it.")
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
    all_pods = [pods.copy_unscheduled() for pods in read_pods_to_place(filenames, namespace, 1)]
    cluster_input = read_cluster_input(ClusterSource(kubeconfig, context, in_cluster, snapshot))
    capacities = list(_compute_capacities(all_pods, cluster_input))
    if output != "table":
        tables.print_data(prediction_json.capacities_to_dict(capacities), output)
        return
    for pods, capacity in capacities:
        tables.print_content(_format_capacity(pods, capacity))
        if capacity.copies_by_node:
            rows = [(name, str(copies)) for name, copies in capacity.copies_by_node.items()]
            click.echo("\n".join(align_rows(("NODE", "COPIES"), rows)))


def _compute_capacities(
    all_pods: Sequence[PodsToPlace], cluster_input: ClusterInput
) -> Iterator[tuple[PodsToPlace, RemainingCapacity]]:
    for pods in track("counting room", all_pods):
        resolved = pods.with_default_priority(cluster_input.cluster.priority_classes)
        try:
            capacity = room_for(resolved.pod, cluster_input.cluster)
        except QuantityError as error:
            raise UsageError(f"{pods.subject}: {error}; `tallygate check` says where") from error
        except TallygateError as error:
            raise UsageError(f"{pods.subject}: {error}") from error
        yield resolved, replace(capacity, unmodelled=(*capacity.unmodelled, *resolved.unmodelled))


def _format_capacity(pods: PodsToPlace, capacity: RemainingCapacity) -> Group:
    text = (
        f"room for {capacity.total} more, on {len(capacity.copies_by_node)} "
        f"node{'s' * (len(capacity.copies_by_node) != 1)}"
    )
    heading = Text.assemble((f"{escape_control(str(pods.subject))}: ", "bold"), text)
    lines = [capacity.message, *(f"not judged: {question}" for question in capacity.unmodelled)]
    return Group(heading, *(Padding(Text(escape_control(line)), (0, 0, 0, 4)) for line in lines))
