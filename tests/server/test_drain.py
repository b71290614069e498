"""The drain: running requests are answered, clients are sent away, and the exit code has the result."""

import http.client
import signal
import threading
from pathlib import Path

import httpx
import pytest

from tests.server.app_harness import MUTATE, create_review
from tests.server.process import ServerProcess, eventually, run_threads


def test_running_requests_are_answered_before_the_end(tmp_path: Path) -> None:
    answers: list[int] = []
    with ServerProcess(tmp_path) as server:

        def post(_: int, __: threading.Event) -> None:
            with server.client() as client:
                answers.append(client.post(MUTATE, content=create_review("wait-700")).status_code)

        with run_threads(4, post):
            assert eventually(lambda: len(server.find_log_lines("waiting")) == 4)
            code = server.stop()
    assert (answers, code) == ([200] * 4, 0)
    assert server.find_log_lines("stopped")[0]["drained"] is True


def test_a_draining_server_is_not_ready_but_answers_and_closes_connections(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, drain_delay="20s") as server, server.client() as client:
        assert "connection" not in client.post(MUTATE, content=create_review()).headers
        server.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: server.monitor("/readyz").status_code == 503)
        assert server.monitor("/readyz").json()["checks"]["serving"] == {"ready": False, "state": "draining"}
        assert server.monitor("/healthz").status_code == 200
        answer = client.post(MUTATE, content=create_review())
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert server.stop(signal.SIGTERM) == 0


def test_an_interrupt_at_the_keyboard_skips_the_drain_delay(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, drain_delay="1h") as server:
        assert server.stop(signal.SIGINT) == 0


def test_idle_connections_do_not_delay_the_end(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        connection = http.client.HTTPSConnection("localhost", server.port, context=server.context)
        connection.request("POST", MUTATE, create_review())
        connection.getresponse().read()
        assert server.stop() == 0
        connection.close()


def test_requests_that_take_too_long_are_aborted_and_the_exit_code_is_1(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, times={"drain": 0.2}) as server:

        def post(_: int, __: threading.Event) -> None:
            with server.client() as client, pytest.raises(httpx.HTTPError):
                client.post(MUTATE, content=create_review("wait-5000"))

        with run_threads(1, post):
            assert eventually(lambda: len(server.find_log_lines("waiting")) == 1)
            code = server.stop()
    assert code == 1
    assert server.find_log_lines("stopped")[0]["drained"] is False


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM], ids=["another interrupt", "SIGTERM"])
def test_a_second_signal_aborts_the_running_requests(tmp_path: Path, second: signal.Signals) -> None:
    with ServerProcess(tmp_path, times={"drain": 3600}) as server:

        def post(_: int, __: threading.Event) -> None:
            with server.client() as client, pytest.raises(httpx.HTTPError):
                client.post(MUTATE, content=create_review("wait-3600000"))

        with run_threads(1, post):
            assert eventually(lambda: len(server.find_log_lines("waiting")) == 1)
            server.process.send_signal(signal.SIGINT)
            assert eventually(lambda: len(server.find_log_lines("draining")) == 1)
            code = server.stop(second)
    assert code == 1
    assert server.find_log_lines("stopped")[0]["drained"] is False
