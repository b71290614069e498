"""Certificate watches: three objects are watched, changes are reported at once, and watches are restarted."""

import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from tallygate.kube.config import load_kubeconfig
from tallygate_certs import secret_store
from tallygate_certs.cluster_access import create_client
from tallygate_certs.secret_store import CertificateWatch
from tests.certs.api_server import CertificateApiServer, run_api_server
from tests.server.process import eventually

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/"
SECRET = "/api/v1/namespaces/own/secrets/tls"  # noqa: S105  a path
MUTATING = f"{_CONFIGURATIONS}mutatingwebhookconfigurations/tallygate"
VALIDATING = f"{_CONFIGURATIONS}validatingwebhookconfigurations/tallygate"
MAX_BYTES = 4 << 20  # bytes
ALL = (SECRET, MUTATING, VALIDATING)


@contextmanager
def _run_watch(path: Path, notify: Callable[[], None]) -> Iterator[CertificateWatch]:
    made = CertificateWatch(create_client(load_kubeconfig(path)), ("own", "tls"), "tallygate", notify)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def _is_watched(api: CertificateApiServer) -> bool:
    return all(api.watchers[path] == 1 for path in ALL)


@pytest.mark.parametrize("path", ALL)
def test_the_watch_reports_creations_changes_and_deletions(tmp_path: Path, path: str) -> None:
    api, changed = CertificateApiServer(), Event()
    with run_api_server(api, tmp_path) as kubeconfig, _run_watch(kubeconfig, changed.set):
        assert eventually(lambda: _is_watched(api))
        assert not changed.is_set()  # no object exists yet
        for version in ("1", "2", None):
            with api.condition:
                if version:
                    api.objects[path] = {"metadata": {"resourceVersion": version}}
                else:
                    del api.objects[path]
            api.notify_watchers()
            assert changed.wait(60)
            changed.clear()


def test_a_rejected_watch_is_reported_and_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_store, "_RETRY_DELAY_SECONDS", 0.01)
    api = CertificateApiServer(fixed_response=(403, b'{"message": "gate may not"}'))
    with run_api_server(api, tmp_path) as kubeconfig, _run_watch(kubeconfig, lambda: None) as watched:
        assert eventually(lambda: "403: gate may not" in watched.failure)
        assert watched.failure.startswith("cannot watch the ")
        api.fixed_response = None
        assert eventually(lambda: _is_watched(api) and watched.failure == "")


def test_a_watch_that_ends_is_restarted_and_reports_the_current_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_store, "_RESTART_DELAY_SECONDS", 0.01)
    api, changed = CertificateApiServer({SECRET: {"metadata": {"resourceVersion": "1"}}}), Event()
    with run_api_server(api, tmp_path) as kubeconfig, _run_watch(kubeconfig, changed.set) as watched:
        assert changed.wait(60)
        api.stop_watches()
        assert eventually(lambda: not any(api.watchers.values()))
        changed.clear()
        api.is_stopped = False
        assert changed.wait(60)
        assert eventually(lambda: _is_watched(api))
        assert watched.failure == ""


class RecordedEvent(Event):
    """An event that records the timeouts of its waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Record the timeout, then wait."""
        self.waits.append(timeout)
        return super().wait(timeout)


@dataclass(frozen=True)
class End:
    """The end of a watch, and the mean seconds before the next one."""

    seconds: float
    response: tuple[int, bytes] | None = None
    is_reachable: bool = True


ENDS = {
    "the API server ends the watch": End(1.0),
    "the API server rejects the watch": End(10.0, response=(403, b"{}")),
    "the API server is not reachable": End(10.0, is_reachable=False),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize(("bound", "factor"), [(min, 0.8), (max, 1.2)])
def test_a_thread_waits_about_a_second_after_a_watch_and_about_ten_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, bound: Callable[[float, float], float], factor: float
) -> None:
    """Vary the delay, since replicas that started together would otherwise always send their requests together."""
    end, stops = ENDS[name], list[RecordedEvent]()

    def new_event() -> RecordedEvent:
        stops.append(RecordedEvent())
        return stops[-1]

    monkeypatch.setattr(secret_store, "Event", new_event)
    monkeypatch.setattr(random, "uniform", bound)
    with ExitStack() as server:
        kubeconfig = server.enter_context(
            run_api_server(CertificateApiServer(is_stopped=True, fixed_response=end.response), tmp_path)
        )
        if not end.is_reachable:
            server.close()
        with _run_watch(kubeconfig, lambda: None):
            (stop,) = stops
            assert eventually(lambda: len(stop.waits) >= len(ALL))
    assert stop.waits == [pytest.approx(end.seconds * factor)] * len(stop.waits)


def test_an_unreachable_api_server_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with run_api_server(CertificateApiServer(), tmp_path) as kubeconfig:
        pass
    with _run_watch(kubeconfig, lambda: None) as watched:
        assert eventually(lambda: "cannot be reached" in watched.failure)


def test_stopping_ends_silent_watches(tmp_path: Path) -> None:
    api = CertificateApiServer()
    with run_api_server(api, tmp_path) as kubeconfig:
        with _run_watch(kubeconfig, lambda: None) as watched:
            assert eventually(lambda: _is_watched(api))
        assert not any(thread.is_alive() for thread in watched._threads)  # noqa: SLF001  no thread may be left
        assert watched.failure == ""


def test_an_endless_event_is_reported_and_not_stored(tmp_path: Path) -> None:
    api, changed = CertificateApiServer(endless_body=b"x" * (1 << 16)), Event()
    with run_api_server(api, tmp_path) as kubeconfig, _run_watch(kubeconfig, changed.set) as watched:
        assert changed.wait(60)
        tracemalloc.start()
        try:
            before = api.endless_bytes_sent
            assert eventually(lambda: api.endless_bytes_sent > before + 16 * MAX_BYTES)
            assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
        finally:
            tracemalloc.stop()
        assert watched.failure == ""
