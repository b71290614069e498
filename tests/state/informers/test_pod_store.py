"""The pods of a cluster in columns: what they hold, and what is known of those that are gone."""

import json
import weakref
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.state.informers.pods import BATCH, GPU, GPUS, cap, line, page, pod
from webhook.accounting.amounts import Amounts
from webhook.accounting.charge import Charge
from webhook.kube.api_errors import ApiError
from webhook.kube.resource_codec import Bookmark, Changed, Deleted, Replaced, WatchEvent
from webhook.objects.core import Pod, PodCondition
from webhook.objects.meta import OwnerReference
from webhook.state.informers.pod_columns import PodColumns
from webhook.state.informers.pod_records import PodRecord
from webhook.state.informers.pod_store import NotSyncedError, PodStore, Tombstones


def viewed(*events: WatchEvent[PodRecord]) -> PodStore:
    """A view that was told this."""
    view = PodStore()
    for event in events:
        view.apply(event)
    return view


def test_before_the_first_list_nothing_is_known() -> None:
    view = viewed(line("ADDED", pod("u1", 5)), Bookmark(9))
    assert (view.revision, len(view), view.find("u1")) == (None, 0, None)
    for ask in (view.compute_used_by_pod, view.compute_usage):
        with pytest.raises(NotSyncedError):
            ask(GPUS, ["team-a"])


def test_what_each_pod_holds_and_all_together() -> None:
    other = pod("u3", 7, namespace="team-b")
    view = viewed(page(7, pod("u1", 5, "2"), pod("u2", 6), other))
    assert view.compute_used_by_pod(GPUS, ["team-a"]) == {
        "u1": Amounts({GPU: 2, "pods": 1}),
        "u2": Amounts({GPU: 1, "pods": 1}),
    }
    assert view.compute_usage(GPUS, ["team-a"]).used == Amounts({GPU: 3, "pods": 2})
    assert view.compute_usage(GPUS, ["team-a", "team-b", "nowhere"]).used == Amounts({GPU: 4, "pods": 3})
    assert view.compute_usage(GPUS, []).used == Amounts()


def test_ended_pods_cost_nothing_and_terminating_ones_still_do() -> None:
    dying = pod("u2", 6, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    view = viewed(page(7, pod("u1", 5, status={"phase": "Succeeded"}), dying))
    assert view.compute_used_by_pod(GPUS, ["team-a"]) == {"u2": Amounts({GPU: 1, "pods": 1})}
    place = view.find("u2")
    assert place is not None
    assert (place.is_terminating, place.has_ended) == (True, False)


def test_a_pod_of_which_the_cap_counts_nothing_holds_nothing() -> None:
    view = viewed(page(7, pod("u1", 5), pod("u2", 6, metadata={"labels": {"tier": "batch"}})))
    assert view.compute_used_by_pod(BATCH, ["team-a"]) == {"u2": Amounts({GPU: 1})}


def test_a_resize_counts_with_the_largest_of_all() -> None:
    statuses = [{"name": "main", "resources": {"requests": {GPU: "4"}}, "allocatedResources": {GPU: "3"}}]
    view = viewed(page(7, pod("u1", 5, "2", status={"containerStatuses": statuses})))
    assert view.compute_usage(cap(GPU), ["team-a"]).used == Amounts({GPU: 4})


def test_a_count_tells_there_from_deleted_from_absent() -> None:
    view = viewed(
        page(7, pod("u1", 5, "2"), pod("u2", 6), pod("u3", 6, namespace="team-b"), pod("u4", 7)),
        line("DELETED", pod("u2", 8)),
        page(9, pod("u1", 5, "2"), pod("u3", 6, namespace="team-b")),
        line("DELETED", pod("never-seen", 10)),
    )
    count = view.compute_usage(GPUS, ["team-a"], ["u1", "u2", "u3", "u4", "u5", "never-seen"])
    assert count.revision == 10
    assert count.used_by_pod == {"u1": Amounts({GPU: 2, "pods": 1}), "u3": Amounts()}
    assert count.deleted == {"u2", "never-seen"}
    assert view.list_deleted_since(9) == (frozenset({"never-seen"}), True)
    assert view.list_deleted_since(8) == (frozenset({"never-seen"}), False)


def test_a_pod_with_a_quantity_that_is_none_is_named_and_harms_no_other() -> None:
    view = viewed(page(7, pod("u1", 5, "1"), pod("u2", 6, "many")))
    count = view.compute_usage(GPUS, ["team-a"], ["u2"])
    assert (count.used, count.invalid) == (Amounts({GPU: 1, "pods": 1}), ("u2",))
    assert count.used_by_pod == {"u2": Amounts()}


def test_a_new_policy_counts_anew() -> None:
    view = viewed(page(7, pod("u1", 5, "2")))
    assert view.compute_usage(cap("pods"), ["team-a"]).used == Amounts({"pods": 1})
    assert view.compute_usage(cap(GPU), ["team-a"]).used == Amounts({GPU: 2})


def test_pods_of_one_shape_share_it_and_it_goes_with_the_last() -> None:
    view = PodStore()
    body = {"metadata": {"resourceVersion": "7"}, "items": [*(pod(f"u{n}", 5) for n in range(50)), pod("v", 6, "2")]}
    view.apply(Replaced(view.codec.decode_page(json.dumps(body).encode()).items, 7))
    one, other = view.find("u1"), view.find("u2")
    assert one is not None
    assert other is not None
    assert one.group is other.group
    assert view.group_count == 2
    view.apply(line("DELETED", pod("v", 8)))
    assert view.group_count == 1


def test_a_shape_is_the_same_whatever_the_order_of_its_keys() -> None:
    one = pod("u1", 5, metadata={"labels": {"a": "1", "b": "2"}}, spec={"nodeSelector": {"x": "1", "y": "2"}})
    other = pod("u2", 6, metadata={"labels": {"b": "2", "a": "1"}}, spec={"nodeSelector": {"y": "2", "x": "1"}})
    assert len({row.group for row in page(7, one, other).items}) == 1


def test_a_shape_is_the_same_whatever_the_order_of_the_kubelets_statuses() -> None:
    statuses = [{"name": name, "allocatedResources": {"cpu": "1"}} for name in ("main", "side")]
    one = pod("u1", 5, status={"containerStatuses": statuses})
    other = pod("u2", 6, status={"containerStatuses": statuses[::-1]})
    assert len({row.group for row in page(7, one, other).items}) == 1


def test_costs_of_caps_that_nobody_asks_for_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.state.informers.pod_store._MAX_CAPS", 2)
    view = viewed(page(7, pod("u1", 5, "2")))
    kept: list[weakref.ref[_Tagged]] = []
    for _ in range(3):
        tagged = _Tagged()
        kept.append(weakref.ref(tagged))
        view.compute_usage(tagged, ["team-a"])
        del tagged
    assert [each() is None for each in kept] == [True, False, False]


class _Tagged:
    """A cap whose end can be seen."""

    def compute_charge(self, pod: Pod | None) -> Charge:
        """What the GPU cap says."""
        return GPUS.compute_charge(pod)


def test_a_shape_says_what_caps_ask_for() -> None:
    whole = pod(
        "u1", 5, "2",
        metadata={"labels": {"tier": "batch"}, "annotations": {"a": "b"}},
        spec={"priorityClassName": "high", "overhead": {"cpu": "1"}, "tolerations": [{"key": "x"}]},
        status={"allocatedResources": {"cpu": "3"}, "startTime": "2026-01-01T00:00:00Z", "conditions": [
            {"type": "Ready", "status": "True"}, {"type": "PodResizePending", "status": "True", "reason": "Deferred"},
        ]},
    )  # fmt: skip
    read = page(7, whole).items[0].group.to_pod()
    assert read.metadata is not None
    assert read.spec is not None
    assert (read.metadata.labels, read.metadata.annotations, read.metadata.name) == ({"tier": "batch"}, None, None)
    assert read.status is not None
    assert (read.spec.priority_class_name, read.spec.node_name, read.status.phase) == ("high", None, None)
    assert read.status.allocated_resources is not None
    assert bytes(read.status.allocated_resources["cpu"]) == b'"3"'
    assert read.status.conditions == [PodCondition("PodResizePending", "True", "Deferred")]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(("put", "end", "remove")), st.integers(0, 2)), max_size=30)
)
def test_how_many_pods_have_each_shape_is_what_counting_them_says(steps: list[tuple[int, str, int]]) -> None:
    columns = PodColumns()
    view = PodStore()
    for number, what, gpus in steps:
        uid, namespace = f"u{number}", f"team-{number % 2}"
        if what == "remove":
            columns.remove(uid)
            continue
        status = {"phase": "Failed" if what == "end" else "Running"}
        one = pod(uid, 5, str(gpus), namespace=namespace, status=status)
        body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": [one]}).encode()
        columns.put(view.codec.decode_page(body).items[0])
        for among in (("team-0",), ("team-1",), ("team-0", "team-1", "team-2")):
            assert columns.count_groups(among) == Counter(shape for _, shape in columns.list_groups_by_uid(among))


def test_room_that_pods_leave_is_used_again() -> None:
    columns = PodColumns()
    for number in range(100):
        columns.put(page(7, pod(f"u{number}", 5)).items[0])
        columns.remove(f"u{number}")
    assert len(columns._uid) == 1  # noqa: SLF001  # it can be seen nowhere else
    assert len(columns) == 0


def test_a_pod_without_a_uid_makes_its_page_none() -> None:
    with pytest.raises(ApiError, match="a pod without uid"):
        page(7, pod("", 5))


def test_a_cluster_that_went_back_in_time_is_taken_as_it_is() -> None:
    view = viewed(page(70, pod("u1", 5)), line("DELETED", pod("u1", 71)), page(40, pod("u1", 5)))
    assert view.revision == 40
    assert view.get_deletion_revision("u1") is None
    assert view.find("u1") is not None


def test_deletions_are_remembered_within_bounds_and_say_whether_they_are_all() -> None:
    deletions = Tombstones(max_size=3)
    for revision in range(1, 6):
        deletions.add(f"u{revision}", revision)
    assert deletions.list_since(2) == (frozenset({"u3", "u4", "u5"}), True)
    assert deletions.list_since(4) == (frozenset({"u5"}), True)
    assert deletions.list_since(1) == (frozenset({"u3", "u4", "u5"}), False)
    deletions.mark_incomplete_until(4)
    assert deletions.list_since(3) == (frozenset({"u4", "u5"}), False)
    assert (deletions.get_revision("u2"), deletions.get_revision("u3")) == (None, 3)


def test_who_listens_is_told_where_what_is_held_may_have_changed() -> None:
    view = PodStore()
    told: list[str | None] = []
    view.add_listener(told.append)
    view.apply(page(7, pod("u1", 5)))
    view.apply(line("MODIFIED", pod("u1", 8, spec={"nodeName": "n2"})))
    view.apply(Bookmark(9))
    assert told == [None]
    view.apply(line("ADDED", pod("u2", 10, namespace="team-b")))
    view.apply(line("MODIFIED", pod("u2", 11, "3", namespace="team-b")))
    view.apply(line("MODIFIED", pod("u2", 12, "3", namespace="team-b", status={"phase": "Failed"})))
    view.apply(line("DELETED", pod("u2", 13, "3", namespace="team-b", status={"phase": "Failed"})))
    view.apply(line("DELETED", pod("never-seen", 14, namespace="team-c")))
    view.apply(line("DELETED", pod("never-seen", 14, namespace="team-c")))
    assert told[1:] == ["team-b"] * 4 + ["team-c"]


def test_kinds_of_events_are_what_they_say() -> None:
    assert isinstance(line("MODIFIED", pod("u1", 5)), Changed)
    assert isinstance(line("DELETED", pod("u1", 5)), Deleted)


def test_pods_are_counted_in_heaps_that_say_who_goes_and_how_much_each_holds() -> None:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    view = viewed(
        page(
            7,
            pod("u1", 5, "2"),
            pod("u2", 5, "2"),
            pod("u3", 5, "2", metadata=going),
            pod("u4", 5, "2", status={"phase": "Failed"}),
            pod("u5", 5, "2", status={"phase": "Failed"}, metadata=going),
            pod("u6", 5, "0"),
            pod("u7", 5, "4", "team-b"),
        )
    )
    heaps = list(view.list_groups(cap(GPU), ["team-a", "team-b", "team-c"]))
    assert [(heap.namespace, heap.is_terminating, heap.pod_count, heap.used_per_pod[GPU]) for heap in heaps] == [
        ("team-a", False, 2, 2),
        ("team-a", True, 1, 2),
        ("team-b", False, 1, 4),
    ]
    assert [view.list_pod_names(heap, 1) for heap in heaps] == [["pod-u1"], ["pod-u3"], ["pod-u7"]]
    assert view.list_pod_names(heaps[0], 9) == ["pod-u1", "pod-u2"]


def test_a_shape_says_which_controller_its_pods_have_and_no_other_owner() -> None:
    owners = [
        {"kind": "Thing", "name": "t", "uid": "1"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "2", "controller": True},
    ]
    read = page(7, pod("u1", 5, metadata={"ownerReferences": owners})).items[0].group.to_pod()
    assert read.metadata is not None
    assert read.metadata.owner_references == [OwnerReference("ReplicaSet", "web-5d", controller=True)]
