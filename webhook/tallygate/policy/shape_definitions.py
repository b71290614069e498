"""Definitions of shapes: the documents `kind: NodeShape`, with the mistakes that a schema cannot express."""

from collections.abc import Iterator

import msgspec

from tallygate.accounting.names import is_countable
from tallygate.accounting.node_shape import HOSTNAME, NodeShape
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.documents.syntax_tree import Entry, Mapping, Node, Scalar, join_path
from tallygate.objects.scheduling import Taint
from tallygate.policy.formats import PODS_RESOURCE, quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.policy_builder import Fields
from tallygate.policy.policy_codes import BAD_LABEL, FRACTIONAL, MISSPELT_RESOURCE, REPEATED
from tallygate.policy.suggest import suggest_resource

_TRANSIENT_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""The domains of taints that are set and removed by the state of a node."""

_Problem = tuple[Node, str, Severity, str]


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
        if not isinstance(item, Mapping):
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


def build_node_shape(document: Fields) -> NodeShape:
    """Return the shape of a document without mistakes."""
    spec = document.get_fields("spec")
    most = spec.get_text("most")
    return NodeShape(
        name=document.get_fields("metadata").get_text("name"),
        labels=dict(spec.get_fields("labels").get_pairs()),
        allocatable={
            name: msgspec.Raw(msgspec.json.encode(text))
            for name, text in spec.get_fields("allocatable").get_pairs().items()
        },
        taints=tuple(_build_taint(Fields(item)) for item in spec.get_items("taints")),
        most=int(most) if most else None,
    )


def _build_taint(fields: Fields) -> Taint:
    return Taint(fields.get_text("key"), fields.get_text("value") or None, fields.get_text("effect"))
