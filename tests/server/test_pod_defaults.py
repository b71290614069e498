"""LimitRanges and PriorityClasses of a cluster: known while they are watched; the log reports if not."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tallygate.cluster import kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.kube.client import ClientConfig
from tallygate.kube.informer import Informer
from tallygate.server.controllers.informers import InformerPodDefaults
from tests.kube.kubeconfig import load_config
from tests.kube.raw_server import RawServer
from tests.kube.test_informer import wait_until
from tests.server.app_harness import Log

LIMIT_RANGES, PRIORITY_CLASSES = "/api/v1/limitranges", "/apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
LIMIT_RANGE = {
    "metadata": {"name": "usual", "namespace": "a", "uid": "u", "resourceVersion": "3"},
    "spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]},
}
STANDARD = {"metadata": {"name": "std", "uid": "v", "resourceVersion": "4"}, "value": 5, "globalDefault": True}
KATA = {"metadata": {"name": "kata", "uid": "w", "resourceVersion": "5"}, "overhead": {"podFixed": {"cpu": "250m"}}}
LISTS = {LIMIT_RANGES: [LIMIT_RANGE], PRIORITY_CLASSES: [STANDARD], RUNTIME_CLASSES: [KATA]}


@contextmanager
def run_api_server(lists: dict[str, list[dict[str, Any]]], folder: Path) -> Iterator[ClientConfig]:
    """Run a server that sends these lists by their paths; watches send nothing, and other paths are forbidden."""
    ended = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if "watch=" in query:
                ended.wait(30)
                return
            items = lists.get(path)
            body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": items, "code": 403}).encode()
            self.send_response(403 if items is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield load_config(RawServer([], port=server.server_address[1]), folder)
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def watch_defaults(config: ClientConfig, log: Log) -> Iterator[tuple[InformerPodDefaults, list[Informer[Any, Any]]]]:
    """Yield the defaults of a cluster with their watches, which a test starts."""
    state, watches = ClusterState(), dict[str, Informer[Any, Any]]()
    for resource in (kinds.LIMIT_RANGES, kinds.PRIORITY_CLASSES, kinds.RUNTIME_CLASSES):
        store = state.get_store(resource)
        watches[resource] = Informer(state.get_codec(resource), config, store.apply, store.__len__)
    try:
        defaults = InformerPodDefaults(lambda name: watches[name].get_status(), log.logger, state.pod_defaults)
        yield defaults, list(watches.values())
    finally:
        for watch in watches.values():
            watch.stop()


def test_defaults_are_known_while_they_are_watched_and_nothing_is_known_before(tmp_path: Path) -> None:
    log = Log("info")
    with run_api_server(LISTS, tmp_path) as config, watch_defaults(config, log) as (defaults, watches):
        before = defaults.find_pod_defaults("a")
        assert (before.has_limit_ranges, before.has_priority_classes, any(before.containers)) == (False, False, False)
        assert not before.has_runtime_classes
        for watch in watches:
            watch.start()
        wait_until(lambda: all(watch.get_status().revision == 7 for watch in watches))
        found = defaults.find_pod_defaults("a")
        assert (found.has_limit_ranges, found.priority_class) == (True, "std")
        assert found.containers.limits.keys() == {"memory"}
        assert found.runtime_classes.keys() == {"kata"}
        assert found.has_runtime_classes
        assert not any(defaults.find_pod_defaults("b").containers)
    assert [(line["level"], line["event"]) for line in log.lines] == [
        ("warning", "pod-defaults-not-evaluated"),
        ("info", "pod-defaults-evaluated"),
    ]


@pytest.mark.parametrize("allowed", [LIMIT_RANGES, PRIORITY_CLASSES, RUNTIME_CLASSES])
def test_a_kind_that_may_not_be_listed_leaves_the_others_known(tmp_path: Path, allowed: str) -> None:
    log = Log("info")
    lists = {allowed: LISTS[allowed]}
    with run_api_server(lists, tmp_path) as config, watch_defaults(config, log) as (defaults, watches):
        for watch in watches:
            watch.start()
        wait_until(lambda: any(watch.get_status().revision == 7 for watch in watches))
        found = defaults.find_pod_defaults("a")
        assert (found.has_limit_ranges, found.has_priority_classes, found.has_runtime_classes) == (
            allowed == LIMIT_RANGES,
            allowed == PRIORITY_CLASSES,
            allowed == RUNTIME_CLASSES,
        )
    assert [line["event"] for line in log.lines] == ["pod-defaults-not-evaluated"]
