"""The lint of published amounts: two definitions that give a node different amounts of one resource."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from tallygate.webhook.accounting.selectors import LabelCondition, Selector
from tallygate.webhook.documents.syntax_tree import join_path
from tallygate.webhook.policy.lint_findings import LintFinding, Severity
from tallygate.webhook.policy.node_resource_codes import PUBLISHED_TWICE
from tallygate.webhook.policy.node_resources import NodeResource


def lint_node_resources(definitions: Sequence[NodeResource]) -> Iterator[LintFinding]:
    """Yield a warning for each resource of two definitions whose nodes may be the same, with different amounts."""
    for first, second in combinations(definitions, 2):
        for name in first.resources.keys() & second.resources.keys():
            if first.resources[name] != second.resources[name] and _may_overlap(first.nodes, second.nodes):
                path = join_path("spec.resources", name)
                message = (
                    f'node resource "{second.name}": {path}: "{first.name}" at {first.get_location(path)} may give the '
                    "same node another amount, and then neither is published; narrow the nodes of one"
                )
                yield LintFinding.create(second.get_location(path), PUBLISHED_TWICE, Severity.WARNING, message)


def _may_overlap(first: Selector, second: Selector) -> bool:
    pairs = ((one, other) for one in first.conditions or () for other in second.conditions or ())
    return not any(one.key == other.key and _excludes(one, other) for one, other in pairs)


def _excludes(one: LabelCondition, other: LabelCondition) -> bool:
    """Return whether no value of a label, nor its absence, fulfils both conditions."""
    candidates = [*one.values, *other.values, None]
    if one.operator != "In" and other.operator != "In":
        return {one.operator, other.operator} == {"Exists", "DoesNotExist"}
    labels = [{} if value is None else {one.key: value} for value in candidates]
    return not any(one.matches(each) and other.matches(each) for each in labels)
