"""Lists and watches as bytes on a real connection: cut, split, stalled, reset."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Timer

import pytest

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import LIST_LIMITS, ApiClient
from tallygate.kube.reflector import Reflector
from tallygate.kube.resource_codec import Bookmark, Changed, Replaced, WatchEvent
from tallygate.kube.transport import Response
from tests.kube.kubeconfig import load_config
from tests.kube.raw_server import END, HEAD, Part, chunk, full_response, raw_server, reset
from tests.kube.scripted_server import THINGS, Thing, bookmark, event_line, list_page, record, thing

LIST = [full_response(list_page(7, thing("a", 3)).body)]
LINE = json.dumps({"type": "ADDED", "object": thing("ä-\N{BANANA}", 8)}, ensure_ascii=False).encode() + b"\n"
SHORT_TIMEOUT = LIST_LIMITS._replace(silence=0.05)
NEXT_WATCH = [HEAD, chunk(event_line("ADDED", thing("z", 9))), END]

# After this response the connection ends, and the client knows that before its next request.
LAST_HEAD = HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


class RealClock:
    """A clock of real time that counts sleeps without sleeping."""

    def __init__(self) -> None:
        self.sleeps = 0

    def now(self) -> float:
        """Return the seconds of the monotonic clock."""
        return time.monotonic()

    def sleep(self, _: float) -> None:
        """Count the sleep and return at once."""
        self.sleeps += 1


def collect_events(
    folder: Path, responses: Sequence[Sequence[Part]], events: int
) -> tuple[list[object], dict[ApiErrorReason, int]]:
    """Return the first events of a reflector on these responses, and its restarts by reason."""
    with raw_server(*responses) as server:
        reflector = Reflector(THINGS, ApiClient(load_config(server, folder)), RealClock(), lambda: 0.0)
        run = reflector.events()
        received: list[WatchEvent[Thing]] = []
        while len(received) < events:
            event = next(run)
            if event is not None:
                received.append(event)
        run.close()
    return list(received), dict(reflector.get_status().restarts)


def test_a_list_and_a_watch_are_read_as_they_were_sent(tmp_path: Path) -> None:
    with raw_server(LIST, [HEAD, chunk(LINE), chunk(bookmark(20)), END]) as server:
        reflector = Reflector(THINGS, ApiClient(load_config(server, tmp_path)), RealClock(), lambda: 0.0)
        run = reflector.events()
        received = [event for event in (next(run) for _ in range(3)) if event is not None]
        run.close()
    assert (
        received
        == [Replaced([record("a", 3)], 7), Changed(record("ä-\N{BANANA}", 8), 8, is_new=True), Bookmark(20)][
            : len(received)
        ]
    )
    assert server.requests[0].startswith(b"GET /api/v1/things?limit=500 HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer t0ken\r\n" in server.requests[0]
    assert b"watch=1&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=240" in server.requests[1]


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_a_chunk_may_end_inside_a_character(tmp_path: Path, size: int) -> None:
    pieces = [chunk(LINE[start : start + size]) for start in range(0, len(LINE), size)]
    received, _ = collect_events(tmp_path, [LIST, [HEAD, *pieces, END], [HEAD]], 2)
    assert received[1] == Changed(record("ä-\N{BANANA}", 8), 8, is_new=True)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([LAST_HEAD, chunk(LINE), chunk(LINE[:20]), END], ApiErrorReason.TRUNCATED),
        ([HEAD, chunk(LINE), chunk(LINE[:20])], ApiErrorReason.RESET),
        ([HEAD, chunk(LINE), chunk(LINE)[:20]], ApiErrorReason.RESET),
        ([HEAD, chunk(LINE), b"zz\r\n"], ApiErrorReason.RESET),
        ([HEAD, chunk(LINE), b"f" * 70_000], ApiErrorReason.RESET),
    ],
)
def test_a_cut_watch_continues_after_its_last_complete_event(
    tmp_path: Path, broken: Sequence[Part], reason: ApiErrorReason
) -> None:
    received, restarts = collect_events(tmp_path, [LIST, broken, NEXT_WATCH], 3)
    assert received[1:] == [Changed(record("ä-\N{BANANA}", 8), 8, is_new=True), Changed(record("z", 9), 9, is_new=True)]
    assert restarts == {reason: 1}


def test_a_reset_watch_is_restarted(tmp_path: Path) -> None:
    received, restarts = collect_events(tmp_path, [LIST, [HEAD, reset], NEXT_WATCH], 2)
    assert received[1] == Changed(record("z", 9), 9, is_new=True)
    assert restarts == {ApiErrorReason.RESET: 1}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([reset], ApiErrorReason.RESET),
        ([], ApiErrorReason.RESET),
        ([b"\x00\x01\x02\r\n\r\n"], ApiErrorReason.RESET),
        ([full_response(LIST[0])[:-30]], ApiErrorReason.RESET),
        (
            [LAST_HEAD, chunk(b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata'), END],
            ApiErrorReason.UNREADABLE,
        ),
        (
            [full_response(b'{"message":"not now"}', "503 Service Unavailable", "Retry-After: 1\r\n")],
            ApiErrorReason.SERVER_ERROR,
        ),
        ([full_response(b"", "302 Found", "Location: http://127.0.0.1:1/\r\n")], ApiErrorReason.REFUSED),
    ],
)
def test_a_broken_list_is_requested_again(tmp_path: Path, broken: Sequence[Part], reason: ApiErrorReason) -> None:
    received, restarts = collect_events(tmp_path, [broken, LIST], 1)
    assert received == [Replaced([record("a", 3)], 7)]
    assert restarts == {reason: 1}


def test_a_response_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with raw_server([full_response(b"x" * 1001)], [full_response(b"x" * 1000)]) as server:
        client = ApiClient(load_config(server, tmp_path), LIST_LIMITS._replace(max_bytes=1000))
        with pytest.raises(ApiError, match="more than 1000 bytes"):
            client.get("/api/v1/things", {})
        assert client.get("/api/v1/things", {}) == Response(200, b"x" * 1000)


def test_a_request_without_a_response_times_out(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.responses = [[server.stall]]
        with pytest.raises(ApiError) as caught:
            ApiClient(load_config(server, tmp_path), SHORT_TIMEOUT).get("/api/v1/things", {})
    assert caught.value.reason is ApiErrorReason.TIMEOUT


def test_a_watch_without_a_response_times_out(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.responses = [[server.stall]]
        with pytest.raises(ApiError) as caught:
            ApiClient(load_config(server, tmp_path), SHORT_TIMEOUT).watch("/api/v1/things", {"timeoutSeconds": "300"})
    assert caught.value.reason is ApiErrorReason.TIMEOUT


def test_a_started_watch_may_be_silent_for_longer_than_the_timeout(tmp_path: Path) -> None:
    resume = Event()
    limits = LIST_LIMITS._replace(silence=1.0)  # also for the head of the response
    with raw_server([HEAD, lambda _: resume.wait(10), chunk(LINE), END]) as server:
        stream = ApiClient(load_config(server, tmp_path), limits).watch("/api/v1/things", {"timeoutSeconds": "300"})
        assert not isinstance(stream, Response)
        assert stream.read(1.5) is None
        resume.set()
        assert stream.read(10) == LINE
        assert stream.read(10) == b""
        stream.close()


def test_a_dripping_response_times_out(tmp_path: Path) -> None:
    with raw_server([full_response(b"x" * 10)]) as server, pytest.raises(ApiError) as caught:
        ApiClient(load_config(server, tmp_path), LIST_LIMITS._replace(total=-1.0)).get("/api/v1/things", {})
    assert caught.value.reason is ApiErrorReason.TIMEOUT


def test_an_unreachable_server_is_reported_as_unreachable(tmp_path: Path) -> None:
    with raw_server() as server:
        connection = load_config(server, tmp_path)
    with pytest.raises(ApiError, match="cannot be reached") as caught:
        ApiClient(connection).get("/api/v1/things", {})
    assert caught.value.reason is ApiErrorReason.UNREACHABLE


def test_a_silent_stream_returns_none_and_closes_at_once(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.responses = [[HEAD, chunk(LINE), server.stall]]
        stream = ApiClient(load_config(server, tmp_path)).watch("/api/v1/things", {"timeoutSeconds": "300"})
        assert not isinstance(stream, Response)
        assert stream.read(5) == LINE
        assert stream.read(0.01) is None
        started_at = time.monotonic()
        stream.close()
        stream.close()
        assert time.monotonic() - started_at < 0.5


def test_closing_the_client_interrupts_a_running_request(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.responses = [[HEAD, chunk(b"x"), server.stall]] * 2
        client = ApiClient(load_config(server, tmp_path))
        Timer(0.1, client.close).start()
        started_at = time.monotonic()
        with pytest.raises(ApiError):
            client.get("/api/v1/things", {})
        assert time.monotonic() - started_at < 2
        with pytest.raises(ApiError, match="closed"):
            client.get("/api/v1/things", {})
