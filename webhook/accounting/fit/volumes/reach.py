"""Which nodes reach a volume, a class's topologies, or a part of the cluster with room in it: by labels alone.

Source: CheckNodeAffinity in component-helpers storage/volume/helpers.go, which knows a node's labels and not its name;
MatchTopologySelectorTerms in pkg/apis/core/v1/helper/helpers.go; nodeHasAccess in plugins/volumebinding/binder.go; all
of v1.36.
"""

from collections.abc import Sequence

import numpy as np

from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.fit.node_affinity import is_valid_field, match_selector
from webhook.accounting.fit.rejection import Mask
from webhook.accounting.selectors import SelectorError, parse_selector
from webhook.objects.meta import LabelSelector, NodeSelector, NodeSelectorTerm, SelectorRequirement
from webhook.objects.storage import PersistentVolume, TopologySelectorTerm


def mask_reaching_volume(volume: PersistentVolume, columns: NodeColumns) -> Mask:
    """The places that reach a volume."""
    affinity = volume.spec.node_affinity if volume.spec else None
    if affinity is None or affinity.required is None:
        return _mask_all(columns)
    reachable = ~_mask_all(columns)
    for term in affinity.required.node_selector_terms or ():
        reachable |= _mask_volume_term(term, columns)
    return reachable


def _mask_volume_term(term: NodeSelectorTerm, columns: NodeColumns) -> Mask:
    """The places that a term matches by their labels: its fields are passed over, for it is asked of nameless nodes."""
    if not all(map(is_valid_field, term.match_fields or ())):
        return ~_mask_all(columns)
    if term.match_fields and not term.match_expressions:
        return _mask_all(columns)
    return match_selector(NodeSelector([NodeSelectorTerm(term.match_expressions)]), columns)


def mask_topologies(terms: Sequence[TopologySelectorTerm], columns: NodeColumns) -> Mask:
    """The places within one of a class's topologies; everywhere without any."""
    if not terms:
        return _mask_all(columns)
    selector_terms = [
        NodeSelectorTerm(
            [SelectorRequirement(each.key, "In", each.values) for each in term.match_label_expressions or ()]
        )
        for term in terms
    ]
    return match_selector(NodeSelector(selector_terms), columns)


def mask_segment(segment: LabelSelector | None, columns: NodeColumns) -> Mask:
    """The places in a part of the cluster; nowhere without one."""
    if segment is None:
        return ~_mask_all(columns)
    try:
        conditions = parse_selector(segment).conditions
    except SelectorError:
        return ~_mask_all(columns)
    requirements = [SelectorRequirement(each.key, each.operator, sorted(each.values)) for each in conditions or ()]
    return (
        match_selector(NodeSelector([NodeSelectorTerm(requirements)]), columns) if requirements else _mask_all(columns)
    )


def _mask_all(columns: NodeColumns) -> Mask:
    return np.ones(columns.size, dtype=np.bool_)
