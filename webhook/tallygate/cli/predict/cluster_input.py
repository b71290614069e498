"""The cluster of a prediction, in columns: read from an API server or a snapshot, with added and replaced nodes.

Its pods without a node are read too, so that arguments can name them as for `kubectl get`: `pod/NAME`, or `pods` with a
label selector as in `app=train,tier!=test,team in (a, b),!debug`. The grammar of selectors is that of apimachinery,
pkg/labels/selector.go, without the operators > and <.

The nodes that `--what-if` and `--add` put into the cluster of a prediction.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_groups import parse_feature_gates
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.node_shape import DEFAULT_MAX_PODS, HOSTNAME
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.scheduling.pod_group_cycle import is_about_unknown_gate
from tallygate.answers.columns import escape_control
from tallygate.answers.pods_to_place import PodsInFiles, PodsToPlace, create_pods_in_files
from tallygate.answers.version_notes import list_version_notes
from tallygate.cli.doctor.facts import Unavailable
from tallygate.cli.doctor.mounted_policies import read_gate_policies
from tallygate.cli.framework import UsageError
from tallygate.cli.progress import StderrProgress, track_files
from tallygate.cli.sources.cluster_source import ClusterSource, StateNeeds
from tallygate.cli.sources.options import load_usable_policies
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import POD_GROUP_RESOURCE, SLICES, TAINT_RULES, UnknownReason
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS, DocumentError, Limits
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError
from tallygate.manifests.manifest_files import load_manifests
from tallygate.manifests.manifest_objects import Manifest
from tallygate.objects.core import ResourceList
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingNode, SchedulingNodeStatus, SchedulingPod
from tallygate.policy.matching import matches_labels
from tallygate.policy.model import PolicySet
from tallygate.policy.selectors import LabelRequirement, Operator, PolicyLabelSelector
from tallygate.policy.suggest import format_suggestion

_POD_WORDS = frozenset({"pod", "pods", "po"})
_MAX_NAMES = 10
_SEPARATOR = re.compile(r",(?![^(]*\))")
_KEY = r"(?P<key>[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_FORMS = (
    (
        re.compile(rf"{_KEY}\s*(?P<operator>==?|!=)\s*(?P<value>(?:{_VALUE})?)"),
        {"=": Operator.IN, "!=": Operator.NOT_IN},
    ),
    (
        re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)"),
        {"in": Operator.IN, "notin": Operator.NOT_IN},
    ),
    (re.compile(rf"(?P<operator>!?)\s*{_KEY}"), {"": Operator.EXISTS, "!": Operator.DOES_NOT_EXIST}),
)


class ClusterInputError(TallygateError):
    """An object that is not as a cluster stores it."""


def read_cluster(
    source: ClusterSource, applied: Sequence[tuple[str, msgspec.Struct]] = (), *, rejected_pods: bool = False
) -> ClusterState:
    """Return the cluster at present, or at the time of the snapshot, with columns, to which objects are applied.

    Raises:
        ClientConfigError: if the API server is not configured.
        ListError: if a required resource cannot be listed.
        SnapshotError: if the snapshot cannot be read.
        ClusterInputError: if an object is not as a cluster stores it.
    """
    try:
        return source.read(StateNeeds(columns=True, applied=applied, rejected_pods=rejected_pods))
    except QuantityError as error:
        server = source.connection.load().server
        raise ClusterInputError(f"{server} has stored an invalid quantity: {error}") from error


def report_omissions(state: ClusterState, source: ClusterSource) -> None:
    """Print to stderr which kinds of objects may not be listed, and what else the columns lack."""
    for omission in _list_omissions(state, source):
        print_note(omission)


def _list_omissions(state: ClusterState, source: ClusterSource) -> Iterator[str]:
    cluster = state.require_columns()
    for resource, problem in state.problems.items():
        # an API server forbids also what it does not serve, and pods of a PodGroup say that it is not known
        if problem.reason is UnknownReason.FORBIDDEN and resource != POD_GROUP_RESOURCE[1]:
            yield state.describe_problem(resource)
    if source.snapshot is not None:
        if cluster.version.has(Switch.APPLIES_TAINT_RULES) and state.knows(SLICES):
            yield from state.list_effects((TAINT_RULES,))
        if not len(cluster.nodes):
            yield "the snapshot has no nodes"
    if cluster.is_version_chosen:
        yield from list_version_notes(cluster.version, None)
    else:
        yield from list_version_notes(cluster.version, cluster.git_version, _describe_unreported(source))


def _describe_unreported(source: ClusterSource) -> str:
    """Return the text for an API server that reports no version; empty for a snapshot, which may have none."""
    return "" if source.snapshot is not None else f"{source.connection.load().server} does not report its version"


def read_cluster_input(
    source: ClusterSource,
    nodes: Sequence[Path] = (),
    added_nodes: Sequence[str] = (),
    applied: Sequence[tuple[str, msgspec.Struct]] = (),
    *,
    rejected_pods: bool = False,
) -> ClusterState:
    """Return the cluster with the nodes of the given files and texts added; print omissions to stderr.

    With `rejected_pods` it is read which pods controllers could not create.

    Raises:
        UsageError: if a file or text of nodes is invalid.
        TallygateError: if the cluster cannot be read.
    """
    state = read_cluster(source, applied, rejected_pods=rejected_pods)
    cluster = state.require_columns()
    report_omissions(state, source)
    for path in nodes:
        try:
            put_nodes(cluster, read_manifests([str(path)]), DEFAULT_LIMITS)
        except DocumentError as fault:
            raise UsageError(f"{path}:{fault.position.line}:{fault.position.column}: {fault.message}") from fault
    for number, option_value in enumerate(added_nodes, 1):
        add_nodes(cluster, option_value, number, DEFAULT_LIMITS)
    return state


def read_manifests(filenames: Sequence[str]) -> list[Manifest]:
    """Return every object of files, folders and stdin.

    Raises:
        UsageError: if a file cannot be read.
    """
    loaded = load_manifests(tuple(filenames), sys.stdin.buffer, DEFAULT_LIMITS, track_files)
    if loaded.findings:
        raise UsageError("\n".join(f"{finding.location}: {finding.message}" for finding in loaded.findings))
    return loaded.manifests


def read_pods_to_place(
    filenames: Sequence[str],
    namespace: str,
    policies: PolicySet,
    count: int | None,
    selector: PolicyLabelSelector | None = None,
) -> PodsInFiles:
    """Return the pods that files create (`create_pods_in_files`); messages go to stderr.

    Raises:
        UsageError: if a file cannot be read, or the files have no pod and no pod template.
        ManifestsError: if an object is one that no API server accepts.
    """
    manifests = read_manifests(filenames)
    found = create_pods_in_files(manifests, namespace, policies, count, StderrProgress().report, selector)
    if not found.pods:
        raise create_no_pods_error(filenames, " and that the selector matches" if selector else "")
    return found


def create_no_pods_error(filenames: Sequence[str], condition: str = "") -> UsageError:
    """Return the error of files without pods, or without such that meet a condition."""
    text = f"it contains neither a pod nor a pod template of a kind that is read{condition}"
    return UsageError(f"{', '.join(filenames)}: {text}")


def find_prediction_policies(source: ClusterSource, paths: Sequence[Path]) -> tuple[PolicySet, str]:
    """Return the policies at the paths; without a path those of the gate in the cluster, and none for a snapshot.

    If the gate's policies cannot be read, the text says why, and the prediction goes on without them.

    Raises:
        UsageError: if the policies at the paths are not usable.
        ClientConfigError: if the API server is not configured.
    """
    if paths:
        return load_usable_policies(paths), ""
    if source.snapshot:
        return PolicySet(), ""
    policies = read_gate_policies(source.connection.load())
    if not isinstance(policies, Unavailable):
        return policies, ""
    return PolicySet(), (
        f"the policies of the gate are unknown: {policies.reason}; without them pods get no implied requests, and no "
        "node shapes are known: name their files with --policies"
    )


def print_note(note: str) -> None:
    """Print a note to stderr, unless it is empty."""
    if note:
        click.echo(f"tallygate: {escape_control(note)}", err=True)


@dataclass(frozen=True, slots=True)
class PodQuery:
    """The pending pods to predict: `names`, or all that the selector matches, in a namespace, or in all with None."""

    names: tuple[str, ...]
    namespace: str | None
    selector: PolicyLabelSelector | None = None


def split_pod_names(arguments: Sequence[str]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the names of pods in the arguments, and the other arguments, which are files.

    The names are empty for the word `pods` without names, which means all pending pods, and None without any pod.
    """
    if arguments and arguments[0] in _POD_WORDS:
        return tuple(arguments[1:]), ()
    references = [
        argument for argument in arguments if argument.partition("/")[0] in _POD_WORDS and argument.partition("/")[2]
    ]
    files = tuple(argument for argument in arguments if argument not in references)
    return tuple(reference.partition("/")[2] for reference in references) or None, files


def find_pending_pods(query: PodQuery, state: ClusterState) -> list[PodsToPlace]:
    """Return the pods of the cluster that a query names and that have no node yet, in the order of scheduling.

    Raises:
        UsageError: if the namespace does not exist, or a named pod does not wait for a node.
    """
    _check_namespace(query, state)
    if query.names:
        return [_find_pending_pod(name, query.namespace or "", state) for name in query.names]
    chosen = [
        (_create_queue_key(pod), namespace, name, pod)
        for (namespace, name), pod in state.pending_pods.items()
        if query.namespace in (None, namespace) and matches_labels(query.selector, _get_metadata(pod).labels)
    ]
    return [
        PodsToPlace.from_pod(pod, namespace, name)
        for _, namespace, name, pod in sorted(chosen, key=lambda each: each[:3])
    ]


def _check_namespace(query: PodQuery, state: ClusterState) -> None:
    """Check that the namespace exists, unless the source has no namespaces.

    Raises:
        UsageError: if it does not.
    """
    namespaces = state.require_columns().namespaces
    known = sorted({*namespaces, *(namespace for namespace, _ in state.pending_pods)})
    if namespaces and query.namespace is not None and query.namespace not in known:
        raise UsageError(
            f"namespace {query.namespace} does not exist in the cluster{format_suggestion(query.namespace, known)}"
        )


def _create_queue_key(pod: SchedulingPod) -> tuple[int, str]:
    """Return the key that sorts pods as PrioritySort does: by priority, then by time (pkg/scheduler/framework)."""
    priority = (pod.spec.priority if pod.spec else None) or 0
    return -priority, _get_metadata(pod).creation_timestamp or ""


def _get_metadata(pod: SchedulingPod) -> ObjectMeta:
    return pod.metadata or ObjectMeta()


def _find_pending_pod(name: str, namespace: str, state: ClusterState) -> PodsToPlace:
    pod = state.pending_pods.get((namespace, name))
    if pod is None:
        raise UsageError(f"pod/{name}: {_explain_missing_pod(name, namespace, state)}")
    return PodsToPlace.from_pod(pod, namespace, name)


def _explain_missing_pod(name: str, namespace: str, state: ClusterState) -> str:
    for pod_info in state.require_columns().list_pods():
        if (pod_info.namespace, pod_info.name) == (namespace, name) and pod_info.node:
            return f"it is on node {pod_info.node} already"
    hint = ", ".join(_list_waiting_names(namespace, state))
    return f"no pod of that name in namespace {namespace} is pending; " + (
        f"pending pods are {hint}" if hint else "no pod is pending"
    )


def _list_waiting_names(namespace: str, state: ClusterState) -> Iterator[str]:
    """Yield the first pending pods, those of the namespace first, each as the arguments that name it."""
    waiting = sorted(state.pending_pods, key=lambda each: (each[0] != namespace, each))
    for pod_namespace, pod_name in waiting[:_MAX_NAMES]:
        yield f"pod/{pod_name} -n {pod_namespace}"


def _parse_feature_gates(_: click.Context, __: click.Parameter, text: str | None) -> frozenset[str]:
    """Return the feature gates of PodGroups that the text turns on, the only ones that predictions depend on.

    Raises:
        click.BadParameter: if it is about another gate.
    """
    try:
        return parse_feature_gates(text) if text else frozenset()
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


feature_gates_option = click.option(
    "--feature-gates",
    "gates",
    metavar="GATE=true,…",
    callback=_parse_feature_gates,
    help="The cluster has these feature gates on, which no API shows before a PodGroup has used them: GenericWorkload "
    "(PodGroups), DRAWorkloadResourceClaims (their claims), WorkloadWithJob (one for each Job).",
)
"""The option of the feature gates of PodGroups that are on."""


def report_unknown_gates(unmodelled: Iterable[str]) -> None:
    """Print to stderr how to name feature gates, if one of them is why something is not modelled."""
    if any(map(is_about_unknown_gate, unmodelled)):
        print_note("if the cluster has the feature gates of PodGroups on, name them with --feature-gates")


def parse_label_selector(_: click.Context, __: click.Parameter, text: str | None) -> PolicyLabelSelector | None:
    """Parse the value of an option.

    Raises:
        click.BadParameter: if it is not a selector.
    """
    if text is None:
        return None
    requirements = [_parse_requirement(part.strip()) for part in _SEPARATOR.split(text)]
    if None in requirements:
        raise click.BadParameter(f"{text!r} is not a label selector; write one as in app=train,team in (a, b),!debug")
    return PolicyLabelSelector(match_expressions=tuple(filter(None, requirements)))


def _parse_requirement(text: str) -> LabelRequirement | None:
    for pattern, operators in _FORMS:
        if match := pattern.fullmatch(text):
            values = frozenset(_iterate_values(match.groupdict()))
            is_valid = all(not value or re.fullmatch(_VALUE, value) for value in values)
            operator = operators[match["operator"].replace("==", "=")]
            return LabelRequirement(match["key"], operator, values) if is_valid else None
    return None


def _iterate_values(groups: dict[str, str]) -> Iterator[str]:
    if "value" in groups:
        yield groups["value"]
    elif "values" in groups:
        yield from (value.strip() for value in groups["values"].split(","))


_NODE_DECODER = msgspec.json.Decoder(SchedulingNode)
_AMOUNTS_DECODER = msgspec.json.Decoder(ResourceList)
_ADD_PATTERN = re.compile(r"\s*(\d{1,6})\s*x\s*(\{.*\})\s*", re.ASCII | re.DOTALL)
_MAX_ADDED_NODES = 100_000


def put_nodes(cluster: Cluster, manifests: Iterable[Manifest], limits: Limits) -> None:
    """Add the nodes of manifests, or replace the nodes of the same names.

    Raises:
        DocumentError: if the aliases of a manifest expand beyond the limits.
        UsageError: if a manifest is not a node, or a quantity is invalid.
    """
    for manifest in manifests:
        if (manifest.group, manifest.kind) != ("", "Node"):
            raise UsageError(f"{manifest.file}: --what-if takes nodes, not a {manifest.kind}")
        try:
            node = _NODE_DECODER.decode(to_json(manifest.node, limits.expanded))
        except msgspec.ValidationError as error:
            location = f"{manifest.file}:{manifest.node.position.line}:{manifest.node.position.column}"
            raise UsageError(f"{location}: {error}; the API server could not decode this") from error
        _put_node(cluster, node, manifest.file)


def add_nodes(cluster: Cluster, option_value: str, option_number: int, limits: Limits) -> None:
    """Add the number of nodes that a text such as `4 x {cpu: 8, nvidia.com/gpu: 2}` describes.

    Their names are `added-{option_number}-1` and so on.

    Raises:
        UsageError: if the text has another form, or a quantity is invalid.
    """
    match = _ADD_PATTERN.fullmatch(option_value)
    count = int(match[1]) if match else 0
    if not match or count > _MAX_ADDED_NODES:
        raise UsageError(
            f'--add {option_value}: write how many nodes and what each has, as in "4 x {{cpu: 8, memory: 32Gi}}"'
        )
    for index, amounts in enumerate(_parse_amounts(option_value, match[2], limits) * count):
        name = f"added-{option_number}-{index + 1}"
        meta = ObjectMeta(name=name, labels={HOSTNAME: name})
        _put_node(
            cluster,
            SchedulingNode(
                metadata=meta, status=SchedulingNodeStatus(allocatable={"pods": DEFAULT_MAX_PODS, **amounts})
            ),
            "--add",
        )


def _parse_amounts(option_value: str, text: str, limits: Limits) -> list[ResourceList]:
    try:
        return [
            _AMOUNTS_DECODER.decode(to_json(document.root, limits.expanded))
            for document in read_documents(text, limits)
        ][:1]
    except (DocumentError, msgspec.ValidationError) as error:
        raise UsageError(f"--add {option_value}: {error}") from error


def _put_node(cluster: Cluster, node: SchedulingNode, source: str) -> None:
    name = (node.metadata.name if node.metadata else None) or ""
    try:
        cluster.put_node(node)
    except QuantityError as error:
        raise UsageError(f"{source}: node {name}: {error}") from error
