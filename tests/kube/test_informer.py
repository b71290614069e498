"""The thread of an informer: it starts, fills the store, reports its status, and stops at once."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import enumerate as threads

import pytest

from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.informer import Informer
from tallygate.kube.resource_codec import Changed, WatchEvent
from tallygate.objects.core import Namespace
from tallygate.server.controllers.informers import ClusterInformers
from tallygate.state.informers.named_stores import NAMESPACE_CODEC, NamespaceRecord, NamespaceStore
from tests.kube.kubeconfig import load_config
from tests.kube.raw_server import HEAD, RawServer, chunk, full_response, raw_server
from tests.kube.scripted_server import event_line, list_page, thing


def wait_until(is_met: Callable[[], bool]) -> None:
    """Wait until a condition is met, for 10 s at most."""
    deadline = time.monotonic() + 10
    while not is_met():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def create_informer(server: RawServer, folder: Path, store: NamespaceStore) -> Informer[Namespace, NamespaceRecord]:
    """Return an informer of the namespaces of a server."""
    return Informer(NAMESPACE_CODEC, load_config(server, folder), store.apply, store.__len__)


def test_an_informer_fills_the_store_reports_its_status_and_stops_within_a_second(tmp_path: Path) -> None:
    store = NamespaceStore()
    with raw_server([]) as server:
        server.responses = [
            [full_response(list_page(7, thing("a", 3)).body)],
            [HEAD, chunk(event_line("ADDED", thing("b", 8)) + event_line("MODIFIED", thing("a", 9))), server.stall],
        ]
        informer = create_informer(server, tmp_path, store)
        assert informer.get_status().stale == "namespaces: not listed yet"
        informer.start()
        wait_until(lambda: store.revision == 9)
        status = informer.get_status()
        assert (status.name, status.objects, status.revision, status.stale, status.lists, status.crash) == (
            "namespaces", 2, 9, None, 1, None,
        )  # fmt: skip
        assert status.added == 1
        assert status.age is not None
        assert status.age < 5
        started_at = time.monotonic()
        informer.stop()
        assert time.monotonic() - started_at < 1
    assert not any(thread.name in ("watch-namespaces", "watch-stream") for thread in threads())


def test_an_informer_stops_at_once_while_it_waits_for_a_retry(tmp_path: Path) -> None:
    with raw_server() as server:
        informer = create_informer(server, tmp_path, NamespaceStore())
    informer.start()
    wait_until(lambda: informer.get_status().restarts.get(ApiErrorReason.UNREACHABLE, 0) >= 1)
    stale = informer.get_status().stale
    assert stale is not None
    assert "last trouble (unreachable): the API server cannot be reached" in stale
    started_at = time.monotonic()
    informer.stop()
    assert time.monotonic() - started_at < 1


def test_informers_stop_within_a_second_while_the_server_does_not_answer(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.responses = [[server.stall]] * 9
        informers = ClusterInformers(load_config(server, tmp_path))
        informers.start()
        wait_until(lambda: len(server.requests) == 9)
        started_at = time.monotonic()
        informers.stop()
        assert time.monotonic() - started_at < 1.5
        names = {status.name for status in informers.list_statuses()}
        devices = {"deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"}
        assert names == {"namespaces", "nodes", "pods", "nodeclaims", "nodepools"} | devices


def test_an_internal_error_is_reported_and_followed_by_a_new_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallygate.kube.informer._RESTART_DELAY_SECONDS", 0.0)
    store = NamespaceStore()

    def apply(event: WatchEvent[NamespaceRecord]) -> None:
        if isinstance(event, Changed):
            raise ZeroDivisionError("oops")
        store.apply(event)

    with raw_server([]) as server:
        server.responses = [
            [full_response(list_page(7).body)],
            [HEAD, chunk(event_line("ADDED", thing("b", 8))), server.stall],
            [full_response(list_page(9, thing("b", 8)).body)],
            [HEAD, server.stall],
        ]
        informer = Informer(NAMESPACE_CODEC, load_config(server, tmp_path), apply, store.__len__)
        informer.start()
        wait_until(lambda: store.revision == 9)
        wait_until(lambda: informer.get_status().lists == 2)
        assert informer.get_status().crash == "ZeroDivisionError: oops"
        informer.stop()
