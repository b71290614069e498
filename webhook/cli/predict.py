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
from webhook.cli.cluster.source import Source
from webhook.cli.command import EXIT_FINDINGS, Command, Misuse
from webhook.cli.manifest.bounds import DEFAULT
from webhook.cli.predicting import data, lines, table
from webhook.cli.predicting.asked import candidates_in, is_placed, pending, world_of
from webhook.cli.predicting.candidates import Candidate
from webhook.cli.predicting.outcome import Outcome, outcome
from webhook.cli.predicting.scoring import scoring as scoring_of
from webhook.cli.predicting.world import World
from webhook.cli.progress import shown
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
        raise Misuse("name one thing: a pod that waits, as pod/NAME, or manifests by -f FILE")
    liked = scoring_of(scoring, DEFAULT)
    written = candidates_in(filenames, namespace, replicas) if filenames else []
    wanted = [each for each in written if not is_placed(each)]
    world = world_of(Source(kubeconfig, context, in_cluster, snapshot), nodes, added)
    if named:
        wanted = [pending(named, namespace, world)]
    by_node = verbose or (output != "table" and len(wanted) == 1)
    made = list(_outcomes(wanted, world, liked, by_node=by_node))
    _show(made, output, verbose=verbose)
    ctx.exit(0 if all(each.answer.feasibility is Feasibility.NOW for each in made) else EXIT_FINDINGS)


def _outcomes(wanted: Sequence[Candidate], world: World, scoring: Scoring, *, by_node: bool) -> Iterator[Outcome]:
    """One after the other, each beside those before it."""
    with open_placement_session(world.cluster, scoring) as visit:
        for each in shown("placing pods", wanted):
            try:
                yield outcome(
                    each.ranked(world.cluster.priority_classes), world.cluster, visit, scoring, by_node=by_node
                )
            except QuantityError as error:
                raise Misuse(f"{each.subject}: {error}; `tallygate check` says where") from error
            except TallygateError as error:
                raise Misuse(f"{each.subject}: {error}") from error


def _show(made: Sequence[Outcome], output: str, *, verbose: bool) -> None:
    if output != "table":
        write.show_data(data.predictions(made), output)
        return
    is_terminal = write.console(sys.stdout).is_terminal
    for each in made:
        write.show(lines.paragraph(each))
        if verbose and each.nodes and is_terminal:
            write.show(table.bars(each.nodes))
        elif verbose and each.nodes:
            click.echo("\n".join(table.rows(each.nodes)))
