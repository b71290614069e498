"""The documents of kind NodeResource: their mistakes besides those of shape, the definition of a valid one, and pairs.

Two definitions may give one node different amounts of a resource.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta

from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import REQUESTS_PREFIX, is_countable
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.selectors import MATCH_EVERYTHING, LabelCondition, Selector
from tallygate.documents.syntax_tree import Entry, Node, Scalar, join_path
from tallygate.documents.syntax_tree import Mapping as MappingNode
from tallygate.policy.formats import quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.node_resources import AMOUNT_FIELDS, NodeResource, PublishedAmount
from tallygate.policy.policy_builder import Fields, PolicyDocument, list_node_locations
from tallygate.policy.policy_codes import BAD_COUNTED_NAME, BAD_PUBLISHED, PUBLISHED_TWICE
from tallygate.policy.selectors import LABEL_SELECTOR, PolicyLabelSelector
from tallygate.policy.suggest import suggest_resource
from tallygate.policy.written import Written, convert, read_plain

_Problem = tuple[Node, str, str]


class NodeSelector(Written, frozen=True):
    """A selection of nodes."""

    selector: Annotated[PolicyLabelSelector, LABEL_SELECTOR] = PolicyLabelSelector()
    """The nodes, by their labels. Left out: all."""


class NodeResourceSpec(Written, frozen=True, kw_only=True):
    """Nodes, and the amounts of each."""

    nodes: Annotated[NodeSelector, Meta(examples=[{"selector": {"matchLabels": {"pool": "sim"}}}])] = NodeSelector()
    """The nodes; left out: all."""
    resources: Annotated[
        Mapping[
            str,
            Annotated[
                int | str | PublishedAmount,
                Meta(
                    title="Published amount",
                    description="A whole number, or the field of the node that has the amount: exactly one of from, "
                    "fromLabel, fromAnnotation and fromCapacity. A node without that field gets no amount.",
                    examples=[
                        8,
                        {"from": "podCIDR", "minus": 3},
                        {"fromCapacity": "ephemeral-storage", "unit": "100Gi"},
                    ],
                    extra_json_schema={"format": "quantity"},
                ),
            ],
        ],
        Meta(
            min_length=1,
            max_length=100,
            examples=[{"example.com/licence": 8}, {"example.com/ip": {"from": "podCIDR", "minus": 3}}],
        ),
    ]
    """The names of extended resources with the amount of each node."""


class NodeResourceDocument(PolicyDocument, frozen=True, kw_only=True):
    """Amounts of counted resources that the gate publishes in the status of nodes, and keeps there.

    The leading replica writes them, if the setting publish_nodes is on. Of two definitions that give one node different
    amounts of a resource, neither is published.
    """

    kind: Annotated[str, Meta(examples=["NodeResource"], extra_json_schema={"const": "NodeResource"})]
    """NodeResource."""
    spec: Annotated[
        NodeResourceSpec, Meta(title="Published amounts", examples=[{"resources": {"example.com/licence": 8}}])
    ]
    """The nodes, and the amounts that each of them gets."""


def check_node_resource(file: str, document: Node) -> Iterator[LintFinding]:
    """Yield a finding for each mistake that the schema cannot express."""
    for entry in Fields(document).get_fields("spec").list_entries("resources"):
        path = join_path("spec.resources", entry.name)
        for node, code, text in (*_check_name(entry), *_check_amount(entry)):
            location = SourceLocation(file, *node.position)
            yield LintFinding.create(location, code, Severity.ERROR, f"{path}: {text}")


def build_node_resource(node: Node, location: SourceLocation) -> NodeResource:
    """Return the definition of a valid document."""
    document = convert(read_plain(node), NodeResourceDocument)
    return NodeResource(
        name=document.metadata.name,
        nodes=_build_selector(document.spec.nodes.selector),
        resources=MappingProxyType({name: _build_amount(amount) for name, amount in document.spec.resources.items()}),
        positions={
            path: (place.file, place.line, place.column) for path, place in list_node_locations(location.file, "", node)
        },
    )


def lint_node_resources(definitions: Sequence[NodeResource]) -> Iterator[LintFinding]:
    """Yield a warning for each resource of two definitions whose nodes may be the same, with different amounts."""
    for first, second in combinations(definitions, 2):
        for name in first.resources.keys() & second.resources.keys():
            if first.resources[name] != second.resources[name] and _may_overlap(first.nodes, second.nodes):
                path = join_path("spec.resources", name)
                message = (
                    f'node resource "{second.name}": {path}: "{first.name}" at {_get_location(first, path)} may give '
                    "the same node another amount, and then neither is published; narrow the nodes of one"
                )
                yield LintFinding.create(_get_location(second, path), PUBLISHED_TWICE, Severity.WARNING, message)


def _get_location(definition: NodeResource, path: str) -> SourceLocation:
    return SourceLocation(*definition.positions[path])


def _may_overlap(first: Selector, second: Selector) -> bool:
    pairs = ((one, other) for one in first.conditions or () for other in second.conditions or ())
    return not any(one.key == other.key and _excludes(one, other) for one, other in pairs)


def _excludes(one: LabelCondition, other: LabelCondition) -> bool:
    """Return whether no value of a label, nor its absence, fulfils both conditions."""
    candidates = [*one.values, *other.values, None]
    if one.operator != "In" and other.operator != "In":
        return {one.operator, other.operator} == {"Exists", "DoesNotExist"}
    labels = [{} if value is None else {one.key: value} for value in candidates]
    return not any(one.matches(label) and other.matches(label) for label in labels)


def _check_name(entry: Entry) -> Iterator[_Problem]:
    name = entry.name
    bare = name.removeprefix(REQUESTS_PREFIX)
    if bare != name and is_countable(bare):
        yield entry.key, BAD_COUNTED_NAME, f"a node has {bare}, and a quota counts {name}; write {bare}"
        return
    found = find_name_problems(name, NameContext.CONTAINER)
    if found:
        yield entry.key, BAD_COUNTED_NAME, found[0].message
    elif not is_countable(name):
        suggestion = suggest_resource(name)
        hint = f'; did you mean "{suggestion}"?' if suggestion and is_countable(suggestion) else ""
        text = "Kubernetes itself counts this, and the kubelet reports it; write a name with a domain of yours"
        yield entry.key, BAD_COUNTED_NAME, f"{text}, as in example.com/licence{hint}"


def _check_amount(entry: Entry) -> Iterator[_Problem]:
    node = entry.value
    if isinstance(node, Scalar):
        if (problem := _find_whole_problem(node.text)) is not None:
            yield node, BAD_PUBLISHED, problem
        return
    if not isinstance(node, MappingNode):
        return
    sources = [field_entry for field_entry in node.entries if field_entry.name in AMOUNT_FIELDS]
    if len(sources) != 1:
        text = "write exactly one of from, fromLabel, fromAnnotation and fromCapacity"
        yield (sources[1].key if sources else entry.key), BAD_PUBLISHED, f"{text}, or a whole number"
    fields = Fields(node)
    for name in ("minus", "unit"):
        value = fields.get_node(name)
        if isinstance(value, Scalar):
            problem = _find_whole_problem(value.text) if name == "minus" else _find_unit_problem(value.text)
            if problem is not None:
                yield value, BAD_PUBLISHED, f"{name}: {problem}"
    capacity = fields.get_node("fromCapacity")
    if isinstance(capacity, Scalar) and capacity.text == entry.name:
        text = f"{quote_text(entry.name)} cannot be derived from itself; name another resource of the node"
        yield capacity, BAD_PUBLISHED, f"fromCapacity: {text}"


def _find_whole_problem(text: str) -> str | None:
    """Return why a text is no whole number; None also for one that is no quantity, which is found by its format."""
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return None
    if quantity.is_whole and not quantity.is_beyond_int64:
        return None
    return f"{text} is not a whole number that Kubernetes counts; write one such as {max(quantity.floor(), 1)}"[:200]


def _find_unit_problem(text: str) -> str | None:
    try:
        return None if Quantity.parse(text).sign > 0 else f"{text} is not a size of a chunk; write one such as 100Gi"
    except QuantityError:
        return None


def _build_amount(written: int | str | PublishedAmount) -> int | PublishedAmount:
    return written if isinstance(written, PublishedAmount) else Quantity.parse(str(written)).value()


def _build_selector(selector: PolicyLabelSelector) -> Selector:
    if selector == PolicyLabelSelector():
        return MATCH_EVERYTHING
    labels = (LabelCondition(key, "In", frozenset({value})) for key, value in selector.match_labels.items())
    expressions = (
        LabelCondition(expression.key, expression.operator, expression.values)
        for expression in selector.match_expressions
    )
    return Selector((*labels, *expressions))
