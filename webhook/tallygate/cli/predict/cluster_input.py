"""The cluster of a prediction, in columns: read from an API server or a snapshot, with added and replaced nodes.

Its pods without a node are read too, so that arguments can name them as for `kubectl get`: `pod/NAME`, or `pods` with a
label selector as in `app=train,tier!=test,team in (a, b),!debug`. The grammar of selectors is that of apimachinery,
pkg/labels/selector.go, without the operators > and <.

The nodes that `--what-if` and `--add` put into the cluster of a prediction.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from tallygate.accounting.allocation.published_devices import SliceError
from tallygate.accounting.charge import has_ended
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ObjectJson, ingest, settle_devices
from tallygate.accounting.cluster.pod_info import PodInfo, create_pod_info, merge_label_keys
from tallygate.accounting.cluster.scheduler_version import NEWEST_VERSION, parse_minor
from tallygate.accounting.cluster.storage_index import StorageIndex
from tallygate.accounting.node_shape import DEFAULT_MAX_PODS, HOSTNAME
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.cli.doctor.facts import Unavailable
from tallygate.cli.doctor.mounted_policies import read_gate_policies
from tallygate.cli.framework import UsageError
from tallygate.cli.manifests.manifest_objects import Manifest
from tallygate.cli.predict.pods_to_place import PodsToPlace, read_manifests
from tallygate.cli.sources import snapshot_items
from tallygate.cli.sources.cluster_source import ClusterSource
from tallygate.cli.sources.observed_cluster import PODS_PATH
from tallygate.cli.sources.options import load_usable_policies
from tallygate.cli.sources.resource_lists import ListError, UnknownResourceError, list_resource
from tallygate.cli.sources.snapshot_items import SchedulingObject, SnapshotItem
from tallygate.cli.sources.snapshot_reader import (
    DEVICE_RESOURCES,
    TAINT_RULE_KIND,
    TAINT_RULES,
    SnapshotError,
    format_snapshot_name,
    list_missing_kinds,
    read_items,
)
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS, DocumentError, Limits
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig, read_git_version
from tallygate.kube.resource_codec import ResourceCodec, parse_revision
from tallygate.objects.core import ResourceList
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingNode, SchedulingNodeStatus, SchedulingPod
from tallygate.policy.matching import matches_labels
from tallygate.policy.model import LabelRequirement, Operator, PolicyLabelSelector, PolicySet
from tallygate.policy.suggest import format_suggestion
from tallygate.state.kubernetes import cap_ledger

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
_POD_DECODER = msgspec.json.Decoder(SchedulingPod)


class ClusterInputError(TallygateError):
    """An object that is not as a cluster stores it."""


@dataclass(slots=True)
class ClusterInput:
    """A cluster, and its pods without a node by namespace and name.

    `omissions` are messages on unread resources, and on a version of Kubernetes that is not modelled. `device_problems`
    are the reasons why devices are unknown, `unread_devices` are the resources about devices that were not read, by
    reason.
    """

    cluster: Cluster = field(default_factory=Cluster)
    pending_pods: dict[tuple[str, str], SchedulingPod] = field(default_factory=dict)
    omissions: list[str] = field(default_factory=list)
    device_problems: list[str] = field(default_factory=list)
    unread_devices: dict[str, list[str]] = field(default_factory=dict)

    def ingest(self, kind: str, content: ObjectJson) -> bool:
        """Put an object into the cluster as `ingest`, and keep the error of a slice that cannot be read."""
        try:
            return ingest(self.cluster, kind, content)
        except SliceError as error:
            self.device_problems.append(str(error))
            return True


class _PodRecord(NamedTuple):
    """A pod of a list: its info if it is on a node, or the pod itself if it waits for one."""

    uid: str
    namespace: str
    name: str
    revision: int
    pod_info: PodInfo | None
    pending: SchedulingPod | None


def read_cluster(source: ClusterSource) -> ClusterInput:
    """Return the cluster at present, or at the time of the snapshot.

    Raises:
        ClientConfigError: if the API server is not configured.
        ListError: if a required resource cannot be listed.
        SnapshotError: if the snapshot cannot be read.
        ClusterInputError: if an object is not as a cluster stores it.
    """
    return _read_snapshot(source.snapshot) if source.snapshot else _list_cluster(source.connection.load())


def _read_snapshot(path: Path) -> ClusterInput:
    cluster_input = ClusterInput()
    device_kinds: set[str] = set()

    def handle_item(kind: str, item: msgspec.Raw) -> bool:
        if kind == "Pod":
            _add_pod(cluster_input, _create_record(cluster_input.cluster, _fill_identity(_POD_DECODER.decode(item))))
            return True
        if kind == snapshot_items.VOLUMES_LISTED_KIND:
            cluster_input.cluster.storage = cluster_input.cluster.storage or StorageIndex()
            return True
        device_kind = kind.removesuffix("List")
        is_about_devices = device_kind in DEVICE_RESOURCES or device_kind == TAINT_RULE_KIND
        if is_about_devices:
            device_kinds.add(device_kind)
        return cluster_input.ingest(kind, item) or kind == cap_ledger.KIND or is_about_devices

    try:
        read_items(path, handle_item)
    except QuantityError as error:
        raise SnapshotError(
            f"{format_snapshot_name(path)}: it has a quantity that no API server would have stored: {error}"
        ) from error
    cluster_input.device_problems += list_missing_kinds(device_kinds)
    settle_devices(cluster_input.cluster, cluster_input.device_problems)
    needs_rules = cluster_input.cluster.scheduler_version.applies_taint_rules and "ResourceSlice" in device_kinds
    if needs_rules and TAINT_RULE_KIND not in device_kinds:
        cluster_input.omissions.append(f"the snapshot has no {TAINT_RULES}: only the taints of drivers count")
    if not len(cluster_input.cluster.nodes):
        cluster_input.omissions.append("the snapshot has no nodes")
    return cluster_input


def _list_cluster(client_config: ClientConfig) -> ClusterInput:
    cluster_input, client = ClusterInput(), ApiClient(client_config)
    cluster_input.cluster.now = datetime.now(UTC)
    pods = ResourceCodec("pods", PODS_PATH, SchedulingPod, lambda pod: _create_record(cluster_input.cluster, pod))
    try:
        _ask_version(cluster_input, client)
        _ingest_all(cluster_input, list_resource(client, snapshot_items.NAMESPACE_CODEC).items)
        _ingest_all(cluster_input, list_resource(client, snapshot_items.NODE_CODEC).items)
        volumes = [_list_if_allowed(cluster_input, client, codec) for codec in snapshot_items.VOLUME_CODECS]
        if None not in volumes:
            cluster_input.cluster.storage = StorageIndex()
            _ingest_all(cluster_input, chain.from_iterable(filter(None, volumes)))
        for codec in snapshot_items.SCHEDULING_CODECS:
            items = _list_if_allowed(cluster_input, client, codec)
            if items is not None and codec.name in {snapshot_items.LIMIT_RANGES, snapshot_items.RUNTIME_CLASSES}:
                _ingest_all(cluster_input, [snapshot_items.LIST_MARKS[codec.name]])
            _ingest_all(cluster_input, items or ())
        for record in list_resource(client, pods).items:
            _add_pod(cluster_input, record)
        for codec in snapshot_items.CLAIM_CODECS:
            _ingest_all(cluster_input, _list_if_allowed(cluster_input, client, codec) or ())
        unread = [reason.format(", ".join(names)) for reason, names in cluster_input.unread_devices.items()]
        settle_devices(cluster_input.cluster, (*unread, *cluster_input.device_problems))
    except QuantityError as error:
        raise ClusterInputError(f"{client_config.server} has stored an invalid quantity: {error}") from error
    finally:
        client.close()
    return cluster_input


def _ask_version(cluster_input: ClusterInput, client: ApiClient) -> None:
    git_version = read_git_version(client)
    if git_version is None:
        cluster_input.omissions.append(
            f"{client.server} does not report its version: the rules of kube-scheduler {NEWEST_VERSION} apply"
        )
    else:
        cluster_input.cluster.set_version(git_version)


def _describe_difference(cluster: Cluster) -> str | None:
    """Return a message if the version of the cluster is known and not modelled."""
    version = cluster.scheduler_version
    if cluster.git_version is None or parse_minor(cluster.git_version) == version.minor:
        return None
    return (
        f"the cluster runs Kubernetes {cluster.git_version}, and the rules of kube-scheduler {version} apply here: "
        "verdicts and messages of that version may differ"
    )


def _list_if_allowed(
    cluster_input: ClusterInput,
    client: ApiClient,
    codec: ResourceCodec[SchedulingObject, SnapshotItem],
) -> Sequence[SnapshotItem] | None:
    """Return the items of a resource, none if the API server does not serve it, None if the list is forbidden."""
    is_about_devices = codec.name in DEVICE_RESOURCES.values()
    try:
        return list_resource(client, codec).items
    except UnknownResourceError:
        if is_about_devices:
            cluster_input.unread_devices.setdefault("the API server does not serve {}", []).append(codec.name)
        return ()
    except ListError as error:
        if error.cause.reason is not ApiErrorReason.FORBIDDEN:
            raise
        needs_rules = cluster_input.cluster.scheduler_version.applies_taint_rules
        if is_about_devices or (codec.name == TAINT_RULES and needs_rules):
            cluster_input.unread_devices.setdefault("you may not list {}", []).append(codec.name)
        cluster_input.omissions.append(f"{codec.name} may not be listed: {error.cause}")
        return None


def _ingest_all(cluster_input: ClusterInput, items: Iterable[SnapshotItem]) -> None:
    for item in items:
        cluster_input.ingest(item.kind, item.content)


def _create_record(cluster: Cluster, pod: SchedulingPod) -> _PodRecord:
    """Return the record of a stored pod.

    Raises:
        QuantityError: if a requested quantity is invalid.
        ValueError: if the pod lacks a UID, namespace or name.
    """
    meta = pod.metadata or ObjectMeta()
    if not meta.uid or not meta.name or not meta.namespace:
        raise ValueError("a pod without uid, namespace or name")
    is_pending = not has_ended(pod) and not (pod.spec and pod.spec.node_name) and meta.deletion_timestamp is None
    pod_info, pending = create_pod_info(pod, cluster.groups), pod if is_pending else None
    return _PodRecord(
        meta.uid, meta.namespace, meta.name, parse_revision(meta.resource_version or "1"), pod_info, pending
    )


def _fill_identity(pod: SchedulingPod) -> SchedulingPod:
    """Return a pod of a snapshot, which may be written by hand, with the identity that the API server would set."""
    meta = pod.metadata or ObjectMeta()
    namespace = meta.namespace or "default"
    metadata = msgspec.structs.replace(meta, namespace=namespace, uid=meta.uid or f"{namespace}/{meta.name}")
    return msgspec.structs.replace(pod if meta.uid else merge_label_keys(pod), metadata=metadata)


def _add_pod(cluster_input: ClusterInput, record: _PodRecord) -> None:
    if record.pod_info is not None:
        cluster_input.cluster.put_pod(record.pod_info)
    if record.pending is not None:
        cluster_input.pending_pods[record.namespace, record.name] = record.pending


def read_cluster_input(
    source: ClusterSource, nodes: Sequence[Path] = (), added_nodes: Sequence[str] = ()
) -> ClusterInput:
    """Return the cluster with the nodes of the given files and texts added; print omissions to stderr.

    Raises:
        UsageError: if a file or text of nodes is invalid.
        TallygateError: if the cluster cannot be read.
    """
    cluster_input = read_cluster(source)
    difference = _describe_difference(cluster_input.cluster)
    for omission in (*cluster_input.omissions, *([difference] if difference else ())):
        click.echo(f"tallygate: {omission}", err=True)
    for path in nodes:
        try:
            put_nodes(cluster_input.cluster, read_manifests([str(path)]), DEFAULT_LIMITS)
        except DocumentError as fault:
            raise UsageError(f"{path}:{fault.position.line}:{fault.position.column}: {fault.message}") from fault
    for number, option_value in enumerate(added_nodes, 1):
        add_nodes(cluster_input.cluster, option_value, number, DEFAULT_LIMITS)
    return cluster_input


def read_prediction_policies(source: ClusterSource, paths: Sequence[Path]) -> PolicySet:
    """Return the policies at the paths; without a path those of the gate in the cluster, and none for a snapshot.

    If the gate's policies cannot be read, the reason is printed to stderr, and the prediction goes on without them.

    Raises:
        UsageError: if the policies at the paths are not usable.
        ClientConfigError: if the API server is not configured.
    """
    if paths:
        return load_usable_policies(paths)
    if source.snapshot:
        return PolicySet()
    policies = read_gate_policies(source.connection.load())
    if not isinstance(policies, Unavailable):
        return policies
    click.echo(
        f"tallygate: the policies of the gate are unknown: {policies.reason}; without them pods get no implied "
        "requests, and no node shapes are known: name their files with --policies",
        err=True,
    )
    return PolicySet()


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


def find_pending_pods(query: PodQuery, cluster_input: ClusterInput) -> list[PodsToPlace]:
    """Return the pods of the cluster that a query names and that have no node yet, in the order of scheduling.

    Raises:
        UsageError: if the namespace does not exist, or a named pod does not wait for a node.
    """
    _check_namespace(query, cluster_input)
    if query.names:
        return [_find_pending_pod(name, query.namespace or "", cluster_input) for name in query.names]
    chosen = [
        (_create_queue_key(pod), namespace, name, pod)
        for (namespace, name), pod in cluster_input.pending_pods.items()
        if query.namespace in (None, namespace) and matches_labels(query.selector, _get_metadata(pod).labels)
    ]
    return [
        PodsToPlace.from_pod(pod, namespace, name)
        for _, namespace, name, pod in sorted(chosen, key=lambda each: each[:3])
    ]


def _check_namespace(query: PodQuery, cluster_input: ClusterInput) -> None:
    """Check that the namespace exists, unless the source has no namespaces.

    Raises:
        UsageError: if it does not.
    """
    namespaces = cluster_input.cluster.namespaces
    known = sorted({*namespaces, *(namespace for namespace, _ in cluster_input.pending_pods)})
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


def _find_pending_pod(name: str, namespace: str, cluster_input: ClusterInput) -> PodsToPlace:
    pod = cluster_input.pending_pods.get((namespace, name))
    if pod is None:
        raise UsageError(f"pod/{name}: {_explain_missing_pod(name, namespace, cluster_input)}")
    return PodsToPlace.from_pod(pod, namespace, name)


def _explain_missing_pod(name: str, namespace: str, cluster_input: ClusterInput) -> str:
    for pod_info in cluster_input.cluster.list_pods():
        if (pod_info.namespace, pod_info.name) == (namespace, name) and pod_info.node:
            return f"it is on node {pod_info.node} already"
    hint = ", ".join(_list_waiting_names(namespace, cluster_input))
    return f"no pod of that name in namespace {namespace} is pending; " + (
        f"pending pods are {hint}" if hint else "no pod is pending"
    )


def _list_waiting_names(namespace: str, cluster_input: ClusterInput) -> Iterator[str]:
    """Yield the first pending pods, those of the namespace first, each as the arguments that name it."""
    waiting = sorted(cluster_input.pending_pods, key=lambda each: (each[0] != namespace, each))
    for pod_namespace, pod_name in waiting[:_MAX_NAMES]:
        yield f"pod/{pod_name} -n {pod_namespace}"


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
