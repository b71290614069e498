"""Nodes that are not there: what would be if they were."""

import re
from collections.abc import Iterable

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.quantity_parser import QuantityError
from webhook.cli.command import UsageError
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.documents import documents
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.objects import Manifest
from webhook.cli.manifest.to_json import to_json
from webhook.objects.core import ResourceList
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import SchedulingNode, SchedulingNodeStatus

_NODE_DECODER = msgspec.json.Decoder(SchedulingNode)
_AMOUNTS_DECODER = msgspec.json.Decoder(ResourceList)
_ADD_PATTERN = re.compile(r"\s*(\d{1,6})\s*x\s*(\{.*\})\s*", re.ASCII | re.DOTALL)
_MAX_ADDED_NODES = 100_000
_DEFAULT_MAX_PODS = msgspec.Raw(b'"110"')
"""How many pods the kubelet takes when nothing is said (maxPods in pkg/kubelet/apis/config/v1beta1/defaults.go)."""
_HOSTNAME = "kubernetes.io/hostname"


def put_nodes(cluster: Cluster, manifests: Iterable[Manifest], limits: Bounds) -> None:
    """Add the nodes of manifests, or let them take the place of those of the same name.

    Raises:
        Fault: a manifest is no node.
        Misuse: a quantity is none.
    """
    for manifest in manifests:
        if (manifest.group, manifest.kind) != ("", "Node"):
            raise UsageError(f"{manifest.file}: --what-if takes nodes, not a {manifest.kind}")
        try:
            node = _NODE_DECODER.decode(to_json(manifest.node, limits.expanded))
        except msgspec.ValidationError as error:
            location = f"{manifest.file}:{manifest.node.place.line}:{manifest.node.place.column}"
            raise UsageError(f"{location}: {error}; the API server could not decode this") from error
        _put_node(cluster, node, manifest.file)


def add_nodes(cluster: Cluster, option_value: str, option_number: int, limits: Bounds) -> None:
    """Add so many nodes as `4 x {cpu: 8, nvidia.com/gpu: 2}` says, named after it; `number` tells it from others.

    Raises:
        Misuse: it is not written so, or a quantity is none.
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


def _parse_amounts(option_value: str, text: str, limits: Bounds) -> list[ResourceList]:
    try:
        return [
            _AMOUNTS_DECODER.decode(to_json(document.root, limits.expanded)) for document in documents(text, limits)
        ][:1]
    except (Fault, msgspec.ValidationError) as error:
        raise UsageError(f"--add {option_value}: {error}") from error


def _put_node(cluster: Cluster, node: SchedulingNode, source: str) -> None:
    name = (node.metadata.name if node.metadata else None) or ""
    try:
        cluster.put_node(node)
    except QuantityError as error:
        raise UsageError(f"{source}: node {name}: {error}") from error
