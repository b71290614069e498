"""The thread that follows: it starts, feeds the view, says how it goes, and stops at once."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import enumerate as threads

import pytest

from tests.kube.kubeconfig import connected
from tests.kube.raw_server import HEAD, RawServer, chunk, raw_server, whole
from tests.kube.scripted_server import listed, thing, told
from webhook.kube.api_errors import ApiErrorReason
from webhook.kube.informer import Informer
from webhook.kube.resource_codec import Changed, WatchEvent
from webhook.objects.core import Namespace
from webhook.state.informers.cluster_informers import ClusterInformers
from webhook.state.informers.named_stores import NAMESPACE_CODEC, NamespaceRecord, NamespaceStore


def until(is_so: Callable[[], bool]) -> None:
    """Wait until it is so, for a while."""
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def following(server: RawServer, folder: Path, view: NamespaceStore) -> Informer[Namespace, NamespaceRecord]:
    """A follower of its namespaces."""
    return Informer(NAMESPACE_CODEC, connected(server, folder), view.apply, view.__len__)


def test_it_feeds_the_view_says_how_it_goes_and_stops_within_a_second(tmp_path: Path) -> None:
    view = NamespaceStore()
    with raw_server([]) as server:
        server.plays = [
            [whole(listed(7, thing("a", 3)).body)],
            [HEAD, chunk(told("ADDED", thing("b", 8))), server.stall],
        ]
        follower = following(server, tmp_path, view)
        assert follower.get_status().stale == "namespaces: not listed yet"
        follower.start()
        until(lambda: view.revision == 8)
        now = follower.get_status()
        assert (now.name, now.objects, now.revision, now.stale, now.lists, now.crash) == (
            "namespaces", 2, 8, None, 1, None,
        )  # fmt: skip
        assert now.age is not None
        assert now.age < 5
        begun = time.monotonic()
        follower.stop()
        assert time.monotonic() - begun < 1
    assert not any(thread.name in ("watch-namespaces", "watch-stream") for thread in threads())


def test_it_stops_at_once_while_it_waits_to_try_again(tmp_path: Path) -> None:
    with raw_server() as server:
        follower = following(server, tmp_path, NamespaceStore())
    follower.start()
    until(lambda: follower.get_status().restarts.get(ApiErrorReason.UNREACHABLE, 0) >= 1)
    stale = follower.get_status().stale
    assert stale is not None
    assert "last trouble (unreachable): the API server cannot be reached" in stale
    begun = time.monotonic()
    follower.stop()
    assert time.monotonic() - begun < 1


def test_it_stops_within_a_second_while_the_server_does_not_answer(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.plays = [[server.stall]] * 3
        watch = ClusterInformers(connected(server, tmp_path))
        watch.start()
        until(lambda: len(server.requests) == 3)
        begun = time.monotonic()
        watch.stop()
        assert time.monotonic() - begun < 1.5
        assert {followed.name for followed in watch.list_statuses()} == {"pods", "namespaces", "nodes"}


def test_a_fault_of_our_own_is_told_and_followed_by_a_new_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.kube.informer._RESTART_DELAY_SECONDS", 0.0)
    view = NamespaceStore()

    def apply(event: WatchEvent[NamespaceRecord]) -> None:
        if isinstance(event, Changed):
            raise ZeroDivisionError("oops")
        view.apply(event)

    with raw_server([]) as server:
        server.plays = [
            [whole(listed(7).body)],
            [HEAD, chunk(told("ADDED", thing("b", 8))), server.stall],
            [whole(listed(9, thing("b", 8)).body)],
            [HEAD, server.stall],
        ]
        follower = Informer(NAMESPACE_CODEC, connected(server, tmp_path), apply, view.__len__)
        follower.start()
        until(lambda: view.revision == 9)
        until(lambda: follower.get_status().lists == 2)
        assert follower.get_status().crash == "ZeroDivisionError: oops"
        follower.stop()
