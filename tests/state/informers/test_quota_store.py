"""ResourceQuotas as they are now."""

import json
from typing import Any

import pytest

from webhook.kube.api_errors import ApiError
from webhook.kube.resource_codec import Bookmark, Replaced, WatchEvent
from webhook.objects.core import ResourceQuota
from webhook.state.informers.named_stores import QUOTA_CODEC, QuotaRecord, QuotaStore


def item(name: str, revision: int, used: int = 0, namespace: str = "a") -> dict[str, Any]:
    """A quota as the API server sends it."""
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": str(revision)}
    more = {"labels": {"a": "b"}, "managedFields": [{"manager": "m"}]}
    return {
        "metadata": meta | more,
        "spec": {"hard": {"pods": "9"}, "scopes": ["NotTerminating"]},
        "status": {"hard": {"pods": "9"}, "used": {"pods": str(used)}},
    }


def event(kind: str, content: dict[str, Any]) -> WatchEvent[QuotaRecord]:
    """What a line of a watch says."""
    return QUOTA_CODEC.decode_event(json.dumps({"type": kind, "object": content}).encode())


def listed(revision: int, *items: dict[str, Any]) -> QuotaStore:
    """A view after its first list."""
    view = QuotaStore()
    body = json.dumps({"metadata": {"resourceVersion": str(revision)}, "items": items}).encode()
    view.apply(Replaced(QUOTA_CODEC.decode_page(body).items, revision))
    return view


def used(view: QuotaStore, namespace: str = "a") -> dict[str, int]:
    """The pods that each quota of a namespace counts, by its name."""
    return dict(map(_used, view.list_quotas(namespace)))


def _used(quota: ResourceQuota) -> tuple[str, int]:
    assert quota.metadata is not None
    assert quota.metadata.name is not None
    assert quota.status is not None
    assert quota.status.used is not None
    return quota.metadata.name, int(json.loads(bytes(quota.status.used["pods"])))


def test_quotas_are_known_by_namespace_with_what_they_allow_and_what_is_used() -> None:
    view = listed(7, item("q", 3, 4), item("r", 5, 1), item("q", 6, 2, "b"))
    assert (used(view), used(view, "b"), used(view, "c")) == ({"q": 4, "r": 1}, {"q": 2}, {})
    assert (view.revision, len(view)) == (7, 3)
    (quota,) = view.list_quotas("b")
    assert quota.spec is not None
    assert (quota.spec.scopes, quota.metadata and quota.metadata.labels) == (["NotTerminating"], None)


def test_they_follow_the_events_and_old_ones_are_passed_over() -> None:
    view = listed(7, item("q", 3, 4))
    view.apply(event("MODIFIED", item("q", 9, 5)))
    view.apply(event("MODIFIED", item("q", 8, 1)))
    view.apply(event("ADDED", item("r", 10)))
    assert used(view) == {"q": 5, "r": 0}
    view.apply(event("DELETED", item("q", 11)))
    view.apply(event("DELETED", item("r", 12)))
    view.apply(Bookmark(15))
    assert (used(view), view.revision, len(view)) == ({}, 15, 0)
    view.apply(event("DELETED", item("never", 16, namespace="z")))
    assert view.revision == 16


def test_a_new_list_takes_the_place_of_all_that_was_known() -> None:
    view = listed(7, item("q", 3))
    view.apply(Replaced([], 9))
    assert used(view) == {}


def test_before_the_first_list_nothing_is_taken_up() -> None:
    view = QuotaStore()
    view.apply(event("ADDED", item("q", 3)))
    assert (view.revision, view.list_quotas("a"), len(view)) == (None, (), 0)


@pytest.mark.parametrize("lacking", ["uid", "namespace", "name", "resourceVersion"])
def test_what_lacks_what_every_stored_quota_has_is_no_quota(lacking: str) -> None:
    broken = item("q", 3)
    del broken["metadata"][lacking]
    with pytest.raises(ApiError, match="no event of resourcequotas"):
        event("ADDED", broken)
