"""The documents of kind NodeResource: their mistakes besides those of shape, the definition of a valid one, and pairs.

Two definitions may give one node different amounts of a resource.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from types import MappingProxyType

from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import REQUESTS_PREFIX, is_countable
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.selectors import MATCH_EVERYTHING, LabelCondition, Selector
from tallygate.documents.syntax_tree import Entry, Mapping, Node, Scalar, join_path
from tallygate.policy.formats import quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.node_resources import AmountDefinition, AmountField, NodeResource
from tallygate.policy.policy_builder import Fields
from tallygate.policy.policy_codes import BAD_COUNTED_NAME, BAD_PUBLISHED, PUBLISHED_TWICE
from tallygate.policy.suggest import suggest_resource

_Problem = tuple[Node, str, str]


def check_node_resource(file: str, document: Node) -> Iterator[LintFinding]:
    """Yield a finding for each mistake that the schema cannot express."""
    for entry in Fields(document).get_fields("spec").list_entries("resources"):
        path = join_path("spec.resources", entry.name)
        for node, code, text in (*_check_name(entry), *_check_amount(entry)):
            location = SourceLocation(file, *node.position)
            yield LintFinding.create(location, code, Severity.ERROR, f"{path}: {text}")


def build_node_resource(document: Fields, location: SourceLocation) -> NodeResource:
    """Return the definition of a valid document."""
    spec = document.get_fields("spec")
    return NodeResource(
        name=document.get_fields("metadata").get_text("name"),
        nodes=_build_selector(spec.get_fields("nodes").get_fields("selector")),
        resources=MappingProxyType(
            {entry.name: _build_amount(entry.value) for entry in spec.list_entries("resources")}
        ),
        positions={
            path: (each.file, each.line, each.column) for path, each in document.list_locations(location.file).items()
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
    if not isinstance(node, Mapping):
        return
    sources = [each for each in node.entries if each.name in set(AmountField)]
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
    capacity = fields.get_node(AmountField.CAPACITY)
    if isinstance(capacity, Scalar) and capacity.text == entry.name:
        text = f"{quote_text(entry.name)} cannot be derived from itself; name another resource of the node"
        yield capacity, BAD_PUBLISHED, f"{AmountField.CAPACITY}: {text}"


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
        return None if Quantity.parse(text).sign > 0 else f"{text} is no size of a chunk; write one such as 100Gi"
    except QuantityError:
        return None


def _build_amount(node: Node) -> AmountDefinition:
    if isinstance(node, Scalar):
        return AmountDefinition(Quantity.parse(node.text).value())
    fields = Fields(node)
    source = next(each for each in AmountField if fields.get_node(each) is not None)
    unit, minus = fields.get_quantity("unit"), fields.get_quantity("minus")
    return AmountDefinition(
        source=source,
        key=fields.get_text(source),
        unit=Quantity.from_int(1) if unit is None else unit,
        minus=0 if minus is None else minus.value(),
    )


def _build_selector(fields: Fields) -> Selector:
    if not fields:
        return MATCH_EVERYTHING
    labels = fields.get_fields("matchLabels").get_pairs()
    conditions = [LabelCondition(key, "In", frozenset({value})) for key, value in labels.items()]
    for item in map(Fields, fields.get_items("matchExpressions")):
        values = frozenset(item.get_texts("values"))
        conditions.append(LabelCondition(item.get_text("key"), item.get_text("operator"), values))
    return Selector(tuple(conditions))
