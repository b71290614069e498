"""The cluster of a prediction, in columns: read from an API server or a snapshot, with added and replaced nodes.

Its pods without a node are read too, so that a prediction can name them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from tallygate.webhook.accounting.charge import has_ended
from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.cluster.ingest import ingest
from tallygate.webhook.accounting.cluster.pod_info import PodInfo, create_pod_info, merge_label_keys
from tallygate.webhook.accounting.cluster.storage_index import StorageIndex
from tallygate.webhook.accounting.quantity_parser import QuantityError
from tallygate.webhook.cli.framework import UsageError
from tallygate.webhook.cli.manifests.manifest_objects import Manifest
from tallygate.webhook.cli.predict.pods_to_place import read_manifests
from tallygate.webhook.cli.sources import snapshot_items
from tallygate.webhook.cli.sources.cluster_source import ClusterSource
from tallygate.webhook.cli.sources.observed_cluster import PODS_PATH
from tallygate.webhook.cli.sources.resource_lists import ListError, UnknownResourceError, list_resource
from tallygate.webhook.cli.sources.snapshot_items import SchedulingObject, SnapshotItem
from tallygate.webhook.cli.sources.snapshot_reader import SnapshotError, format_snapshot_name, read_items
from tallygate.webhook.documents.reader import read_documents
from tallygate.webhook.documents.syntax_tree import DEFAULT_LIMITS, DocumentError, Limits
from tallygate.webhook.documents.to_json import to_json
from tallygate.webhook.errors import TallygateError
from tallygate.webhook.kube.api_errors import ApiErrorReason
from tallygate.webhook.kube.client import ApiClient, ClientConfig
from tallygate.webhook.kube.resource_codec import ResourceCodec, parse_revision
from tallygate.webhook.objects.core import ResourceList
from tallygate.webhook.objects.meta import ObjectMeta
from tallygate.webhook.objects.scheduling import SchedulingNode, SchedulingNodeStatus, SchedulingPod
from tallygate.webhook.state.kubernetes import cap_ledger

_NODE_DECODER = msgspec.json.Decoder(SchedulingNode)
_AMOUNTS_DECODER = msgspec.json.Decoder(ResourceList)
_ADD_PATTERN = re.compile(r"\s*(\d{1,6})\s*x\s*(\{.*\})\s*", re.ASCII | re.DOTALL)
_MAX_ADDED_NODES = 100_000
_DEFAULT_MAX_PODS = msgspec.Raw(b'"110"')
"""The kubelet's default limit of pods (maxPods in pkg/kubelet/apis/config/v1beta1/defaults.go)."""
_HOSTNAME = "kubernetes.io/hostname"


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
        meta = ObjectMeta(name=name, labels={_HOSTNAME: name})
        _put_node(
            cluster,
            SchedulingNode(
                metadata=meta, status=SchedulingNodeStatus(allocatable={"pods": _DEFAULT_MAX_PODS, **amounts})
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


_POD_DECODER = msgspec.json.Decoder(SchedulingPod)


class ClusterInputError(TallygateError):
    """An object that is not as a cluster stores it."""


@dataclass(slots=True)
class ClusterInput:
    """A cluster, and its pods without a node by namespace and name; `omissions` are messages on unread resources."""

    cluster: Cluster = field(default_factory=Cluster)
    pending_pods: dict[tuple[str, str], SchedulingPod] = field(default_factory=dict)
    omissions: list[str] = field(default_factory=list)


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
    return _read_snapshot(source.snapshot) if source.snapshot else _list_cluster(source.connect())


def _read_snapshot(path: Path) -> ClusterInput:
    cluster_input = ClusterInput()

    def handle_item(kind: str, item: msgspec.Raw) -> bool:
        if kind == "Pod":
            _add_pod(cluster_input, _create_record(cluster_input.cluster, _fill_identity(_POD_DECODER.decode(item))))
            return True
        if kind == snapshot_items.VOLUMES_LISTED_KIND:
            cluster_input.cluster.storage = cluster_input.cluster.storage or StorageIndex()
            return True
        return ingest(cluster_input.cluster, kind, item) or kind == cap_ledger.KIND

    try:
        read_items(path, handle_item)
    except QuantityError as error:
        raise SnapshotError(
            f"{format_snapshot_name(path)}: it has a quantity that no API server would have stored: {error}"
        ) from error
    if not len(cluster_input.cluster.nodes):
        cluster_input.omissions.append("the snapshot has no nodes")
    return cluster_input


def _list_cluster(client_config: ClientConfig) -> ClusterInput:
    cluster_input, client = ClusterInput(), ApiClient(client_config)
    pods = ResourceCodec("pods", PODS_PATH, SchedulingPod, lambda pod: _create_record(cluster_input.cluster, pod))
    try:
        _ingest_all(cluster_input, list_resource(client, snapshot_items.NAMESPACE_CODEC).items)
        _ingest_all(cluster_input, list_resource(client, snapshot_items.NODE_CODEC).items)
        volumes = [_list_if_allowed(cluster_input, client, codec) for codec in snapshot_items.VOLUME_CODECS]
        if None not in volumes:
            cluster_input.cluster.storage = StorageIndex()
            _ingest_all(cluster_input, chain.from_iterable(filter(None, volumes)))
        for codec in snapshot_items.SCHEDULING_CODECS:
            _ingest_all(cluster_input, _list_if_allowed(cluster_input, client, codec) or ())
        for record in list_resource(client, pods).items:
            _add_pod(cluster_input, record)
    except QuantityError as error:
        raise ClusterInputError(f"{client_config.server} has stored an invalid quantity: {error}") from error
    finally:
        client.close()
    return cluster_input


def _list_if_allowed(
    cluster_input: ClusterInput,
    client: ApiClient,
    codec: ResourceCodec[SchedulingObject, SnapshotItem],
) -> Sequence[SnapshotItem] | None:
    """Return the items of a resource, none if the API server does not serve it, None if the list is forbidden."""
    try:
        return list_resource(client, codec).items
    except UnknownResourceError:
        return ()
    except ListError as error:
        if error.cause.reason is not ApiErrorReason.FORBIDDEN:
            raise
        cluster_input.omissions.append(f"{codec.name} may not be listed: {error.cause}")
        return None


def _ingest_all(cluster_input: ClusterInput, items: Iterable[SnapshotItem]) -> None:
    for item in items:
        ingest(cluster_input.cluster, item.kind, item.content)


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
    for omission in cluster_input.omissions:
        click.echo(f"tallygate: {omission}", err=True)
    for path in nodes:
        try:
            put_nodes(cluster_input.cluster, read_manifests([str(path)]), DEFAULT_LIMITS)
        except DocumentError as fault:
            raise UsageError(f"{path}:{fault.position.line}:{fault.position.column}: {fault.message}") from fault
    for number, option_value in enumerate(added_nodes, 1):
        add_nodes(cluster_input.cluster, option_value, number, DEFAULT_LIMITS)
    return cluster_input
