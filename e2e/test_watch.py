"""Watches of a real API server: changes, restarts, compacted history, rights, and the age of a store."""

import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from e2e.api import api
from e2e.local.cluster import LocalCluster
from e2e.namespaces import label, new_namespace
from e2e.ports import Cluster, NotHereError
from e2e.service_account import as_service_account
from e2e.waiting import until
from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.client import ApiClient
from tallygate.kube.config import load_kubeconfig
from tallygate.kube.informer import InformerStatus
from tallygate.kube.reflector import Reflector, WatchTimeouts
from tallygate.kube.resource_codec import Replaced, WatchEvent, create_response_error, parse_revision
from tallygate.kube.transport import Response, WatchStream
from tallygate.server.controllers.informers import ClusterInformers
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_store import PodStore

_WITHIN = 240.0  # seconds
_AT_ONCE = 20.0  # seconds; a watch lasts for minutes
_IMAGE = "example.com/none:1"


class _Clock:
    """Real time."""

    def now(self) -> float:
        """Return seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@pytest.fixture
def transport(cluster: Cluster) -> Iterator[ApiClient]:
    """Yield the client of the API server, as its administrator."""
    transport = ApiClient(load_kubeconfig(cluster.kubeconfig))
    yield transport
    transport.close()


@pytest.fixture(scope="module")
def watch(cluster: Cluster) -> Iterator[ClusterInformers]:
    """Watch pods, namespaces and nodes while the cases of this module run, with frequent progress requests."""
    watch = ClusterInformers(
        load_kubeconfig(cluster.kubeconfig), WatchTimeouts(progress_interval=1.0, progress_timeout=4.0, short_watch=6.0)
    )
    watch.start()
    until("everything is listed", lambda: all(one.revision is not None for one in watch.list_statuses()), _WITHIN)
    yield watch
    begun = time.monotonic()
    watch.stop()
    assert time.monotonic() - begun < _AT_ONCE


def _beat(cluster: Cluster) -> None:
    """Advance the cluster's revision."""
    beats = {"metadata": {"annotations": {"beat": f"{time.monotonic_ns()}"}}}
    api(cluster.kubeconfig).patch("/api/v1/namespaces/default/serviceaccounts/default", beats)


def _pod(cluster: Cluster, namespace: str, name: str, **labels: str) -> str:
    """Create a pod that nothing schedules, and return its UID."""
    pod = {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "no-scheduler",
            "containers": [
                {"name": "main", "image": _IMAGE, "resources": {"limits": {"example.com/dongle": "3"}}},
            ],
        },
    }
    uid: str = api(cluster.kubeconfig).create(f"/api/v1/namespaces/{namespace}/pods", pod)["metadata"]["uid"]
    return uid


def _delete(cluster: Cluster, namespace: str, name: str) -> None:
    """Delete it at once; no node has run it."""
    api(cluster.kubeconfig).delete(f"/api/v1/namespaces/{namespace}/pods/{name}", gracePeriodSeconds="0")


def _find_status(watch: ClusterInformers, name: str) -> InformerStatus:
    (status,) = (one for one in watch.list_statuses() if one.name == name)
    return status


def test_pods_come_change_and_go(cluster: Cluster, namespace: str, watch: ClusterInformers) -> None:
    uid = _pod(cluster, namespace, "one", tier="batch")
    until("the pod is seen", lambda: watch.state.pods.find(uid) is not None, _WITHIN)
    place = watch.state.pods.find(uid)
    assert place is not None
    assert (place.namespace, place.name, place.node, place.has_ended) == (namespace, "one", "", False)
    shape = place.group.to_pod()
    assert shape.metadata is not None
    assert shape.metadata.labels == {"tier": "batch"}
    labelled = {"metadata": {"labels": {"tier": "web"}}}
    api(cluster.kubeconfig).patch(f"/api/v1/namespaces/{namespace}/pods/one", labelled)
    until("the label is seen", lambda: _labels(watch, uid) == {"tier": "web"}, _WITHIN)
    _delete(cluster, namespace, "one")
    until("the deletion is seen", lambda: watch.state.pods.get_deletion_revision(uid) is not None, _WITHIN)
    assert watch.state.pods.find(uid) is None


def _labels(watch: ClusterInformers, uid: str) -> Mapping[str, str] | None:
    place = watch.state.pods.find(uid)
    meta = place.group.to_pod().metadata if place else None
    return meta.labels if meta else None


def test_a_pod_that_has_ended_is_seen_to_have(cluster: Cluster, namespace: str, watch: ClusterInformers) -> None:
    if not isinstance(cluster, LocalCluster):
        raise NotHereError("pods of an image that there is not end by themselves only where KWOK plays the kubelet")
    spec = {"containers": [{"name": "once", "image": _IMAGE}], "restartPolicy": "Never"}
    job = {"metadata": {"name": "once"}, "spec": {"template": {"spec": spec}}}
    api(cluster.kubeconfig).create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    until(
        "the job's pod ended",
        lambda: [pod.has_ended for pod in watch.state.pods.list_all(namespace)] == [True],
        _WITHIN,
    )
    (place,) = watch.state.pods.list_all(namespace)
    assert place.node


def test_namespaces_come_change_and_go(cluster: Cluster, namespace: str, watch: ClusterInformers) -> None:
    events_: set[str] = set()
    watch.state.namespaces.add_listener(events_.update)
    label(cluster, namespace, {"team": "vision"})
    until(
        "the label is seen", lambda: (watch.state.namespaces.labels(namespace) or {}).get("team") == "vision", _WITHIN
    )
    members = watch.state.namespaces.list_members("vision", lambda _, labels: labels.get("team") == "vision")
    assert members is not None
    assert members.names == {namespace}
    until("it is reported", lambda: namespace in events_, _WITHIN)  # and whatever other cases do to theirs meanwhile
    with new_namespace(cluster) as more:
        until("the new one is seen", lambda: watch.state.namespaces.labels(more) is not None, _WITHIN)
    until("it is deleted", lambda: watch.state.namespaces.labels(more) is None, _WITHIN)


def test_nodes_are_seen_with_what_they_have(cluster: Cluster, watch: ClusterInformers) -> None:
    until("they are seen as they are", lambda: _read_watched_nodes(watch) == _nodes(cluster), _WITHIN)


def _nodes(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return the allocatable resources of every node."""
    items = api(cluster.kubeconfig).items("/api/v1/nodes")
    return {item["metadata"]["name"]: item["status"].get("allocatable", {}) for item in items}


def _read_watched_nodes(watch: ClusterInformers) -> dict[str, dict[str, Any]]:
    """Return the same from the store."""
    return {
        node.metadata.name or "": {
            name: json.loads(bytes(raw)) for name, raw in (node.status.allocatable or {}).items()
        }
        for node in watch.state.nodes.list_nodes()
        if node.metadata and node.status
    }


def test_a_store_without_changes_is_known_to_be_current(cluster: Cluster, watch: ClusterInformers) -> None:
    """Rely on Leases to advance the cluster's revision; only bookmarks advance that of namespaces."""
    before = _find_status(watch, "namespaces")
    ages: list[float] = []

    def is_known_twice() -> bool:
        now = _find_status(watch, "namespaces")
        assert now.stale is None
        assert now.age is not None
        ages.append(now.age)
        _beat(cluster)
        return sum(later < age for age, later in pairwise(ages)) == 2

    # A question is in doubt after 4 s, and the short watch that follows gets its bookmark 4 s later. It is due two
    # seconds before the end and may be as late, so now and then one is missed and the next one has to do.
    until("it is known twice to be current", is_known_twice, _WITHIN)
    now = _find_status(watch, "namespaces")
    new = {reason: count - before.restarts.get(reason, 0) for reason, count in now.restarts.items()}
    assert {reason for reason, count in new.items() if count} <= {ApiErrorReason.SILENT, ApiErrorReason.ENDED}
    assert now.lists == before.lists


def test_a_short_watch_gets_a_bookmark_before_its_end_that_says_all(cluster: Cluster, transport: ApiClient) -> None:
    path = "/api/v1/persistentvolumes"  # there are none
    before = _revision(transport.get(path, {"limit": "1"}))
    _beat(cluster)
    now = _revision(transport.get(path, {"limit": "1"}))
    assert now > before
    query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": str(before), "timeoutSeconds": "5"}
    lines = next(filter(None, (_lines(transport.watch(path, query)) for _ in range(20))))  # one may come too late
    assert {line["type"] for line in lines} == {"BOOKMARK"}
    assert int(lines[-1]["object"]["metadata"]["resourceVersion"]) >= now


def _revision(answer: Response) -> int:
    assert answer.status == 200
    return parse_revision(json.loads(answer.body)["metadata"]["resourceVersion"])


def _lines(stream: WatchStream | Response) -> list[dict[str, Any]]:
    assert not isinstance(stream, Response)
    content = b""
    while (chunk := stream.read(20)) != b"":
        assert chunk is not None
        content += chunk
    stream.close()
    return [json.loads(line) for line in content.splitlines()]


def test_the_watch_goes_on_after_a_restart_of_the_api_server(
    cluster: Cluster, namespace: str, watch: ClusterInformers
) -> None:
    before = _pod(cluster, namespace, "before")
    until("the pod is seen", lambda: watch.state.pods.find(before) is not None, _WITHIN)
    cluster.restart_api_server()
    after = _pod(cluster, namespace, "after")
    until("what came after is seen", lambda: watch.state.pods.find(after) is not None, 2 * _WITHIN)
    assert watch.state.pods.find(before) is not None
    until("the view is current", lambda: (_find_status(watch, "pods").age or 99.0) < 5, 2 * _WITHIN)
    assert sum(_find_status(watch, "pods").restarts.values()) > 0
    assert {one.crash for one in watch.list_statuses()} == {None}


def test_a_pod_deleted_in_a_gap_is_absent_and_has_no_deletion_revision(
    cluster: Cluster, namespace: str, transport: ApiClient
) -> None:
    deleted, stays = _pod(cluster, namespace, "deleted"), _pod(cluster, namespace, "stays")
    view = PodStore()
    reflector = Reflector(view.codec, transport, _Clock(), lambda: 0.0)
    events = reflector.events()
    _next(events, view)
    assert view.find(deleted) is not None
    _delete(cluster, namespace, "deleted")
    _forget_history(cluster)
    events_ = _next(events, view)
    events.close()
    assert isinstance(events_, Replaced)
    assert reflector.get_status().restarts.get(ApiErrorReason.EXPIRED) == 1
    assert (view.find(deleted), view.get_deletion_revision(deleted)) == (None, None)
    assert view.find(stays) is not None
    assert not view.list_deleted_since(0).is_complete


def _next(events: Generator[WatchEvent[PodRecord] | None], view: PodStore) -> WatchEvent[PodRecord]:
    """Apply the next event."""
    event = next(event for event in events if event is not None)
    view.apply(event)
    return event


class _Meddling:
    """A transport with pages of one pod; something happens before the second page."""

    def __init__(self, transport: ApiClient, happens: Callable[[], None]) -> None:
        self._transport = transport
        self._happens: Callable[[], None] | None = happens
        self.pages: list[Response] = []

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """Return a page."""
        if self._happens is None:
            return self._transport.get(path, query)
        if "continue" in query:
            happens, self._happens = self._happens, None
            happens()
        self.pages.append(self._transport.get(path, {**query, "limit": "1"}))
        return self.pages[-1]

    def watch(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """Return a watch."""
        return self._transport.watch(path, query)


def test_a_list_with_an_expired_continuation_begins_again(
    cluster: Cluster, namespace: str, transport: ApiClient
) -> None:
    uids = {_pod(cluster, namespace, f"pod-{number}") for number in range(3)}
    meddling = _Meddling(transport, lambda: _forget_history(cluster))
    view = PodStore()
    reflector = Reflector(view.codec, meddling, _Clock(), lambda: 0.0)
    events = reflector.events()
    _next(events, view)
    events.close()
    first, deleted = meddling.pages
    assert (first.status, deleted.status, create_response_error(deleted).reason) == (200, 410, ApiErrorReason.EXPIRED)
    assert json.loads(deleted.body)["metadata"]["continue"], "the server offers to go on inconsistently"
    assert reflector.get_status().restarts == {ApiErrorReason.EXPIRED: 1}
    assert {place.uid for place in view.list_all(namespace)} == uids


def _forget_history(cluster: Cluster) -> None:
    """Compact etcd at its revision, and restart the API server, whose caches remember longer than that."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("etcd is out of reach here")
    _beat(cluster)
    (etcd,) = (component for component in cluster.components if component.name == "etcd")
    arguments = Path(f"/proc/{etcd.pid}/cmdline").read_text().split("\0")
    (url,) = (each.partition("=")[2] for each in arguments if each.startswith("--listen-client-urls="))
    listed = api(cluster.kubeconfig).get("/api/v1/namespaces/default/pods", limit="1")
    body = json.dumps({"revision": listed["metadata"]["resourceVersion"], "physical": True}).encode()
    request = Request(f"{url}/v3/kv/compaction", body, {"Content-Type": "application/json"})  # noqa: S310  # our own etcd
    with build_opener(ProxyHandler({})).open(request, timeout=_WITHIN) as answer:
        assert answer.status == 200
    cluster.restart_api_server()


def test_a_forbidden_list_is_reported_in_the_servers_words(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    watch = ClusterInformers(
        load_kubeconfig(as_service_account(cluster, namespace, "default", tmp_path / "kubeconfig"))
    )
    watch.start()
    until("it was refused", lambda: bool(_find_status(watch, "pods").restarts.get(ApiErrorReason.FORBIDDEN)), _WITHIN)
    stale = _find_status(watch, "pods").stale
    watch.stop()
    assert stale is not None
    assert stale.startswith(
        "pods: not listed yet; last trouble (forbidden): the API server says 403: pods is forbidden"
    )
    assert f'User "system:serviceaccount:{namespace}:default" cannot list resource "pods"' in stale


def test_a_proxy_in_the_environment_does_not_stand_before_this_machine(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "HTTPS_PROXY", "http://127.0.0.1:1")
    assert ApiClient(load_kubeconfig(cluster.kubeconfig)).get("/readyz", {}).body == b"ok"
