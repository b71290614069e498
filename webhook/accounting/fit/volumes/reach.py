"""Which nodes reach a volume, a class's topologies, or a part of the cluster with room in it: by labels alone.

Source: CheckNodeAffinity in component-helpers storage/volume/helpers.go, which knows a node's labels and not its name;
MatchTopologySelectorTerms in pkg/apis/core/v1/helper/helpers.go; nodeHasAccess in plugins/volumebinding/binder.go; all
of v1.36.
"""

from collections.abc import Sequence

import numpy as np

from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.fit.node_affinity import is_field, matching
from webhook.accounting.fit.rejection import Mask
from webhook.accounting.selectors import SelectorError, parse_selector
from webhook.objects.meta import LabelSelector, NodeSelector, NodeSelectorTerm, SelectorRequirement
from webhook.objects.storage import PersistentVolume, TopologySelectorTerm


def of_volume(volume: PersistentVolume, nodes: NodeColumns) -> Mask:
    """The places that reach a volume."""
    affinity = volume.spec.node_affinity if volume.spec else None
    if affinity is None or affinity.required is None:
        return _everywhere(nodes)
    reached = ~_everywhere(nodes)
    for term in affinity.required.node_selector_terms or ():
        reached |= _of_term(term, nodes)
    return reached


def _of_term(term: NodeSelectorTerm, nodes: NodeColumns) -> Mask:
    """The places that a term matches by their labels: its fields are passed over, for it is asked of nameless nodes."""
    if not all(map(is_field, term.match_fields or ())):
        return ~_everywhere(nodes)
    if term.match_fields and not term.match_expressions:
        return _everywhere(nodes)
    return matching(NodeSelector([NodeSelectorTerm(term.match_expressions)]), nodes)


def of_topologies(terms: Sequence[TopologySelectorTerm], nodes: NodeColumns) -> Mask:
    """The places within one of a class's topologies; everywhere without any."""
    if not terms:
        return _everywhere(nodes)
    selected = [
        NodeSelectorTerm(
            [SelectorRequirement(each.key, "In", each.values) for each in term.match_label_expressions or ()]
        )
        for term in terms
    ]
    return matching(NodeSelector(selected), nodes)


def of_part(part: LabelSelector | None, nodes: NodeColumns) -> Mask:
    """The places in a part of the cluster; nowhere without one."""
    if part is None:
        return ~_everywhere(nodes)
    try:
        conditions = parse_selector(part).conditions
    except SelectorError:
        return ~_everywhere(nodes)
    wanted = [SelectorRequirement(each.key, each.operator, sorted(each.values)) for each in conditions or ()]
    return matching(NodeSelector([NodeSelectorTerm(wanted)]), nodes) if wanted else _everywhere(nodes)


def _everywhere(nodes: NodeColumns) -> Mask:
    return np.ones(nodes.size, dtype=np.bool_)
