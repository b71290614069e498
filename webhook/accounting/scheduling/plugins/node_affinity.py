"""The plugins NodeAffinity and NodeName: node selectors and required node affinity.

Source: component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go, apimachinery pkg/labels/selector.go, and the
plugin nodeaffinity, v1.36.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import Mask, NodeIndices
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.scheduling.filter_status import FilterStatus, mark_unresolvable
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.selectors import is_valid_requirement, parse_int64
from webhook.objects.meta import NodeSelector, NodeSelectorTerm, SelectorRequirement

_NAME = "metadata.name"


def filter_node_affinity(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes that the pod does not select."""
    matched = match_pod(pod, cluster.nodes)
    if matched is not None:
        yield mark_unresolvable("node(s) didn't match Pod's node affinity/selector", ~matched[nodes])


def filter_node_name(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject all nodes but the one that the pod names itself (plugins/nodename)."""
    if pod.spec.node_name:
        node_index = cluster.nodes.find_index(pod.spec.node_name)
        yield mark_unresolvable(
            "node(s) didn't match the requested node name", nodes != (-1 if node_index is None else node_index)
        )


def match_pod(pod: IncomingPod, columns: NodeColumns) -> Mask | None:
    """Return a mask of the nodes that match the pod's selector and affinity; None when it has neither."""
    affinity = get_required_affinity(pod)
    if not pod.spec.node_selector and affinity is None:
        return None
    matched = np.ones(columns.size, dtype=np.bool_)
    for key, value in (pod.spec.node_selector or {}).items():
        matched &= _match_values(columns, key, [value])
    return matched if affinity is None else matched & match_selector(affinity, columns)


def get_required_affinity(pod: IncomingPod) -> NodeSelector | None:
    """Return the required node affinity."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def match_selector(selector: NodeSelector, columns: NodeColumns) -> Mask:
    """Return a mask of the nodes that match a term. An empty or invalid term matches no node."""
    matched = np.zeros(columns.size, dtype=np.bool_)
    for term in selector.node_selector_terms or ():
        if _is_valid_term(term):
            matched |= _match_term(term, columns)
    return matched


def list_named_nodes(pod: IncomingPod) -> frozenset[str] | None:
    """Return the names of the only nodes that the affinity can match; None without names, empty if they conflict.

    (PreFilter of the plugin.)
    """
    affinity = get_required_affinity(pod)
    terms = (affinity.node_selector_terms if affinity else None) or ()
    node_names: frozenset[str] = frozenset()
    for term in terms:
        name_sets = [
            frozenset(field.values or ())
            for field in term.match_fields or ()
            if field.key == _NAME and field.operator == "In"
        ]
        if not name_sets:
            return None
        node_names |= frozenset.intersection(*name_sets)
    return node_names if terms else None


def pre_filter_node_affinity(pod: IncomingPod, _cluster: Cluster) -> str | None:
    """Return the reason why a pod fits no node if the names in its affinity conflict; else None."""
    node_names = list_named_nodes(pod)
    return "pod affinity terms conflict" if node_names is not None and not node_names else None


def is_valid_field(field: SelectorRequirement) -> bool:
    """Return whether a requirement on a field is valid: an operator of fields, and one value."""
    return field.operator in ("In", "NotIn") and len(field.values or ()) == 1


def _is_valid_term(term: NodeSelectorTerm) -> bool:
    labels, fields = term.match_expressions or (), term.match_fields or ()
    return bool(labels or fields) and all(map(is_valid_requirement, labels)) and all(map(is_valid_field, fields))


def _match_term(term: NodeSelectorTerm, columns: NodeColumns) -> Mask:
    matched = np.ones(columns.size, dtype=np.bool_)
    for requirement in term.match_expressions or ():
        matched &= _match_expression(requirement, columns)
    for field in term.match_fields or ():
        matched &= _match_field(field, columns)
    return matched


def _match_expression(requirement: SelectorRequirement, columns: NodeColumns) -> Mask:
    """Return a mask of the nodes whose labels match one expression."""
    match requirement.operator:
        case "In":
            return _match_values(columns, requirement.key, requirement.values or ())
        case "NotIn":
            return ~_match_values(columns, requirement.key, requirement.values or ())
        case "Exists":
            return _match_existing(columns, requirement.key)
        case "DoesNotExist":
            return ~_match_existing(columns, requirement.key)
        case _:
            return _match_comparison(requirement, columns)


def _match_comparison(requirement: SelectorRequirement, columns: NodeColumns) -> Mask:
    """Compare labels by Gt or Lt: no node matches unless both sides are integers of 64 bits."""
    (text,) = requirement.values or ("",)
    limit, column = parse_int64(text), columns.find_label_column(requirement.key)
    if column is None or limit is None:
        return np.zeros(columns.size, dtype=np.bool_)
    if requirement.operator == "Gt":
        return column.mask_matching(lambda value: (number := parse_int64(value)) is not None and number > limit)
    return column.mask_matching(lambda value: (number := parse_int64(value)) is not None and number < limit)


def _match_field(field: SelectorRequirement, columns: NodeColumns) -> Mask:
    """Return a mask of the nodes that match a requirement on `metadata.name`, the only field that nodes have."""
    (value,) = field.values or ("",)
    matched = np.zeros(columns.size, dtype=np.bool_)
    if field.key == _NAME and (node_index := columns.find_index(value)) is not None:
        matched[node_index] = True
    elif field.key != _NAME:  # a field that no node has equals an empty one (fields.Set.Get)
        matched[:] = not value
    return matched if field.operator == "In" else ~matched


def _match_values(columns: NodeColumns, key: str, values: Sequence[str] | Iterable[str]) -> Mask:
    column = columns.find_label_column(key)
    return np.zeros(columns.size, dtype=np.bool_) if column is None else column.mask_values(values)


def _match_existing(columns: NodeColumns, key: str) -> Mask:
    column = columns.find_label_column(key)
    return np.zeros(columns.size, dtype=np.bool_) if column is None else column.ids >= 0
