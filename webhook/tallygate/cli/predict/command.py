"""The command `tallygate predict`: the result of kube-scheduler for pods that are not stored yet or wait for a node.

The option `--scoring` is parsed here: a scoring strategy as the configuration of a scheduler writes it.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import click
import msgspec
from msgspec import Meta

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.node_pools import merge_shapes
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING, Scoring, ScoringStrategy
from tallygate.answers.group_predictions import open_group_predictions
from tallygate.answers.new_node_lines import predict_admitted
from tallygate.answers.pods_to_place import PodsInFiles, PodsToPlace
from tallygate.answers.prediction_details import PredictionDetails
from tallygate.answers.review_pods import Rejection, ReviewContext, ReviewedPods, find_rejected_pods, review_pods
from tallygate.cli import framework
from tallygate.cli.ask.without_rights import create_no_gate_error, is_forbidden
from tallygate.cli.completions import complete_pod
from tallygate.cli.connection import Connection
from tallygate.cli.predict import cluster_input, prediction_text
from tallygate.cli.predict.gate_prediction import print_answer_of_gate
from tallygate.cli.progress import StderrProgress, track
from tallygate.cli.sources.cluster_source import ClusterSource
from tallygate.cli.sources.options import (
    combine_files,
    files_options,
    kubernetes_option,
    policies_option,
    snapshot_option,
)
from tallygate.cli.sources.resource_lists import ListError
from tallygate.cluster.cluster_state import ClusterState
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS, DocumentError, Limits
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError
from tallygate.manifests.applied_objects import list_applied_objects
from tallygate.manifests.manifest_files import STDIN
from tallygate.policy.model import PolicySet
from tallygate.policy.selectors import PolicyLabelSelector
from tallygate.policy.suggest import find_nearest

_SYNTAX = (
    "write a strategy, as in MostAllocated, or what a scheduler's configuration says behind scoringStrategy, as in "
    '"{type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 5}]}"'
)

_INSTEAD = (
    "without this right `tallygate ask -f FILE` answers about files, and `tallygate predict pod/NAME` about a pending "
    "pod, if the gate's server of asks runs in the cluster"
)


class _ResourceWeight(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class _ShapePoint(msgspec.Struct, forbid_unknown_fields=True):
    utilization: Annotated[int, Meta(ge=0, le=100)]
    score: Annotated[int, Meta(ge=0, le=10)]


class _CapacityRatio(msgspec.Struct, forbid_unknown_fields=True):
    shape: Annotated[list[_ShapePoint], Meta(min_length=1)]


class _ScoringConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """ScoringStrategy of k8s.io/kube-scheduler/config/v1, with the bounds of ValidateNodeResourcesFitArgs, v1.36."""

    type: ScoringStrategy
    resources: list[_ResourceWeight] = []
    requested_to_capacity_ratio: _CapacityRatio | None = None


def parse_scoring(option_value: str | None, limits: Limits) -> Scoring:
    """Parse a strategy by its name, or a `scoringStrategy`; return that of the default profile without a value.

    Raises:
        UsageError: if the value is neither.
    """
    if option_value is None:
        return DEFAULT_SCORING
    if option_value in set(ScoringStrategy) - {ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO}:
        return Scoring(ScoringStrategy(option_value))
    if re.fullmatch(r"\w*", option_value):
        raise framework.UsageError(f"--scoring {option_value}: {_explain_strategy(option_value)}; {_SYNTAX}")
    try:
        (document,) = read_documents(option_value, limits)
        config = msgspec.json.decode(to_json(document.root, limits.expanded), type=_ScoringConfig)
    except (DocumentError, ValueError) as error:
        raise framework.UsageError(f"--scoring {option_value}: {error}; {_SYNTAX}") from error
    weights = {resource.name: resource.weight for resource in config.resources}
    return Scoring(config.type, weights or DEFAULT_SCORING.weights, _parse_shape(option_value, config))


def _explain_strategy(word: str) -> str:
    if word == ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO:
        return "this strategy needs a shape"
    names = [strategy.value for strategy in ScoringStrategy]
    beginning = next((name for name in names if name.lower().startswith(word.lower())), None)
    nearest = beginning or find_nearest(word, names, cutoff=0.6)
    return f"there is no such strategy{f', did you mean {nearest}?' if word and nearest else ''}"


def _parse_shape(option_value: str, config: _ScoringConfig) -> tuple[tuple[int, int], ...]:
    ratio = config.requested_to_capacity_ratio
    if (config.type is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO) is (ratio is None):
        raise framework.UsageError(
            f"--scoring {option_value}: requestedToCapacityRatio, with a shape, belongs to the type of that name"
        )
    points = tuple((point.utilization, point.score) for point in ratio.shape) if ratio else tuple(DEFAULT_SCORING.shape)
    utilizations = [utilization for utilization, _ in points]
    if utilizations != sorted(set(utilizations)):
        raise framework.UsageError(
            f"--scoring {option_value}: the utilization of each point must be above that of the one before it"
        )
    return points


@click.command(
    cls=framework.Command,
    examples=(
        (
            "tallygate predict pod/train-0 -n team-a",
            "why a pod is Pending, which pods use the resources, what would help",
        ),
        (
            "tallygate predict pods -l app=train -n team-a",
            "every pending pod with this label, in the scheduler's order",
        ),
        ("tallygate predict deploy/ -v", "will all of these run, in this order? With a line for each node"),
        ("tallygate predict train.yaml --replicas 12", "would twelve copies run?"),
        ('tallygate predict train.yaml --add "4 x {cpu: 8, nvidia.com/gpu: 2}"', "... with four more nodes?"),
        ("tallygate predict train.yaml --snapshot now.json -o json", "on a snapshot, for a program"),
        ("tallygate predict train.yaml -v --scoring MostAllocated", "with a scheduler that fills nodes"),
        ("tallygate predict train.yaml --kubernetes 1.38", "by the rules of the version to which you will upgrade"),
    ),
)
@files_options(
    "[pod/NAME|pods|FILE|FOLDER|-]...",
    "Manifests, a folder of them, or - for stdin. Pods and workloads are placed one after the other, each with the "
    "earlier ones in place.",
    complete_pod,
)
@framework.namespace_option(
    "For pods, and for objects without a namespace. Default: that of the kubeconfig's context, else default."
)
@framework.all_namespaces_option("With `pods`: those of all namespaces.")
@click.option(
    "-l",
    "--selector",
    callback=cluster_input.parse_label_selector,
    metavar="SELECTOR",
    help="With `pods`: those with matching labels; with files: the objects with matching labels. As in kubectl.",
)
@click.option(
    "--replicas",
    metavar="NUMBER",
    type=click.IntRange(0, 100_000),
    help="The number of copies of each, instead of the number in the manifests.",
)
@framework.connection_options
@snapshot_option(
    "A file of `tallygate snapshot`, or of `kubectl get nodes,pods,namespaces,pvc,pv,sc,priorityclasses,pdb -A` with "
    "-o json or -o yaml, instead of a cluster."
)
@click.option(
    "--what-if",
    "nodes",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="Add these nodes, or replace existing nodes of the same names.",
)
@click.option(
    "--add",
    "added",
    metavar='"N x {…}"',
    multiple=True,
    help='Add N nodes, each with this allocatable, as in "4 x {cpu: 8, nvidia.com/gpu: 2}".',
)
@policies_option
@kubernetes_option
@click.option(
    "--scoring",
    metavar="STRATEGY",
    help="The scheduler's strategy for scoring nodes by their resources: LeastAllocated (the default), MostAllocated, "
    "or a scoringStrategy of its configuration, as in "
    '"{type: RequestedToCapacityRatio, resources: [{name: nvidia.com/gpu, weight: 5}], requestedToCapacityRatio: '
    '{shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}".',
)
@cluster_input.feature_gates_option
@click.option("-v", "--verbose", is_flag=True, help="List every node: its answer, scores, utilization and reasons.")
@framework.data_option
@click.pass_context
def predict(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    paths: tuple[str, ...],
    *,
    filenames: tuple[str, ...],
    namespace: str | None,
    all_namespaces: bool,
    selector: PolicyLabelSelector | None,
    replicas: int | None,
    connection: Connection,
    snapshot: Path | None,
    nodes: tuple[Path, ...],
    added: tuple[str, ...],
    policies: tuple[Path, ...],
    kubernetes: KubernetesVersion | None,
    scoring: str | None,
    gates: frozenset[str],
    verbose: bool,
    output: str,
) -> None:
    """Predict whether pods will run: `fits now`, `not now`, `never on these nodes`, `would be rejected`, or `unknown`.

    A pending pod is named as pod/NAME. `pods` means all pending pods of the namespace, and those that controllers could
    not create, because a cap, a rule or a ResourceQuota rejected them. Pods that do not exist yet, and workloads, are
    read from files: the replicas of a Deployment, the parallel pods of a Job, the pod of a DaemonSet on each eligible
    node. First rules, caps and ResourceQuotas review these, as in `check`: rejected pods are not placed.

    Then the command applies the filters of kube-scheduler, in the same order and with the same messages, and changes
    nothing. It knows the versions 1.36, 1.37 and, preliminary, 1.38. It uses that of --kubernetes, or else that of the
    cluster, and reports on stderr if the cluster has a different one; for a snapshot without a version it uses 1.37. If
    pods do not fit, the output has the scheduler's message, the shortfalls of nodes, the pods that use the resources,
    and changes that would help; each was tried. With -o json or yaml, nodes are listed with -v, and for one object. For
    pods with claims for devices the output shows the devices that nodes lack, and -v the devices of each pool; claims
    and templates of claims in the files count too.

    The policies are those of --policies, or else those of the gate in the cluster: their implied requests are added to
    pods in files. A WorkloadKind, in the files or the policies, defines where the pods are in objects of its kind. With
    NodeShapes, in the files or the policies, the output has the number of new nodes of each shape that the pods without
    a node would need. Node pools of Karpenter and of providers have shapes too. The pods of a PodGroup, in the files or
    the cluster, are placed together or not at all, if it is known that the scheduler does so (--feature-gates).

    Needed rights: list on nodes, pods and namespaces. Without them the gate answers about pod/NAME, as `tallygate ask`
    does, if its server of asks runs in the cluster. Other kinds are read as by `snapshot`, and stderr names those
    that may not be listed; for `pods` they include controllers and their events. Pods with claims for
    devices are unknown unless device classes, claims, templates of claims, ResourceSlices and DeviceTaintRules may be
    listed. The gate's policies need get on its webhook configurations, its Deployment and its ConfigMaps.

    Exit codes: 0 all fit now, 1 something does not fit or is unknown, also pods of a kind that is not read, 2 a usage
    error, or the cluster cannot be read.
    """
    names, files = cluster_input.split_pod_names(paths)
    source = ClusterSource(connection, snapshot, kubernetes)
    _check_arguments(names, (*files, *filenames), replicas, all_namespaces=all_namespaces)
    parsed_scoring = parse_scoring(scoring, DEFAULT_LIMITS)
    chosen_namespace = None if all_namespaces else source.connection.choose_namespace(namespace)
    manifests = () if names is not None else combine_files(files, filenames, snapshot, *nodes)
    inputs = _Inputs(source, names, manifests, chosen_namespace, selector, replicas, nodes, added, policies)
    try:
        gathered = _gather(inputs)
    except ListError as error:
        if not names or any((nodes, added, scoring, policies, selector, kubernetes)) or not is_forbidden(error):
            raise create_no_gate_error(error, _INSTEAD) from error
        ctx.exit(print_answer_of_gate(connection, chosen_namespace or "", names, error, output))
    cluster, in_files = gathered.state.require_columns(), gathered.in_files
    cluster.pod_groups.turn_on(gates)
    with_node_lines = verbose or (output != "table" and len(gathered.pods) == 1)
    predictions = list(_predict_all(gathered, parsed_scoring, with_node_lines=with_node_lines))
    _print_all(predictions, cluster, output, verbose=verbose)
    all_fit = all(prediction.feasibility is Feasibility.NOW for prediction in predictions)
    ctx.exit(0 if all_fit and not in_files.unread else framework.EXIT_FINDINGS)


def _print_all(predictions: Sequence[PredictionDetails], cluster: Cluster, output: str, *, verbose: bool) -> None:
    cluster_input.report_unknown_gates(note for each in predictions for note in each.prediction.unmodelled)
    prediction_text.print_predictions(predictions, cluster, output, verbose=verbose)


class _Inputs(NamedTuple):
    """The pending pods or the objects of files to predict, and the cluster with its added nodes.

    With None, `names` mean files, and `namespace` all namespaces.
    """

    source: ClusterSource
    names: tuple[str, ...] | None
    files: tuple[str, ...]
    namespace: str | None
    selector: PolicyLabelSelector | None
    replicas: int | None
    nodes: tuple[Path, ...]
    added: tuple[str, ...]
    policies: tuple[Path, ...]


class _Gathered(NamedTuple):
    """The cluster, the pods to place with the rejection of others, the files that they are from, and the policies."""

    state: ClusterState
    pods: tuple[tuple[PodsToPlace, Rejection | None], ...]
    in_files: PodsInFiles
    policies: PolicySet


def _gather(inputs: _Inputs) -> _Gathered:
    """Read the cluster, the policies and the pods.

    Raises:
        ListError: if a required resource cannot be listed.
        TallygateError: if something else cannot be read.
    """
    source, namespace, nodes, added = inputs.source, inputs.namespace or "", inputs.nodes, inputs.added
    policies, note = cluster_input.find_prediction_policies(source, inputs.policies)
    if inputs.names is not None:
        state = cluster_input.read_cluster_input(source, nodes, added, rejected_pods=not inputs.names)
        cluster_input.print_note(note)
        query = cluster_input.PodQuery(inputs.names, inputs.namespace, inputs.selector)
        return _Gathered(state, _find_pending(query, state), PodsInFiles(), policies)
    cluster_input.print_note(note)
    in_files = cluster_input.read_pods_to_place(inputs.files, namespace, policies, inputs.replicas, inputs.selector)
    applied = tuple(list_applied_objects(in_files.manifests, namespace, DEFAULT_LIMITS))
    state = cluster_input.read_cluster_input(source, nodes, added, applied)
    pods = _review(in_files, policies, state, namespace, inputs.replicas).pods
    return _Gathered(state, pods, in_files, policies)


def _review(
    in_files: PodsInFiles, policies: PolicySet, state: ClusterState, namespace: str, count: int | None
) -> ReviewedPods:
    now, progress = datetime.now(UTC), StderrProgress()
    context = ReviewContext(
        policies=policies, state=state, namespace=namespace, now=now, progress=progress, count=count
    )
    return review_pods(in_files, context)


def _find_pending(
    query: cluster_input.PodQuery, state: ClusterState
) -> tuple[tuple[PodsToPlace, Rejection | None], ...]:
    """Return the pending pods, and those that are not stored; report on stderr if there are none."""
    found = [(pods, None) for pods in cluster_input.find_pending_pods(query, state)]
    rejected = [] if query.names else list(find_rejected_pods(state, query.namespace, query.selector))
    if not found and not rejected:
        place = f" in namespace {query.namespace}" if query.namespace else ""
        click.echo(f"no such pod is pending{place}", err=True)
    return (*found, *rejected)


def _check_arguments(
    names: tuple[str, ...] | None, files: tuple[str, ...], replicas: int | None, *, all_namespaces: bool
) -> None:
    """Check the arguments.

    Raises:
        UsageError: if they name both pods and files or neither, or an option does not belong to them.
    """
    if (names is None) is not bool(files):
        raise framework.UsageError("name one of both: pending pods as pod/NAME or pods, or files of manifests")
    missing = next((file for file in files if file != STDIN and not Path(file).exists()), None)
    if missing is not None:
        raise framework.UsageError(f"{missing}: there is no such file; a pending pod is named as in pod/NAME")
    if all_namespaces and names != ():
        raise framework.UsageError("-A belongs to `tallygate predict pods -A`")
    if names is not None and replicas is not None:
        raise framework.UsageError("--replicas belongs to files of manifests: a pending pod is one pod")


def _predict_all(gathered: _Gathered, scoring: Scoring, *, with_node_lines: bool) -> Iterator[PredictionDetails]:
    """Yield the prediction of each, placed one after the other in one session, with the claims of the files.

    Raises:
        UsageError: if the pods are not as an API server would store them.
    """
    cluster, in_files = gathered.state.require_columns(), gathered.in_files
    shapes = merge_shapes((*in_files.shapes, *gathered.policies.node_shapes), cluster.pools.list_shapes())
    asked = [pods for pods, _ in gathered.pods]
    with (
        in_files.apply_claims(cluster),
        open_group_predictions(asked, cluster) as groups,
        open_placement_session(cluster, scoring) as session,
    ):
        for pods, rejection in track("placing pods", gathered.pods):
            try:
                yield predict_admitted(
                    pods, rejection, cluster, session, scoring, shapes, groups, with_node_lines=with_node_lines
                )
            except QuantityError as error:
                raise framework.UsageError(f"{pods.subject}: {error}; `tallygate check` says where") from error
            except TallygateError as error:
                raise framework.UsageError(f"{pods.subject}: {error}") from error
