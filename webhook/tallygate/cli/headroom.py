"""The command `tallygate headroom`: the number of further copies of a pod for which a cluster has capacity."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Group
from rich.text import Text

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.node_pools import merge_shapes
from tallygate.accounting.node_fit import format_unhealthy
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.remaining_capacity import RemainingCapacity, compute_remaining_capacity
from tallygate.answers import prediction_json
from tallygate.answers.columns import escape_control
from tallygate.answers.new_node_lines import format_capacities
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.cli import framework
from tallygate.cli.ask.without_rights import create_no_gate_error
from tallygate.cli.connection import Connection
from tallygate.cli.output import tables
from tallygate.cli.output.tables import Paragraph
from tallygate.cli.predict.cluster_input import read_cluster_input, read_pods_to_place, read_prediction_policies
from tallygate.cli.progress import StderrProgress, track
from tallygate.cli.sources.cluster_source import ClusterSource
from tallygate.cli.sources.options import combine_files, files_options, policies_option, snapshot_option
from tallygate.cli.sources.resource_lists import ListError
from tallygate.errors import TallygateError

_INSTEAD = (
    "without this right `tallygate ask -f FILE` says how many of the copies in a workload would run, if the gate's "
    "server of asks runs in the cluster"
)


@click.command(
    cls=framework.Command,
    examples=(
        ("tallygate headroom train.yaml", "the number of further copies, their nodes, and what limits them"),
        ("tallygate headroom shapes/ --snapshot now.json", "for each pod of a folder by itself, on a snapshot"),
        ("tallygate headroom train.yaml -o json", "for a program"),
    ),
)
@files_options("[FILE|FOLDER|-]...", "Manifests, a folder of them, or - for stdin. A workload counts as one pod.")
@framework.namespace_option("For objects without a namespace. Default: that of the kubeconfig's context, else default.")
@framework.connection_options
@snapshot_option(
    "A file of `tallygate snapshot`, or of `kubectl get nodes,pods,namespaces,pvc,pv,sc,priorityclasses,pdb -A` with "
    "-o json or -o yaml, instead of a cluster."
)
@policies_option
@framework.data_option
@click.pass_context
def headroom(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    paths: tuple[str, ...],
    *,
    filenames: tuple[str, ...],
    namespace: str | None,
    connection: Connection,
    snapshot: Path | None,
    policies: tuple[Path, ...],
    output: str,
) -> None:
    """Show the number of further copies of a pod that fit, for each node and in total, and the reason of the limit.

    The command places copies as kube-scheduler would, until no further copy fits; each of several pods is placed
    by itself, and nothing is preempted. The policies are those of --policies, else those of the gate in the
    cluster: pods have the requests that are implied for them. A WorkloadKind, in the files or the policies, defines
    where the pods are in objects of its kind.
    The message is the beginning of the scheduler's message for the next copy. With NodeShapes, in the files or the
    policies, the output has the number of copies for a new node of each shape; pools of nodes have shapes by
    themselves. The needed rights and the versions of
    Kubernetes are those of `tallygate predict`.

    Exit codes: 0 shown, 1 an object with pods is of a kind that is not read, 2 a usage error, or the cluster cannot be
    read.
    """
    source = ClusterSource(connection, snapshot)
    files = combine_files(paths, filenames, snapshot)
    policy_set = read_prediction_policies(source, policies)
    in_files = read_pods_to_place(files, source.connection.choose_namespace(namespace), policy_set, 1)
    try:
        cluster = read_cluster_input(source).require_columns()
    except ListError as error:
        raise create_no_gate_error(error, _INSTEAD) from error
    all_pods = [pods.copy_unscheduled() for pods in in_files.complete(policy_set, cluster, StderrProgress().report)]
    written = (*in_files.shapes, *policy_set.node_shapes)
    shapes = merge_shapes(written, cluster.pools.list_shapes())
    with in_files.apply_claims(cluster):
        capacities = list(_compute_capacities(all_pods, cluster, shapes))
    items = prediction_json.convert_capacities(capacities, cluster)
    tables.print_list("Headroom", items, output, lambda: _print_capacities(capacities))
    ctx.exit(framework.EXIT_FINDINGS if in_files.unread_count else 0)


def _print_capacities(capacities: Sequence[tuple[PodsToPlace, RemainingCapacity]]) -> None:
    for pods, capacity in capacities:
        tables.print_content(_format_capacity(pods, capacity))
        if capacity.copies_by_node:
            click.echo(prediction_json.COPIES.align(capacity.copies_by_node.items()))


def _compute_capacities(
    all_pods: Sequence[PodsToPlace], cluster: Cluster, shapes: Sequence[NodeShape]
) -> Iterator[tuple[PodsToPlace, RemainingCapacity]]:
    for pods in track("placing copies", all_pods):
        resolved = pods.with_default_priority(cluster.priority_classes)
        try:
            pod = IncomingPod.from_pod(resolved.pod, cluster.priority_classes)
            capacity = compute_remaining_capacity(pod, cluster, shapes)
        except QuantityError as error:
            raise framework.UsageError(f"{pods.subject}: {error}; `tallygate check` says where") from error
        except TallygateError as error:
            raise framework.UsageError(f"{pods.subject}: {error}") from error
        yield resolved, replace(capacity, unmodelled=(*capacity.unmodelled, *resolved.unmodelled))


def _format_capacity(pods: PodsToPlace, capacity: RemainingCapacity) -> Group:
    text = (
        f"{capacity.total} more fit, on {len(capacity.copies_by_node)} node{'s' * (len(capacity.copies_by_node) != 1)}"
    )
    heading = Text.assemble((f"{escape_control(str(pods.subject))}: ", "bold"), text)
    lines = [
        capacity.message,
        *format_capacities(capacity.new_nodes),
        *([format_unhealthy(capacity.unhealthy)] if capacity.unhealthy else ()),
        *(f"not modelled: {question}" for question in capacity.unmodelled),
    ]
    return Group(Paragraph(heading), *(Paragraph(Text(escape_control(line)), 4) for line in lines))
