"""Word of a change: it comes at once, from each of the three objects, and nothing hangs on it for good."""

import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from certs import secret_store
from certs.cluster_access import create_client
from certs.secret_store import CertificateWatch
from tests.certs.api_server import Api, serving
from tests.server.process import eventually
from webhook.kube.config import load_kubeconfig

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/"
SECRET = "/api/v1/namespaces/own/secrets/tls"  # noqa: S105  a path
MUTATING = f"{_CONFIGURATIONS}mutatingwebhookconfigurations/tallygate"
VALIDATING = f"{_CONFIGURATIONS}validatingwebhookconfigurations/tallygate"
MOST = 4 << 20  # bytes
ALL = (SECRET, MUTATING, VALIDATING)


@contextmanager
def _watching(path: Path, changed: Callable[[], None]) -> Iterator[CertificateWatch]:
    made = CertificateWatch(create_client(load_kubeconfig(path)), ("own", "tls"), "tallygate", changed)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def _is_watched(api: Api) -> bool:
    return all(api.watchers[path] == 1 for path in ALL)


@pytest.mark.parametrize("path", ALL)
def test_what_comes_changes_and_goes_is_told(tmp_path: Path, path: str) -> None:
    api, changed = Api(), Event()
    with serving(api, tmp_path) as kubeconfig, _watching(kubeconfig, changed.set):
        assert eventually(lambda: _is_watched(api))
        assert not changed.is_set()  # there is nothing yet
        for version in ("1", "2", None):
            with api.news:
                if version:
                    api.objects[path] = {"metadata": {"resourceVersion": version}}
                else:
                    del api.objects[path]
            api.tell()
            assert changed.wait(10)
            changed.clear()


def test_a_refusal_is_told_and_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_store, "_RETRY_DELAY_SECONDS", 0.01)
    api = Api(refusal=(403, b'{"message": "gate may not"}'))
    with serving(api, tmp_path) as kubeconfig, _watching(kubeconfig, lambda: None) as watched:
        assert eventually(lambda: "403: gate may not" in watched.failure)
        assert watched.failure.startswith("cannot watch the ")
        api.refusal = None
        assert eventually(lambda: _is_watched(api) and watched.failure == "")


def test_a_watch_that_ends_is_begun_again_and_told_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_store, "_RESTART_DELAY_SECONDS", 0.01)
    api, changed = Api({SECRET: {"metadata": {"resourceVersion": "1"}}}), Event()
    with serving(api, tmp_path) as kubeconfig, _watching(kubeconfig, changed.set) as watched:
        assert changed.wait(10)
        api.end()
        assert eventually(lambda: not any(api.watchers.values()))
        changed.clear()
        api.is_over = False
        assert changed.wait(10)
        assert eventually(lambda: _is_watched(api))
        assert watched.failure == ""


class RecordedEvent(Event):
    """An event that records how long its waits may last."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Wait."""
        self.waits.append(timeout)
        return super().wait(timeout)


@dataclass(frozen=True)
class End:
    """The end of a watch, and the seconds before the next one, more or less."""

    seconds: float
    refusal: tuple[int, bytes] | None = None
    is_reachable: bool = True


ENDS = {
    "the API server ends the watch": End(1.0),
    "the API server refuses the watch": End(10.0, refusal=(403, b"{}")),
    "the API server is not reachable": End(10.0, is_reachable=False),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize(("bound", "factor"), [(min, 0.8), (max, 1.2)])
def test_after_a_watch_a_thread_rests_for_a_second_and_after_a_failure_for_ten_more_or_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, bound: Callable[[float, float], float], factor: float
) -> None:
    """Else it asks without a pause, and the replicas that began together ask together each time."""
    end, stops = ENDS[name], list[RecordedEvent]()

    def new_event() -> RecordedEvent:
        stops.append(RecordedEvent())
        return stops[-1]

    monkeypatch.setattr(secret_store, "Event", new_event)
    monkeypatch.setattr(random, "uniform", bound)
    with ExitStack() as server:
        kubeconfig = server.enter_context(serving(Api(is_over=True, refusal=end.refusal), tmp_path))
        if not end.is_reachable:
            server.close()
        with _watching(kubeconfig, lambda: None):
            (stop,) = stops
            assert eventually(lambda: len(stop.waits) >= len(ALL))
    assert stop.waits == [pytest.approx(end.seconds * factor)] * len(stop.waits)


def test_who_is_no_api_server_is_told_in_a_sentence(tmp_path: Path) -> None:
    with serving(Api(), tmp_path) as kubeconfig:
        pass
    with _watching(kubeconfig, lambda: None) as watched:
        assert eventually(lambda: "cannot be reached" in watched.failure)


def test_the_end_breaks_off_what_is_silent(tmp_path: Path) -> None:
    api = Api()
    with serving(api, tmp_path) as kubeconfig:
        with _watching(kubeconfig, lambda: None) as watched:
            assert eventually(lambda: _is_watched(api))
        assert not any(thread.is_alive() for thread in watched._threads)  # noqa: SLF001  what it promises
        assert watched.failure == ""


def test_an_event_without_an_end_is_told_and_kept_nowhere(tmp_path: Path) -> None:
    api, changed = Api(flood=b"x" * (1 << 16)), Event()
    with serving(api, tmp_path) as kubeconfig, _watching(kubeconfig, changed.set) as watched:
        assert changed.wait(10)
        tracemalloc.start()
        try:
            begun = api.flooded
            assert eventually(lambda: api.flooded > begun + 16 * MOST)
            assert tracemalloc.get_traced_memory()[1] < MOST
        finally:
            tracemalloc.stop()
        assert watched.failure == ""
