"""`tallygate predict`: what kube-scheduler will say of pods, before anything is stored or while they wait."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from webhook.accounting.quantity_parser import QuantityError
from webhook.accounting.scheduling.placement import open_placement_session
from webhook.accounting.scheduling.prediction import Feasibility
from webhook.accounting.scheduling.scoring import Scoring
from webhook.cli.cluster.options import connection_options, snapshot_option
from webhook.cli.cluster.source import ClusterSource
from webhook.cli.command import EXIT_FINDINGS, Command, UsageError
from webhook.cli.manifest.bounds import DEFAULT
from webhook.cli.predicting import data, lines, table
from webhook.cli.predicting.asked import find_pending_pod, is_placed, read_cluster_input, read_pods_to_place
from webhook.cli.predicting.candidates import PodsToPlace
from webhook.cli.predicting.outcome import PredictionDetails, predict_pods
from webhook.cli.predicting.scoring import parse_scoring as scoring_of
from webhook.cli.predicting.world import ClusterInput
from webhook.cli.progress import track
from webhook.cli.report import write
from webhook.errors import TallygateError


@click.command(
    cls=Command,
    examples=(
        (
            "tallygate predict pod/train-0 --namespace team-a",
            "why a pod is Pending, who is in the way, what would help",
        ),
        ("tallygate predict -f deploy/ -v", "will all of these run, in this order? And what each node says"),
        ("tallygate predict -f train.yaml -n 12", "would twelve of it?"),
        ('tallygate predict -f train.yaml --add "4 x {cpu: 8, nvidia.com/gpu: 2}"', "... with four more nodes?"),
        ("tallygate predict -f train.yaml --snapshot now.json -o json", "of a snapshot, for a program"),
        ("tallygate predict -f train.yaml -v --scoring MostAllocated", "by a scheduler that fills nodes up"),
    ),
)
@click.argument("named", metavar="[pod/NAME]", required=False)
@click.option(
    "-f",
    "--filename",
    "filenames",
    metavar="FILE",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="Manifests, a folder of them, or - for stdin; may be given several times. Pods and whatever makes pods are "
    "placed one after the other, each beside those before it.",
)
@click.option(
    "-n",
    "--replicas",
    metavar="NUMBER",
    type=click.IntRange(0, 100_000),
    help="So many of each, instead of what the manifests say.",
)
@click.option(
    "--namespace", metavar="NAME", default="default", show_default=True, help="Of objects that do not say, and of NAME."
)
@connection_options
@snapshot_option(
    "Not a cluster, but what `tallygate snapshot` wrote of one, or `kubectl get "
    "nodes,pods,namespaces,pvc,pv,sc,priorityclasses,pdb -A` with -o json or -o yaml."
)
@click.option(
    "--what-if",
    "nodes",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="As if these nodes were there too, or were as they are written here.",
)
@click.option(
    "--add",
    "added",
    metavar='"N x {…}"',
    multiple=True,
    help='As if so many nodes more were there, each with this allocatable, as in "4 x {cpu: 8, nvidia.com/gpu: 2}".',
)
@click.option(
    "--scoring",
    metavar="STRATEGY",
    help="How the scheduler likes nodes by their resources: LeastAllocated (the default), MostAllocated, or what "
    "stands behind scoringStrategy in its configuration, as in "
    '"{type: RequestedToCapacityRatio, resources: [{name: nvidia.com/gpu, weight: 5}], requestedToCapacityRatio: '
    '{shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}".',
)
@click.option("-v", "--verbose", is_flag=True, help="Node by node: its answer, its scores, how full it is, and why.")
@click.option("-o", "--output", type=click.Choice(write.DATA_FORMATS), default="table", help="How to print it.")
@click.pass_context
def predict(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    named: str | None,
    *,
    filenames: tuple[str, ...],
    replicas: int | None,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool,
    snapshot: Path | None,
    nodes: tuple[Path, ...],
    added: tuple[str, ...],
    scoring: str | None,
    verbose: bool,
    output: str,
) -> None:
    """Say whether pods will find a node: `fits now`, `not now`, `never on these nodes`, or `unknown`.

    It asks what kube-scheduler 1.36 asks, in its order and in its words, and sends nothing anywhere. A pod that waits
    for a node is named as pod/NAME; pods that are not there yet, and what makes pods, are read from files: a
    Deployment's replicas, a Job's parallel pods, a DaemonSet's pod on each node that is to have it. Beneath a verdict
    that is not good stand the scheduler's own sentence, what nodes lack and who holds it, and what would help: each
    change was tried. With -o json or yaml nodes are listed one by one with -v, and when there is one object only.

    Needed rights: list on nodes, pods and namespaces; of what else it reads (as `tallygate snapshot` does) it says on
    stderr what it may not list.

    Exit codes: 0 all fit now, 1 something does not, or that is not known, 2 misuse, or the cluster cannot be read.
    """
    if bool(named) is bool(filenames):
        raise UsageError("name one thing: a pod that waits, as pod/NAME, or manifests by -f FILE")
    parsed_scoring = scoring_of(scoring, DEFAULT)
    manifest_pods = read_pods_to_place(filenames, namespace, replicas) if filenames else []
    all_pods = [each for each in manifest_pods if not is_placed(each)]
    cluster_input = read_cluster_input(ClusterSource(kubeconfig, context, in_cluster, snapshot), nodes, added)
    if named:
        all_pods = [find_pending_pod(named, namespace, cluster_input)]
    with_node_lines = verbose or (output != "table" and len(all_pods) == 1)
    predictions = list(_predict_all(all_pods, cluster_input, parsed_scoring, with_node_lines=with_node_lines))
    _print_predictions(predictions, output, verbose=verbose)
    ctx.exit(0 if all(each.prediction.feasibility is Feasibility.NOW for each in predictions) else EXIT_FINDINGS)


def _predict_all(
    all_pods: Sequence[PodsToPlace], cluster_input: ClusterInput, scoring: Scoring, *, with_node_lines: bool
) -> Iterator[PredictionDetails]:
    """One after the other, each beside those before it."""
    with open_placement_session(cluster_input.cluster, scoring) as session:
        for pods in track("placing pods", all_pods):
            try:
                yield predict_pods(
                    pods.with_default_priority(cluster_input.cluster.priority_classes),
                    cluster_input.cluster,
                    session,
                    scoring,
                    with_node_lines=with_node_lines,
                )
            except QuantityError as error:
                raise UsageError(f"{pods.subject}: {error}; `tallygate check` says where") from error
            except TallygateError as error:
                raise UsageError(f"{pods.subject}: {error}") from error


def _print_predictions(predictions: Sequence[PredictionDetails], output: str, *, verbose: bool) -> None:
    if output != "table":
        write.print_data(data.predictions_to_dict(predictions), output)
        return
    is_terminal = write.create_console(sys.stdout).is_terminal
    for details in predictions:
        write.print_content(lines.format_prediction(details))
        if verbose and details.node_lines and is_terminal:
            write.print_content(table.create_node_table(details.node_lines))
        elif verbose and details.node_lines:
            click.echo("\n".join(table.format_rows(details.node_lines)))
