"""Kept sums of namespaces: after any changes they are what all pods use when they are added up."""

from collections import Counter
from unittest.mock import call, patch

from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.amounts import Amounts
from tallygate.state.informers import usage_sums
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.informers.usage_sums import ChangeCounts, GroupSums
from tests.state.informers.pods import GPU, GPUS, line, page, pod

NAMESPACES = frozenset({"team-a", "team-b", "team-c"})
_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "end", "terminate", "delete", "list", "ask", "ask one"]),
        st.integers(0, 5),
        st.sampled_from(["1", "2", "no amount"]),
    ),
    max_size=25,
)


def add_up(store: PodStore, namespaces: frozenset[str]) -> tuple[Amounts, Amounts, int]:
    """Return what the groups of all pods use, what the terminating ones use, and the number of invalid groups."""
    used, terminating, invalid = Counter[str](), Counter[str](), 0
    for group in store.list_groups(GPUS, namespaces):
        amounts = {name: amount * group.pod_count for name, amount in group.used_per_pod.items()}
        used.update(amounts)
        if group.is_terminating:
            terminating.update(amounts)
        invalid += not group.is_valid
    return Amounts(+used), Amounts(+terminating), invalid


def read(sums: GroupSums) -> tuple[Amounts, Amounts, int]:
    """Return sums in the form of `add_up`."""
    return sums.used, sums.terminating, len(sums.invalid)


@given(_CHANGES, st.sampled_from([1, 2, 65_536]))
def test_kept_sums_are_those_of_all_pods(changes: list[tuple[str, int, str]], max_namespaces: int) -> None:
    """Keep the sums of a few namespaces, or of all of them."""
    with patch.object(usage_sums, "_MAX_NAMESPACES", max_namespaces):
        apply_and_compare(changes)


def apply_and_compare(changes: list[tuple[str, int, str]]) -> None:
    """Apply changes, and compare the sums with those that are added up."""
    store, stored = PodStore(), dict[str, dict[str, object]]()
    store.apply(page(1))
    for revision, (change, number, gpus) in enumerate(changes, 2):
        uid, namespace = f"u{number}", sorted(NAMESPACES)[number % 3]
        item = pod(uid, revision, gpus, namespace)
        if change == "end":
            item["status"]["phase"] = "Succeeded"
        elif change == "terminate":
            item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if change in {"put", "end", "terminate"}:
            stored[uid] = item
            store.apply(line("MODIFIED", item))
        elif change == "delete" and uid in stored:
            del stored[uid]
            store.apply(line("DELETED", item))
        elif change == "list":
            store.apply(page(revision, *stored.values()))
        elif change == "ask one":
            one = frozenset({namespace})
            assert read(store.sum_groups(GPUS, one)) == add_up(store, one)
        else:
            assert read(store.sum_groups(GPUS, NAMESPACES)) == add_up(store, NAMESPACES)
            each = store.list_sums(GPUS, sorted(NAMESPACES))
            assert [(name, read(sums)) for name, sums in each] == [
                (name, add_up(store, frozenset({name}))) for name in sorted(NAMESPACES)
            ]
    assert read(store.sum_groups(GPUS, NAMESPACES)) == add_up(store, NAMESPACES)


def test_only_namespaces_with_changed_pods_are_read_again() -> None:
    store = PodStore()
    store.apply(page(5, pod("u1", 2), pod("u2", 3, namespace="team-b")))
    assert store.sum_groups(GPUS, NAMESPACES).used[GPU] == 2
    store.apply(line("MODIFIED", pod("u2", 6, "3", "team-b")))
    columns = store._columns  # noqa: SLF001  # what is read of it is the subject
    with patch.object(columns, "count_groups_by_state", wraps=columns.count_groups_by_state) as count:
        assert store.sum_groups(GPUS, NAMESPACES).used[GPU] == 4
    assert count.call_args_list == [call("team-b")]


def test_only_namespaces_with_changed_pods_are_looked_at_again() -> None:
    store = PodStore()
    store.apply(page(5, pod("u1", 2), pod("u2", 3, namespace="team-b")))
    assert store.sum_groups(GPUS, NAMESPACES).used[GPU] == 2
    store.apply(line("MODIFIED", pod("u2", 6, "3", "team-b")))
    store.apply(line("MODIFIED", pod("u3", 7, "3", "team-d")))
    with patch.object(store, "_sum_namespace", wraps=store._sum_namespace) as look:  # noqa: SLF001  # the subject
        assert store.sum_groups(GPUS, NAMESPACES).used[GPU] == 4
        assert store.sum_groups(GPUS, NAMESPACES).used[GPU] == 4
    assert [each.args[1] for each in look.call_args_list] == ["team-b"]


def test_the_changes_since_a_number_are_listed_unless_all_may_have_changed() -> None:
    counts = ChangeCounts()
    for name in ("a", "b", "a"):
        counts.record(name)
    assert [counts.list_since(number) for number in (0, 1, 2, 3)] == [["a", "b"], ["a", "b"], ["a"], []]
    counts.record_all()
    assert (counts.list_since(3), counts.list_since(counts.last)) == (None, [])


def test_the_numbers_of_changes_never_come_again() -> None:
    counts, seen = ChangeCounts(), set[int]()
    for number in range(70_000):
        counts.record(f"ns-{number}")
        seen.add(counts.get(f"ns-{number}"))
    before = counts.get("ns-0")
    counts.record_all()
    assert (len(seen), counts.get("ns-0") > before, counts.get("other") > before) == (70_000, True, True)
