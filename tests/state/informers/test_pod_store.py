"""The pod store: the usage of stored pods, and the tombstones of deleted ones."""

import json
import weakref
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import Charge
from tallygate.accounting.result_cache import Fingerprint
from tallygate.kube.api_errors import ApiError
from tallygate.kube.resource_codec import Bookmark, Changed, Deleted, Replaced, WatchEvent
from tallygate.objects.core import Pod, PodCondition
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.meta import OwnerReference
from tallygate.state.informers.consumer_columns import ConsumerColumns
from tallygate.state.informers.consumer_store import NotSyncedError, Tombstones
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_store import PodStore
from tests.state.informers.pods import BATCH, GPU, GPUS, cap, line, page, pod


def create_store(*events: WatchEvent[PodRecord]) -> PodStore:
    """Return a store after the given events."""
    store = PodStore()
    for event in events:
        store.apply(event)
    return store


def test_a_store_is_not_synced_before_the_first_list() -> None:
    store = create_store(line("ADDED", pod("u1", 5)), Bookmark(9))
    assert (store.revision, len(store), store.find("u1")) == (None, 0, None)
    for ask in (store.compute_used_by_consumer, store.compute_usage):
        with pytest.raises(NotSyncedError):
            ask(GPUS, ["team-a"])


def test_usage_is_computed_for_each_pod_and_in_total() -> None:
    other = pod("u3", 7, namespace="team-b")
    store = create_store(page(7, pod("u1", 5, "2"), pod("u2", 6), other))
    assert store.compute_used_by_consumer(GPUS, ["team-a"]) == {
        "u1": Amounts({GPU: 2, "pods": 1}),
        "u2": Amounts({GPU: 1, "pods": 1}),
    }
    assert store.compute_usage(GPUS, ["team-a"]).used == Amounts({GPU: 3, "pods": 2})
    assert store.compute_usage(GPUS, ["team-a", "team-b", "nowhere"]).used == Amounts({GPU: 4, "pods": 3})
    assert store.compute_usage(GPUS, []).used == Amounts()


def test_ended_pods_are_not_charged_and_terminating_ones_are() -> None:
    dying = pod("u2", 6, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    store = create_store(page(7, pod("u1", 5, status={"phase": "Succeeded"}), dying))
    assert store.compute_used_by_consumer(GPUS, ["team-a"]) == {"u2": Amounts({GPU: 1, "pods": 1})}
    place = store.find("u2")
    assert place is not None
    assert (place.is_terminating, place.has_ended) == (True, False)


def test_a_pod_that_the_cap_does_not_count_uses_nothing() -> None:
    store = create_store(page(7, pod("u1", 5), pod("u2", 6, metadata={"labels": {"tier": "batch"}})))
    assert store.compute_used_by_consumer(BATCH, ["team-a"]) == {"u2": Amounts({GPU: 1})}


def test_a_resize_is_charged_with_its_largest_amount() -> None:
    statuses = [{"name": "main", "resources": {"requests": {GPU: "4"}}, "allocatedResources": {GPU: "3"}}]
    store = create_store(page(7, pod("u1", 5, "2", status={"containerStatuses": statuses})))
    assert store.compute_usage(cap(GPU), ["team-a"]).used == Amounts({GPU: 4})


def test_a_count_distinguishes_stored_deleted_and_unknown_pods() -> None:
    store = create_store(
        page(7, pod("u1", 5, "2"), pod("u2", 6), pod("u3", 6, namespace="team-b"), pod("u4", 7)),
        line("DELETED", pod("u2", 8)),
        page(9, pod("u1", 5, "2"), pod("u3", 6, namespace="team-b")),
        line("DELETED", pod("never-seen", 10)),
    )
    count = store.compute_usage(GPUS, ["team-a"], ["u1", "u2", "u3", "u4", "u5", "never-seen"])
    assert count.revision == 10
    assert count.used_by_consumer == {"u1": Amounts({GPU: 2, "pods": 1}), "u3": Amounts()}
    assert count.deleted == {"u2", "never-seen"}
    assert store.list_deleted_since(9) == (frozenset({"never-seen"}), True)
    assert store.list_deleted_since(8) == (frozenset({"never-seen"}), False)


def test_a_count_has_the_pods_that_are_stored_under_the_requested_names() -> None:
    """Create web-0 again, in team-a alone; the other pods have names of their own."""
    named = {"name": "web-0"}
    names = [("team-a", "web-0"), ("team-b", "web-0"), ("team-a", "web-1")]
    store = create_store(page(7, pod("u1", 5, "2", metadata=named), pod("u2", 6, namespace="team-b")))
    count = store.compute_usage(cap(GPU), ["team-a"], [], names)
    assert (count.holders, count.used_by_consumer) == ({names[0]: "u1"}, {"u1": Amounts({GPU: 2})})
    store.apply(line("DELETED", pod("u1", 8, metadata=named)))
    assert store.compute_usage(cap(GPU), ["team-a"], [], names).holders == {}
    assert not store.has_running(*names[0])
    store.apply(line("ADDED", pod("u3", 9, "3", metadata=named)))
    later = store.compute_usage(cap(GPU), ["team-a"], ["u1"], names)
    assert (later.holders, later.used_by_consumer) == ({names[0]: "u3"}, {"u3": Amounts({GPU: 3})})
    assert later.deleted == {"u1"}
    assert store.has_running(*names[0])
    store.apply(line("MODIFIED", pod("u3", 10, "3", metadata=named, status={"phase": "Succeeded"})))
    ended = store.compute_usage(cap(GPU), ["team-a"], [], names)
    assert (ended.holders, ended.used_by_consumer) == ({names[0]: "u3"}, {"u3": Amounts()})
    assert not store.has_running(*names[0])


def test_the_last_pod_of_a_name_is_found_though_an_earlier_one_is_removed_later() -> None:
    """Show both in one list, as one that is not of one moment may."""
    named = {"name": "web-0"}
    store = create_store(
        page(7, pod("u1", 5, metadata=named), pod("u2", 6, metadata=named)),
        line("DELETED", pod("u1", 8, metadata=named)),
    )
    assert store.compute_usage(cap(GPU), ["team-a"], [], [("team-a", "web-0")]).holders == {("team-a", "web-0"): "u2"}


def test_a_pod_with_an_invalid_quantity_is_named_and_harms_no_other() -> None:
    store = create_store(page(7, pod("u1", 5, "1"), pod("u2", 6, "many")))
    count = store.compute_usage(GPUS, ["team-a"], ["u2"])
    assert (count.used, count.invalid) == (Amounts({GPU: 1, "pods": 1}), ("u2",))
    assert count.used_by_consumer == {"u2": Amounts()}


def test_a_new_policy_is_recounted() -> None:
    store = create_store(page(7, pod("u1", 5, "2")))
    assert store.compute_usage(cap("pods"), ["team-a"]).used == Amounts({"pods": 1})
    assert store.compute_usage(cap(GPU), ["team-a"]).used == Amounts({GPU: 2})


def test_equal_pods_share_a_charge_group_until_the_last_is_deleted() -> None:
    store = PodStore()
    body = {"metadata": {"resourceVersion": "7"}, "items": [*(pod(f"u{n}", 5) for n in range(50)), pod("v", 6, "2")]}
    store.apply(Replaced(store.codec.decode_page(json.dumps(body).encode()).items, 7))
    one, other = store.find("u1"), store.find("u2")
    assert one is not None
    assert other is not None
    assert one.group is other.group
    assert store.group_count == 2
    store.apply(line("DELETED", pod("v", 8)))
    assert store.group_count == 1


def test_a_charge_group_does_not_depend_on_the_order_of_keys() -> None:
    one = pod("u1", 5, metadata={"labels": {"a": "1", "b": "2"}}, spec={"nodeSelector": {"x": "1", "y": "2"}})
    other = pod("u2", 6, metadata={"labels": {"b": "2", "a": "1"}}, spec={"nodeSelector": {"y": "2", "x": "1"}})
    assert len({row.group for row in page(7, one, other).items}) == 1


def test_a_charge_group_does_not_depend_on_the_order_of_container_statuses() -> None:
    statuses = [{"name": name, "allocatedResources": {"cpu": "1"}} for name in ("main", "side")]
    one = pod("u1", 5, status={"containerStatuses": statuses})
    other = pod("u2", 6, status={"containerStatuses": statuses[::-1]})
    assert len({row.group for row in page(7, one, other).items}) == 1


def test_charges_of_unused_caps_are_dropped_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallygate.state.informers.consumer_store._MAX_CAPS", 2)
    store = create_store(page(7, pod("u1", 5, "2")))
    references: list[weakref.ref[_CollectableCap]] = []
    for _ in range(3):
        tagged = _CollectableCap()
        references.append(weakref.ref(tagged))
        store.compute_usage(tagged, ["team-a"])
        del tagged
    assert [each() is None for each in references] == [True, False, False]


class _CollectableCap:
    """A cap whose garbage collection can be observed."""

    def compute_charge(self, pod: Pod | None, fingerprint: Fingerprint | None = None) -> Charge:
        """Return the charge of the GPU cap."""
        return GPUS.compute_charge(pod, fingerprint)

    def compute_claim_charge(self, claim: ResourceClaim | None) -> Amounts:
        """Return the charge of the GPU cap."""
        return GPUS.compute_claim_charge(claim)


def test_a_charge_group_has_the_fields_that_caps_need() -> None:
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
def test_the_pod_count_of_each_charge_group_is_correct(steps: list[tuple[int, str, int]]) -> None:
    columns = ConsumerColumns()
    store = PodStore()
    for number, what, gpus in steps:
        uid, namespace = f"u{number}", f"team-{number % 2}"
        if what == "remove":
            columns.remove(uid)
            continue
        status = {"phase": "Failed" if what == "end" else "Running"}
        one = pod(uid, 5, str(gpus), namespace=namespace, status=status)
        body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": [one]}).encode()
        columns.put(store.codec.decode_page(body).items[0])
        for among in (("team-0",), ("team-1",), ("team-0", "team-1", "team-2")):
            assert columns.count_groups(among) == Counter(shape for _, shape in columns.list_groups_by_uid(among))


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_pods_of_a_namespace_are_listed_whatever_the_order_of_their_removal(order: tuple[int, ...]) -> None:
    columns, left = ConsumerColumns(), {f"u{number}" for number in order}
    for uid in sorted(left):
        columns.put(page(7, pod(uid, 5)).items[0])
    for number in order:
        columns.remove(f"u{number}")
        left.remove(f"u{number}")
        assert {each.uid for each in columns.list_all("team-a")} == left


def test_the_slots_of_removed_pods_are_reused() -> None:
    columns = ConsumerColumns()
    for number in range(100):
        columns.put(page(7, pod(f"u{number}", 5)).items[0])
        columns.remove(f"u{number}")
    assert len(columns._uid) == 1  # noqa: SLF001  # visible nowhere else
    assert len(columns) == 0


def test_a_pod_without_a_uid_makes_its_page_invalid() -> None:
    with pytest.raises(ApiError, match="a pod without uid"):
        page(7, pod("", 5))


def test_a_cluster_that_went_back_in_time_replaces_the_store() -> None:
    store = create_store(page(70, pod("u1", 5)), line("DELETED", pod("u1", 71)), page(40, pod("u1", 5)))
    assert store.revision == 40
    assert store.get_deletion_revision("u1") is None
    assert store.find("u1") is not None


def test_tombstones_are_limited_and_state_whether_they_are_complete() -> None:
    deletions = Tombstones(max_size=3)
    for revision in range(1, 6):
        deletions.add(f"u{revision}", revision)
    assert deletions.list_since(2) == (frozenset({"u3", "u4", "u5"}), True)
    assert deletions.list_since(4) == (frozenset({"u5"}), True)
    assert deletions.list_since(1) == (frozenset({"u3", "u4", "u5"}), False)
    deletions.mark_incomplete_until(4)
    assert deletions.list_since(3) == (frozenset({"u4", "u5"}), False)
    assert (deletions.get_revision("u2"), deletions.get_revision("u3")) == (None, 3)


def test_a_listener_gets_the_namespaces_whose_usage_may_have_changed() -> None:
    store = PodStore()
    namespaces: list[str | None] = []
    store.add_listener(namespaces.append)
    store.apply(page(7, pod("u1", 5)))
    store.apply(line("MODIFIED", pod("u1", 8, spec={"nodeName": "n2"})))
    store.apply(Bookmark(9))
    assert namespaces == [None]
    store.apply(line("ADDED", pod("u2", 10, namespace="team-b")))
    store.apply(line("MODIFIED", pod("u2", 11, "3", namespace="team-b")))
    store.apply(line("MODIFIED", pod("u2", 12, "3", namespace="team-b", status={"phase": "Failed"})))
    store.apply(line("DELETED", pod("u2", 13, "3", namespace="team-b", status={"phase": "Failed"})))
    store.apply(line("DELETED", pod("never-seen", 14, namespace="team-c")))
    store.apply(line("DELETED", pod("never-seen", 14, namespace="team-c")))
    assert namespaces[1:] == ["team-b"] * 4 + ["team-c"]


def test_a_watch_line_is_a_changed_or_deleted_event() -> None:
    assert isinstance(line("MODIFIED", pod("u1", 5)), Changed)
    assert isinstance(line("DELETED", pod("u1", 5)), Deleted)


def test_pods_are_counted_in_groups_by_termination_and_usage() -> None:
    terminating = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    store = create_store(
        page(
            7,
            pod("u1", 5, "2"),
            pod("u2", 5, "2"),
            pod("u3", 5, "2", metadata=terminating),
            pod("u4", 5, "2", status={"phase": "Failed"}),
            pod("u5", 5, "2", status={"phase": "Failed"}, metadata=terminating),
            pod("u6", 5, "0"),
            pod("u7", 5, "4", "team-b"),
        )
    )
    groups = list(store.list_groups(cap(GPU), ["team-a", "team-b", "team-c"]))
    assert [(group.namespace, group.is_terminating, group.pod_count, group.used_per_pod[GPU]) for group in groups] == [
        ("team-a", False, 2, 2),
        ("team-a", True, 1, 2),
        ("team-b", False, 1, 4),
    ]
    assert [store.list_pod_names(group, 1) for group in groups] == [["pod-u1"], ["pod-u3"], ["pod-u7"]]
    assert store.list_pod_names(groups[0], 9) == ["pod-u1", "pod-u2"]


def test_a_charge_group_has_the_controller_and_no_other_owner() -> None:
    owners = [
        {"kind": "Thing", "name": "t", "uid": "1"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "2", "controller": True},
    ]
    read = page(7, pod("u1", 5, metadata={"ownerReferences": owners})).items[0].group.to_pod()
    assert read.metadata is not None
    assert read.metadata.owner_references == [
        OwnerReference("ReplicaSet", "web-5d", "2", controller=True, api_version="apps/v1")
    ]
