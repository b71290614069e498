"""The store of ResourceQuotas."""

import json
from typing import Any

import pytest

from tallygate.kube.api_errors import ApiError
from tallygate.kube.resource_codec import Bookmark, Replaced, WatchEvent
from tallygate.objects.core import ResourceQuota
from tallygate.state.informers.named_stores import ObjectRecord
from tallygate.state.informers.namespaced_stores import QUOTA_CODEC, QuotaStore


def item(name: str, revision: int, used: int = 0, namespace: str = "a") -> dict[str, Any]:
    """Return a quota as the API server sends it."""
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": str(revision)}
    more = {"labels": {"a": "b"}, "managedFields": [{"manager": "m"}]}
    return {
        "metadata": meta | more,
        "spec": {"hard": {"pods": "9"}, "scopes": ["NotTerminating"]},
        "status": {"hard": {"pods": "9"}, "used": {"pods": str(used)}},
    }


def event(kind: str, content: dict[str, Any]) -> WatchEvent[ObjectRecord[bytes]]:
    """Return the event of a line of a watch."""
    return QUOTA_CODEC.decode_event(json.dumps({"type": kind, "object": content}).encode())


def create_store(revision: int, *items: dict[str, Any]) -> QuotaStore:
    """Return a store after its first list."""
    store = QuotaStore()
    body = json.dumps({"metadata": {"resourceVersion": str(revision)}, "items": items}).encode()
    store.apply(Replaced(QUOTA_CODEC.decode_page(body).items, revision))
    return store


def count_pods(store: QuotaStore, namespace: str = "a") -> dict[str, int]:
    """Return the number of used pods of each quota in a namespace, by its name."""
    return dict(map(_read_name_and_pods, store.list_quotas(namespace)))


def _read_name_and_pods(quota: ResourceQuota) -> tuple[str, int]:
    assert quota.metadata is not None
    assert quota.metadata.name is not None
    assert quota.status is not None
    assert quota.status.used is not None
    return quota.metadata.name, int(json.loads(bytes(quota.status.used["pods"])))


def test_quotas_are_listed_by_namespace_with_labels_spec_and_status() -> None:
    store = create_store(7, item("q", 3, 4), item("r", 5, 1), item("q", 6, 2, "b"))
    assert (count_pods(store), count_pods(store, "b"), count_pods(store, "c")) == ({"q": 4, "r": 1}, {"q": 2}, {})
    assert (store.revision, len(store)) == (7, 3)
    (quota,) = store.list_quotas("b")
    assert quota.spec is not None
    assert (quota.spec.scopes, quota.metadata and quota.metadata.labels) == (["NotTerminating"], {"a": "b"})


def test_quotas_follow_the_events_and_old_events_are_ignored() -> None:
    store = create_store(7, item("q", 3, 4))
    store.apply(event("MODIFIED", item("q", 9, 5)))
    store.apply(event("MODIFIED", item("q", 8, 1)))
    store.apply(event("ADDED", item("r", 10)))
    assert count_pods(store) == {"q": 5, "r": 0}
    store.apply(event("DELETED", item("q", 11)))
    store.apply(event("DELETED", item("r", 12)))
    store.apply(Bookmark(15))
    assert (count_pods(store), store.revision, len(store)) == ({}, 15, 0)
    store.apply(event("DELETED", item("never", 16, namespace="z")))
    assert store.revision == 16


def test_a_new_list_replaces_all_quotas() -> None:
    store = create_store(7, item("q", 3))
    store.apply(Replaced([], 9))
    assert count_pods(store) == {}


def test_events_before_the_first_list_are_ignored() -> None:
    store = QuotaStore()
    store.apply(event("ADDED", item("q", 3)))
    assert (store.revision, store.list_quotas("a"), len(store)) == (None, (), 0)


@pytest.mark.parametrize("lacking", ["uid", "namespace", "name", "resourceVersion"])
def test_a_quota_without_a_required_field_is_rejected(lacking: str) -> None:
    broken = item("q", 3)
    del broken["metadata"][lacking]
    with pytest.raises(ApiError, match="no event of resourcequotas"):
        event("ADDED", broken)
