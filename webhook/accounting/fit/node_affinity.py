"""Node selectors and required node affinity.

Source: component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go, apimachinery pkg/labels/selector.go, and the
plugin nodeaffinity, v1.36.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Mask, Places, Rejection, for_good
from webhook.accounting.selectors import is_valid_requirement, parse_int64
from webhook.objects.meta import NodeSelector, NodeSelectorTerm, SelectorRequirement

_NAME = "metadata.name"


def unwanted(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes that the pod does not select."""
    matched = selected(pod, cluster.nodes)
    if matched is not None:
        yield for_good("node(s) didn't match Pod's node affinity/selector", ~matched[places])


def misnamed(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """All nodes but the one that the pod names itself (plugins/nodename)."""
    if pod.spec.node_name:
        place = cluster.nodes.find_index(pod.spec.node_name)
        yield for_good("node(s) didn't match the requested node name", places != (-1 if place is None else place))


def selected(pod: Incoming, nodes: NodeColumns) -> Mask | None:
    """The places that the pod's selector and affinity both match; None when it has neither."""
    affinity = required(pod)
    if not pod.spec.node_selector and affinity is None:
        return None
    matched = np.ones(nodes.size, dtype=np.bool_)
    for key, value in (pod.spec.node_selector or {}).items():
        matched &= _among(nodes, key, [value])
    return matched if affinity is None else matched & matching(affinity, nodes)


def required(pod: Incoming) -> NodeSelector | None:
    """The node affinity that must hold."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def matching(selector: NodeSelector, nodes: NodeColumns) -> Mask:
    """The places that one of the terms matches. A term that says nothing, or nonsense, matches nothing."""
    matched = np.zeros(nodes.size, dtype=np.bool_)
    for term in selector.node_selector_terms or ():
        if _is_term(term):
            matched |= _matched_by(term, nodes)
    return matched


def named(pod: Incoming) -> frozenset[str] | None:
    """The names of the only nodes that the affinity can match; None when it names none, empty when they contradict.

    (PreFilter of the plugin.)
    """
    affinity = required(pod)
    terms = (affinity.node_selector_terms if affinity else None) or ()
    names: frozenset[str] = frozenset()
    for term in terms:
        listed = [
            frozenset(field.values or ())
            for field in term.match_fields or ()
            if field.key == _NAME and field.operator == "In"
        ]
        if not listed:
            return None
        names |= frozenset.intersection(*listed)
    return names if terms else None


def contradiction(pod: Incoming, _cluster: Cluster) -> str | None:
    """Why a pod cannot be placed: its affinity names nodes that no node can be at once."""
    names = named(pod)
    return "pod affinity terms conflict" if names is not None and not names else None


def is_field(field: SelectorRequirement) -> bool:
    """Whether a requirement on a field is one: an operator that fields have, and one value."""
    return field.operator in ("In", "NotIn") and len(field.values or ()) == 1


def _is_term(term: NodeSelectorTerm) -> bool:
    labels, fields = term.match_expressions or (), term.match_fields or ()
    return bool(labels or fields) and all(map(is_valid_requirement, labels)) and all(map(is_field, fields))


def _matched_by(term: NodeSelectorTerm, nodes: NodeColumns) -> Mask:
    matched = np.ones(nodes.size, dtype=np.bool_)
    for requirement in term.match_expressions or ():
        matched &= _holding(requirement, nodes)
    for field in term.match_fields or ():
        matched &= _named_by(field, nodes)
    return matched


def _holding(requirement: SelectorRequirement, nodes: NodeColumns) -> Mask:
    """The places whose labels satisfy one expression."""
    match requirement.operator:
        case "In":
            return _among(nodes, requirement.key, requirement.values or ())
        case "NotIn":
            return ~_among(nodes, requirement.key, requirement.values or ())
        case "Exists":
            return _present(nodes, requirement.key)
        case "DoesNotExist":
            return ~_present(nodes, requirement.key)
        case _:
            return _compared(requirement, nodes)


def _compared(requirement: SelectorRequirement, nodes: NodeColumns) -> Mask:
    """Gt and Lt: both sides are whole numbers of 64 bits, or nothing matches."""
    (text,) = requirement.values or ("",)
    limit, column = parse_int64(text), nodes.find_label_column(requirement.key)
    if column is None or limit is None:
        return np.zeros(nodes.size, dtype=np.bool_)
    if requirement.operator == "Gt":
        return column.mask_matching(lambda value: (number := parse_int64(value)) is not None and number > limit)
    return column.mask_matching(lambda value: (number := parse_int64(value)) is not None and number < limit)


def _named_by(field: SelectorRequirement, nodes: NodeColumns) -> Mask:
    """Whether the node's name is the one, or is not. No other field of a node can be selected by."""
    (value,) = field.values or ("",)
    named = np.zeros(nodes.size, dtype=np.bool_)
    if field.key == _NAME and (place := nodes.find_index(value)) is not None:
        named[place] = True
    elif field.key != _NAME:  # a field that no node has is as good as empty (fields.Set.Get)
        named[:] = not value
    return named if field.operator == "In" else ~named


def _among(nodes: NodeColumns, key: str, values: Sequence[str] | Iterable[str]) -> Mask:
    column = nodes.find_label_column(key)
    return np.zeros(nodes.size, dtype=np.bool_) if column is None else column.mask_values(values)


def _present(nodes: NodeColumns, key: str) -> Mask:
    column = nodes.find_label_column(key)
    return np.zeros(nodes.size, dtype=np.bool_) if column is None else column.ids >= 0
