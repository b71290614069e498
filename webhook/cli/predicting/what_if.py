"""Nodes that are not there: what would be if they were."""

import re
from collections.abc import Iterable

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.quantity_parser import QuantityError
from webhook.cli.command import Misuse
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.documents import documents
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.objects import Manifest
from webhook.cli.manifest.to_json import to_json
from webhook.objects.core import ResourceList
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import SchedulingNode, SchedulingNodeStatus

_NODE = msgspec.json.Decoder(SchedulingNode)
_AMOUNTS = msgspec.json.Decoder(ResourceList)
_ADDED = re.compile(r"\s*(\d{1,6})\s*x\s*(\{.*\})\s*", re.ASCII | re.DOTALL)
_MOST = 100_000
_PODS = msgspec.Raw(b'"110"')
"""How many pods the kubelet takes when nothing is said (maxPods in pkg/kubelet/apis/config/v1beta1/defaults.go)."""
_HOSTNAME = "kubernetes.io/hostname"


def put_nodes(cluster: Cluster, manifests: Iterable[Manifest], bounds: Bounds) -> None:
    """Add the nodes of manifests, or let them take the place of those of the same name.

    Raises:
        Fault: a manifest is no node.
        Misuse: a quantity is none.
    """
    for manifest in manifests:
        if (manifest.group, manifest.kind) != ("", "Node"):
            raise Misuse(f"{manifest.file}: --what-if takes nodes, not a {manifest.kind}")
        try:
            node = _NODE.decode(to_json(manifest.node, bounds.expanded))
        except msgspec.ValidationError as error:
            place = f"{manifest.file}:{manifest.node.place.line}:{manifest.node.place.column}"
            raise Misuse(f"{place}: {error}; the API server could not decode this") from error
        _put(cluster, node, manifest.file)


def add_nodes(cluster: Cluster, written: str, number: int, bounds: Bounds) -> None:
    """Add so many nodes as `4 x {cpu: 8, nvidia.com/gpu: 2}` says, named after it; `number` tells it from others.

    Raises:
        Misuse: it is not written so, or a quantity is none.
    """
    found = _ADDED.fullmatch(written)
    count = int(found[1]) if found else 0
    if not found or count > _MOST:
        raise Misuse(f'--add {written}: write how many nodes and what each has, as in "4 x {{cpu: 8, memory: 32Gi}}"')
    for index, amounts in enumerate(_amounts(written, found[2], bounds) * count):
        name = f"added-{number}-{index + 1}"
        meta = ObjectMeta(name=name, labels={_HOSTNAME: name})
        _put(
            cluster,
            SchedulingNode(metadata=meta, status=SchedulingNodeStatus(allocatable={"pods": _PODS, **amounts})),
            "--add",
        )


def _amounts(written: str, text: str, bounds: Bounds) -> list[ResourceList]:
    try:
        return [_AMOUNTS.decode(to_json(document.root, bounds.expanded)) for document in documents(text, bounds)][:1]
    except (Fault, msgspec.ValidationError) as error:
        raise Misuse(f"--add {written}: {error}") from error


def _put(cluster: Cluster, node: SchedulingNode, where: str) -> None:
    name = (node.metadata.name if node.metadata else None) or ""
    try:
        cluster.put_node(node)
    except QuantityError as error:
        raise Misuse(f"{where}: node {name}: {error}") from error
