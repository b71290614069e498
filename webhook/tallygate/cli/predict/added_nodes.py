"""The nodes that `--what-if` and `--add` put into the cluster of a prediction."""

import re
from collections.abc import Iterable

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.node_shape import DEFAULT_MAX_PODS, HOSTNAME
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.cli.framework import UsageError
from tallygate.cli.manifests.manifest_objects import Manifest
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DocumentError, Limits
from tallygate.documents.to_json import to_json
from tallygate.objects.core import ResourceList
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingNode, SchedulingNodeStatus

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
