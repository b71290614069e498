"""A log that is not read: no review and no probe waits for it, and the lines that it costs are counted."""

import http.client
import json
import threading
from pathlib import Path

from tests.server.app_harness import MUTATE
from tests.server.process import PipedServer, eventually, run_threads

_LONG = "n" * 250
_MAX_REVIEWS = 20_000  # by one connection; about 2,000 by each of four fill the queue of lines
_DROPPED = "tallygate_log_lines_dropped_total"


def create_long_review(number: int) -> bytes:
    """Return a review that is denied in a long line, so that few of them fill the queue of lines."""
    return json.dumps(
        {"request": {"uid": f"u-{number}-{_LONG}", "name": "deny", "namespace": _LONG, "operation": _LONG}}
    ).encode()


def test_no_decision_waits_for_the_reader_of_the_log(tmp_path: Path) -> None:
    def send(_: int, stop: threading.Event) -> None:
        connection = http.client.HTTPSConnection("localhost", server.port, context=server.context, timeout=60)
        for number in range(_MAX_REVIEWS):
            connection.request("POST", MUTATE, create_long_review(number))
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (200, True)
            if stop.is_set():
                break
        connection.close()

    with PipedServer(tmp_path) as server:
        server.is_read.clear()
        with run_threads(4, send):
            assert eventually(lambda: server.get_metric(_DROPPED) > 100)
        assert [server.monitor(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
        server.is_read.set()
        assert eventually(lambda: server.find_log_lines("log-lines-dropped") != [])
        assert server.find_log_lines("log-lines-dropped")[0]["number"] == server.get_metric(_DROPPED)
        server.is_read.clear()
        assert server.stop() == 0  # the end does not wait for the reader, either
