"""Tests of node selectors: of one node by its labels, and of all nodes by columns, which agree."""

from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import put_object
from tallygate.accounting.scheduling.plugins.node_eligibility import match_selector
from tallygate.accounting.selectors import matches_node
from tallygate.objects.meta import NodeSelector, NodeSelectorTerm, ObjectMeta, SelectorRequirement
from tallygate.objects.scheduling import SchedulingNode

_VALUES = st.sampled_from(["", "a", "b", "3", "7", "-2", "bad value"])
_LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["", "a", "b", "3", "7"]), max_size=2)
_OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"])
_ON_LABELS = st.builds(
    SelectorRequirement, st.sampled_from(["x", "y", "z"]), _OPERATORS, st.lists(_VALUES, max_size=2) | st.none()
)
_ON_FIELDS = st.builds(
    SelectorRequirement,
    st.sampled_from(["metadata.name", "spec.unschedulable"]),
    st.sampled_from(["In", "NotIn", "Exists"]),
    st.lists(st.sampled_from(["", "n0", "n1"]), max_size=2),
)
_TERMS = st.builds(NodeSelectorTerm, st.lists(_ON_LABELS, max_size=2), st.lists(_ON_FIELDS, max_size=1))


@given(st.lists(_LABELS, min_size=1, max_size=3), st.lists(_TERMS, max_size=2))
def test_a_node_matches_a_selector_as_its_columns_do(
    labels: list[dict[str, str]], terms: list[NodeSelectorTerm]
) -> None:
    cluster, selector = Cluster(), NodeSelector(terms)
    for number, own in enumerate(labels):
        put_object(cluster, "Node", SchedulingNode(ObjectMeta(name=f"n{number}", labels=own)))
    matched = match_selector(selector, cluster.nodes)
    for number, own in enumerate(labels):
        index = cluster.nodes.find_index(f"n{number}")
        assert index is not None
        assert matches_node(selector, f"n{number}", own) is bool(matched[index])
