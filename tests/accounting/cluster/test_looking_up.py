"""What indexes find is what looking at everything finds."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from tests.accounting.scheduling.clusters import pod, pod_of
from webhook.accounting.cluster.pod_indexes import AntiAffinityIndex, LabelIndex
from webhook.accounting.cluster.pod_info import AffinityTerm, SchedulingGroup
from webhook.accounting.selectors import MATCH_NOTHING, LabelCondition, Selector

_SPACES = st.sampled_from(["red", "blue"])
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
_NAMED = st.builds(lambda named, more: named | more, st.frozensets(_SPACES), st.sampled_from([frozenset(), _MANY]))
_TERMS = st.builds(AffinityTerm, st.sampled_from(["zone", "host"]), _SELECTORS, _NAMED, _SELECTORS)
_SHAPES = st.builds(
    lambda namespace, labels: SchedulingGroup(pod_of({"metadata": {"namespace": namespace, "labels": labels}})),
    _SPACES,
    _LABELS,
)


@given(
    st.lists(_SHAPES, max_size=8), st.sets(st.integers(0, 7)), _SELECTORS, st.one_of(st.none(), st.frozensets(_SPACES))
)
def test_shapes_are_found_by_a_selector(
    shapes: list[SchedulingGroup], gone: set[int], selector: Selector, namespaces: frozenset[str] | None
) -> None:
    labelled = LabelIndex()
    for each in shapes:
        labelled.add(each)
    for number in gone & set(range(len(shapes))):
        labelled.remove(shapes[number])
    left = {each for number, each in enumerate(shapes) if number not in gone}
    fitting = {each for each in left if namespaces is None or each.namespace in namespaces}
    assert labelled.find_matching(selector, namespaces) == {each for each in fitting if selector.matches(each.labels)}
    assert labelled.namespaces() == {each.namespace for each in left}


@given(st.lists(st.tuples(_TERMS, st.integers(0, 2)), max_size=8), st.data(), _SPACES, _LABELS, _LABELS)
def test_terms_are_found_by_the_pods_that_they_are_about(
    had: list[tuple[AffinityTerm, int]],
    data: st.DataObject,
    space: str,
    of_space: dict[str, str],
    labels: dict[str, str],
) -> None:
    repelling, left = AntiAffinityIndex(), list(had)
    for term, place in had:
        repelling.count(term, place, 1)
    for term, place in data.draw(st.lists(st.sampled_from(had), unique_by=id) if had else st.just([])):
        repelling.count(term, place, -1)
        left.remove((term, place))
    found = list(repelling.find_terms_against(space, of_space, labels))
    about = {term for term, _ in left if term.matches(space, of_space, labels)}
    assert [term for term, _ in found if term not in about] == []
    assert {term: dict(on) for term, on in found} == {
        term: {place: left.count((term, place)) for each, place in left if each == term} for term in about
    }
    assert len(found) == len(about), "each is told once"
    assert len(repelling) == len({term for term, _ in left})


def test_a_term_about_very_many_takes_little_room() -> None:
    values, spaces = (frozenset(f"{kind}{number}" for number in range(1000)) for kind in ("v", "n"))
    repelling, about = AntiAffinityIndex(), Selector((LabelCondition("app", "In", values),))
    tracemalloc.start()
    repelling.count(AffinityTerm("host", about, spaces, MATCH_NOTHING), 7, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert [dict(on) for _, on in repelling.find_terms_against("n5", {}, {"app": "v5"})] == [{7: 1}]
    assert (
        list(repelling.find_terms_against("n5", {}, {"app": "x"}))
        == list(repelling.find_terms_against("x", {}, {"app": "v5"}))
        == []
    )


def test_a_shape_knows_its_namespace_though_it_is_not_written() -> None:
    written = pod("p")
    del written["metadata"]["namespace"]
    assert SchedulingGroup(pod_of(written)).namespace == "default"
