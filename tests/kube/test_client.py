"""Lists and watches as bytes on a real connection: cut, split, stalled, reset."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Timer

import pytest

from tests.kube.kubeconfig import connected
from tests.kube.raw_server import END, HEAD, Part, chunk, raw_server, reset, whole
from tests.kube.scripted_server import THINGS, Thing, bookmark, listed, row, thing, told
from webhook.kube import resource_codec as told_of
from webhook.kube.api_errors import ApiError, ApiErrorReason
from webhook.kube.client import LIST_LIMITS, ApiClient
from webhook.kube.reflector import Reflector
from webhook.kube.resource_codec import Bookmark, Changed, Replaced
from webhook.kube.transport import Response

LIST = [whole(listed(7, thing("a", 3)).body)]
LINE = json.dumps({"type": "ADDED", "object": thing("ä-\N{BANANA}", 8)}, ensure_ascii=False).encode() + b"\n"
IMPATIENT = LIST_LIMITS._replace(silence=0.05)
AFTER = [HEAD, chunk(told("ADDED", thing("z", 9))), END]

# After this answer the connection ends, and the client knows that before it asks again.
LAST = HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


class RealClock:
    """Real time; rests are counted, not taken."""

    def __init__(self) -> None:
        self.rested = 0

    def now(self) -> float:
        """Seconds."""
        return time.monotonic()

    def sleep(self, _: float) -> None:
        """Go on at once."""
        self.rested += 1


def heard(folder: Path, plays: Sequence[Sequence[Part]], events: int) -> tuple[list[object], dict[ApiErrorReason, int]]:
    """The first events that come of these, and why anything was begun again."""
    with raw_server(*plays) as server:
        reflector = Reflector(THINGS, ApiClient(connected(server, folder)), RealClock(), lambda: 0.0)
        run = reflector.events()
        found: list[told_of.WatchEvent[Thing]] = []
        while len(found) < events:
            event = next(run)
            if event is not None:
                found.append(event)
        run.close()
    return list(found), dict(reflector.get_status().restarts)


def test_a_list_and_a_watch_come_as_they_were_sent(tmp_path: Path) -> None:
    with raw_server(LIST, [HEAD, chunk(LINE), chunk(bookmark(20)), END]) as server:
        reflector = Reflector(THINGS, ApiClient(connected(server, tmp_path)), RealClock(), lambda: 0.0)
        run = reflector.events()
        found = [event for event in (next(run) for _ in range(3)) if event is not None]
        run.close()
    assert found == [Replaced([row("a", 3)], 7), Changed(row("ä-\N{BANANA}", 8), 8), Bookmark(20)][: len(found)]
    assert server.requests[0].startswith(b"GET /api/v1/things?limit=500 HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer t0ken\r\n" in server.requests[0]
    assert b"watch=1&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=240" in server.requests[1]


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_chunks_may_end_within_a_character(tmp_path: Path, size: int) -> None:
    pieces = [chunk(LINE[start : start + size]) for start in range(0, len(LINE), size)]
    found, _ = heard(tmp_path, [LIST, [HEAD, *pieces, END], [HEAD]], 2)
    assert found[1] == Changed(row("ä-\N{BANANA}", 8), 8)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([LAST, chunk(LINE), chunk(LINE[:20]), END], ApiErrorReason.TRUNCATED),
        ([HEAD, chunk(LINE), chunk(LINE[:20])], ApiErrorReason.RESET),
        ([HEAD, chunk(LINE), chunk(LINE)[:20]], ApiErrorReason.RESET),
        ([HEAD, chunk(LINE), b"zz\r\n"], ApiErrorReason.RESET),
        ([HEAD, chunk(LINE), b"f" * 70_000], ApiErrorReason.RESET),
    ],
)
def test_a_watch_that_is_cut_goes_on_after_its_last_whole_event(
    tmp_path: Path, broken: Sequence[Part], reason: ApiErrorReason
) -> None:
    found, restarts = heard(tmp_path, [LIST, broken, AFTER], 3)
    assert found[1:] == [Changed(row("ä-\N{BANANA}", 8), 8), Changed(row("z", 9), 9)]
    assert restarts == {reason: 1}


def test_a_watch_that_is_reset_is_begun_again(tmp_path: Path) -> None:
    found, restarts = heard(tmp_path, [LIST, [HEAD, reset], AFTER], 2)
    assert found[1] == Changed(row("z", 9), 9)
    assert restarts == {ApiErrorReason.RESET: 1}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([reset], ApiErrorReason.RESET),
        ([], ApiErrorReason.RESET),
        ([b"\x00\x01\x02\r\n\r\n"], ApiErrorReason.RESET),
        ([whole(LIST[0])[:-30]], ApiErrorReason.RESET),
        ([LAST, chunk(b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata'), END], ApiErrorReason.UNREADABLE),
        (
            [whole(b'{"message":"not now"}', "503 Service Unavailable", "Retry-After: 1\r\n")],
            ApiErrorReason.SERVER_ERROR,
        ),
        ([whole(b"", "302 Found", "Location: http://127.0.0.1:1/\r\n")], ApiErrorReason.REFUSED),
    ],
)
def test_a_list_that_breaks_is_asked_for_again(tmp_path: Path, broken: Sequence[Part], reason: ApiErrorReason) -> None:
    found, restarts = heard(tmp_path, [broken, LIST], 1)
    assert found == [Replaced([row("a", 3)], 7)]
    assert restarts == {reason: 1}


def test_an_answer_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with raw_server([whole(b"x" * 1001)], [whole(b"x" * 1000)]) as server:
        transport = ApiClient(connected(server, tmp_path), LIST_LIMITS._replace(max_bytes=1000))
        with pytest.raises(ApiError, match="more than 1000 bytes"):
            transport.get("/api/v1/things", {})
        assert transport.get("/api/v1/things", {}) == Response(200, b"x" * 1000)


def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.plays = [[server.stall]]
        with pytest.raises(ApiError) as caught:
            ApiClient(connected(server, tmp_path), IMPATIENT).get("/api/v1/things", {})
    assert caught.value.reason is ApiErrorReason.TIMEOUT


def test_a_watch_that_does_not_begin_is_not_waited_for(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.plays = [[server.stall]]
        with pytest.raises(ApiError) as caught:
            ApiClient(connected(server, tmp_path), IMPATIENT).watch("/api/v1/things", {"timeoutSeconds": "300"})
    assert caught.value.reason is ApiErrorReason.TIMEOUT


def test_a_watch_that_has_begun_may_be_silent_for_longer(tmp_path: Path) -> None:
    goes_on = Event()
    with raw_server([HEAD, lambda _: goes_on.wait(10), chunk(LINE), END]) as server:
        stream = ApiClient(connected(server, tmp_path), IMPATIENT).watch("/api/v1/things", {"timeoutSeconds": "300"})
        assert not isinstance(stream, Response)
        assert stream.read(0.15) is None
        goes_on.set()
        assert stream.read(10) == LINE
        assert stream.read(10) == b""
        stream.close()


def test_an_answer_that_drips_is_given_up(tmp_path: Path) -> None:
    with raw_server([whole(b"x" * 10)]) as server, pytest.raises(ApiError) as caught:
        ApiClient(connected(server, tmp_path), LIST_LIMITS._replace(total=-1.0)).get("/api/v1/things", {})
    assert caught.value.reason is ApiErrorReason.TIMEOUT


def test_nobody_there_is_called_so(tmp_path: Path) -> None:
    with raw_server() as server:
        connection = connected(server, tmp_path)
    with pytest.raises(ApiError, match="cannot be reached") as caught:
        ApiClient(connection).get("/api/v1/things", {})
    assert caught.value.reason is ApiErrorReason.UNREACHABLE


def test_a_silent_stream_says_so_and_can_be_closed_at_once(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.plays = [[HEAD, chunk(LINE), server.stall]]
        stream = ApiClient(connected(server, tmp_path)).watch("/api/v1/things", {"timeoutSeconds": "300"})
        assert not isinstance(stream, Response)
        assert stream.read(5) == LINE
        assert stream.read(0.01) is None
        begun = time.monotonic()
        stream.close()
        stream.close()
        assert time.monotonic() - begun < 0.5


def test_whoever_closes_the_transport_breaks_what_is_under_way(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.plays = [[HEAD, chunk(b"x"), server.stall]] * 2
        transport = ApiClient(connected(server, tmp_path))
        Timer(0.1, transport.close).start()
        begun = time.monotonic()
        with pytest.raises(ApiError):
            transport.get("/api/v1/things", {})
        assert time.monotonic() - begun < 2
        with pytest.raises(ApiError, match="closed"):
            transport.get("/api/v1/things", {})
