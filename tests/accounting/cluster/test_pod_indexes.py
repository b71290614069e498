"""Indexes of pods and terms agree with a scan of all groups."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.cluster.pod_indexes import AntiAffinityIndex, LabelIndex
from tallygate.accounting.cluster.pod_info import AffinityTerm, SchedulingGroup
from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION
from tallygate.accounting.selectors import MATCH_NOTHING, LabelCondition, Selector
from tests.accounting.scheduling.clusters import decode_pod, pod

_NAMESPACES = st.sampled_from(["red", "blue"])
_LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2"]), max_size=3)
_CONDITIONS = st.one_of(
    st.builds(
        LabelCondition,
        st.sampled_from("abc"),
        st.sampled_from(["In", "NotIn"]),
        st.one_of(
            st.frozensets(st.sampled_from(["", "1", "2"]), min_size=1),
            st.just(frozenset({"1", *map(str, range(9, 20))})),
        ),
    ),
    st.builds(LabelCondition, st.sampled_from("abc"), st.sampled_from(["Exists", "DoesNotExist"])),
)
_SELECTORS = st.builds(Selector, st.one_of(st.none(), st.lists(_CONDITIONS, max_size=3).map(tuple)))
_MANY = frozenset(f"x{number}" for number in range(20))
_NAMED = st.builds(lambda named, more: named | more, st.frozensets(_NAMESPACES), st.sampled_from([frozenset(), _MANY]))
_TERMS = st.builds(AffinityTerm, st.sampled_from(["zone", "host"]), _SELECTORS, _NAMED, _SELECTORS)
_GROUPS = st.builds(
    lambda namespace, labels: SchedulingGroup(
        decode_pod({"metadata": {"namespace": namespace, "labels": labels}}), DEFAULT_VERSION
    ),
    _NAMESPACES,
    _LABELS,
)


@given(
    st.lists(_GROUPS, max_size=8),
    st.sets(st.integers(0, 7)),
    _SELECTORS,
    st.one_of(st.none(), st.frozensets(_NAMESPACES)),
)
def test_the_label_index_finds_groups_by_selector(
    groups: list[SchedulingGroup], removed: set[int], selector: Selector, namespaces: frozenset[str] | None
) -> None:
    index = LabelIndex()
    for each in groups:
        index.add(each)
    for number in removed & set(range(len(groups))):
        index.remove(groups[number])
    remaining = {each for number, each in enumerate(groups) if number not in removed}
    candidates = {each for each in remaining if namespaces is None or each.namespace in namespaces}
    assert index.find_matching(selector, namespaces) == {each for each in candidates if selector.matches(each.labels)}
    assert index.namespaces() == {each.namespace for each in remaining}


@given(st.lists(st.tuples(_TERMS, st.integers(0, 2)), max_size=8), st.data(), _NAMESPACES, _LABELS, _LABELS)
def test_the_anti_affinity_index_finds_terms_by_pod(
    had: list[tuple[AffinityTerm, int]],
    data: st.DataObject,
    namespace: str,
    namespace_labels: dict[str, str],
    labels: dict[str, str],
) -> None:
    index, remaining = AntiAffinityIndex(), list(had)
    for term, node_index in had:
        index.count(term, node_index, 1)
    for term, node_index in data.draw(st.lists(st.sampled_from(had), unique_by=id) if had else st.just([])):
        index.count(term, node_index, -1)
        remaining.remove((term, node_index))
    found = list(index.find_terms_against(namespace, namespace_labels, labels))
    matching = {term for term, _ in remaining if term.matches(namespace, namespace_labels, labels)}
    assert [term for term, _ in found if term not in matching] == []
    assert {term: dict(on) for term, on in found} == {
        term: {node_index: remaining.count((term, node_index)) for each, node_index in remaining if each == term}
        for term in matching
    }
    assert len(found) == len(matching), "each term is found once"
    assert len(index) == len({term for term, _ in remaining})


def test_a_term_with_many_values_needs_little_memory() -> None:
    values, spaces = (frozenset(f"{kind}{number}" for number in range(1000)) for kind in ("v", "n"))
    index, matching = AntiAffinityIndex(), Selector((LabelCondition("app", "In", values),))
    tracemalloc.start()
    index.count(AffinityTerm("host", matching, spaces, MATCH_NOTHING), 7, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert [dict(on) for _, on in index.find_terms_against("n5", {}, {"app": "v5"})] == [{7: 1}]
    assert (
        list(index.find_terms_against("n5", {}, {"app": "x"}))
        == list(index.find_terms_against("x", {}, {"app": "v5"}))
        == []
    )


def test_a_group_without_a_namespace_is_in_the_default_namespace() -> None:
    written = pod("p")
    del written["metadata"]["namespace"]
    assert SchedulingGroup(decode_pod(written), DEFAULT_VERSION).namespace == "default"
