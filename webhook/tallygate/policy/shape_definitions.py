"""Definitions of shapes: the documents `kind: NodeShape`, with the mistakes that a schema cannot express."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tallygate.accounting.names import is_countable
from tallygate.accounting.node_shape import HOSTNAME, NodeShape
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.documents.syntax_tree import Entry, Node, Scalar, join_path
from tallygate.documents.syntax_tree import Mapping as MappingNode
from tallygate.objects.scheduling import Taint
from tallygate.policy.formats import PODS_RESOURCE, quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.policy_builder import Fields, PolicyDocument
from tallygate.policy.policy_codes import BAD_LABEL, FRACTIONAL, MISSPELT_RESOURCE, REPEATED
from tallygate.policy.selectors import LabelKey, Labels, QuantityItem
from tallygate.policy.suggest import suggest_resource
from tallygate.policy.written import Written, convert, read_plain

_TRANSIENT_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""The domains of taints that are set and removed by the state of a node."""

_Problem = tuple[Node, str, Severity, str]


class TaintEffect(StrEnum):
    """The effects of taints."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class ShapeTaint(Written, frozen=True, kw_only=True):
    """A taint of a shape."""

    key: Annotated[LabelKey, Meta(examples=["nvidia.com/gpu"])]
    """The key of the taint."""
    value: Annotated[str, Meta(examples=["present"], extra_json_schema={"format": "label-value"})] = ""
    """The value of the taint; left out: the empty one."""
    effect: Annotated[TaintEffect, Meta(examples=["NoSchedule"])]
    """The effect on pods without a toleration."""


class NodeShapeSpec(Written, frozen=True, kw_only=True):
    """The parts of a new node."""

    labels: Annotated[
        Labels, Meta(examples=[{"node.kubernetes.io/instance-type": "p5.48xlarge", "kubernetes.io/os": "linux"}])
    ] = msgspec.field(default_factory=dict)
    """The labels that every such node gets, also those of kubelet and cloud, such as kubernetes.io/os; left out: none.
    The label kubernetes.io/hostname differs on each node and needs no entry."""
    taints: Annotated[
        tuple[
            Annotated[
                ShapeTaint,
                Meta(
                    title="Taint",
                    description="A taint, as in spec.taints of a Node.",
                    examples=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                ),
            ],
            ...,
        ],
        Meta(max_length=100, examples=[[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]]),
    ] = ()
    """The taints that such a node keeps. Those that are removed once it is ready do not belong here; left out: none."""
    allocatable: Annotated[
        Mapping[str, QuantityItem],
        Meta(
            min_length=1,
            max_length=100,
            examples=[{"cpu": 190, "memory": "2000Gi", "pods": 110, "nvidia.com/gpu": 8}],
            extra_json_schema={"propertyNames": {"format": "allocatable-name"}},
        ),
    ]
    """The amounts that pods can request on such a node, as status.allocatable: the capacity without what the system
    reserves. Without pods it has 110, as from the kubelet. Pods of DaemonSets take their part of it: subtract it for
    pods that need a whole node."""
    most: Annotated[int, Meta(ge=1, examples=[10], extra_json_schema={"format": "node-count"})] | None = None
    """The number of nodes that can be added to those that exist; left out: any number."""


class NodeShapeDocument(PolicyDocument, frozen=True, kw_only=True):
    """Nodes that may come, as in a pool that an autoscaler grows from zero.

    The checks advertised and schedulable: never count them beside the nodes that exist, and predict and headroom report
    what would fit on a new one; nothing fits now by a shape. A shape has no devices: a pod with claims is unknown on
    it.
    """

    kind: Annotated[str, Meta(examples=["NodeShape"], extra_json_schema={"const": "NodeShape"})]
    """NodeShape."""
    spec: Annotated[
        NodeShapeSpec,
        Meta(
            title="Shape", examples=[{"allocatable": {"cpu": 190, "memory": "2000Gi", "nvidia.com/gpu": 8}, "most": 10}]
        ),
    ]
    """What a new node has, as in the Node of the API."""


def check_shape_definition(file: str, document: Node) -> set[LintFinding]:
    """Return the findings about the shape in a document; about values of a wrong form the schema reports."""
    spec = Fields(document).get_fields("spec")
    problems = [*_check_allocatable(spec), *_check_labels(spec), *_check_taints(spec)]
    return {
        LintFinding.create(SourceLocation(file, *node.position), code, severity, text)
        for node, code, severity, text in problems
    }


def _check_allocatable(spec: Fields) -> Iterator[_Problem]:
    for entry in spec.list_entries("allocatable"):
        path = join_path("spec.allocatable", entry.name)
        if _is_fractional(entry):
            advice = f"a node has whole {entry.name} only; write a whole number"
            yield entry.value, FRACTIONAL, Severity.ERROR, f"{path}: {advice}"
        suggestion = suggest_resource(entry.name)
        if suggestion is not None and "/" in entry.name:
            text = f"{path}: did you mean {suggestion}? A pod is compared with the name as it is written"
            yield entry.key, MISSPELT_RESOURCE, Severity.WARNING, text


def _is_fractional(entry: Entry) -> bool:
    if not isinstance(entry.value, Scalar) or not (is_countable(entry.name) or entry.name == PODS_RESOURCE):
        return False
    try:
        return not Quantity.parse(entry.value.text).is_whole
    except QuantityError:
        return False


def _check_labels(spec: Fields) -> Iterator[_Problem]:
    for entry in spec.list_entries("labels"):
        if entry.name == HOSTNAME:
            text = f"spec.labels: {HOSTNAME} differs on each node; remove it, each new node gets one of its own"
            yield entry.key, BAD_LABEL, Severity.ERROR, text


def _check_taints(spec: Fields) -> Iterator[_Problem]:
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(spec.get_items("taints")):
        if not isinstance(item, MappingNode):
            continue
        fields, path = Fields(item), join_path("spec.taints", index)
        key, effect = fields.get_text("key"), fields.get_text("effect")
        if key and effect and (key, effect) in seen:
            text = f"{path}: a node has one taint {quote_text(key)} of effect {effect}; remove one"
            yield item, REPEATED, Severity.ERROR, text
        seen.add((key, effect))
        if key.startswith(_TRANSIENT_PREFIXES):
            text = f"{path}.key: {quote_text(key)} goes away once the node is ready; remove it"
            yield fields.get_node("key") or item, BAD_LABEL, Severity.WARNING, text


def build_node_shape(node: Node) -> NodeShape:
    """Return the shape of a document without mistakes."""
    document = convert(read_plain(node), NodeShapeDocument)
    spec = document.spec
    return NodeShape(
        name=document.metadata.name,
        labels=spec.labels,
        allocatable={
            name: msgspec.Raw(msgspec.json.encode(str(quantity))) for name, quantity in spec.allocatable.items()
        },
        taints=tuple(Taint(taint.key, taint.value or None, taint.effect) for taint in spec.taints),
        most=spec.most,
    )
