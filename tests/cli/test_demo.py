"""The program of `make run`: a gate on this machine, three pods, and Ctrl-C."""

import json
import os
import re
import select
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.warm import run

TIMEOUT_SECONDS = 240.0


@contextmanager
def run_demo(folder: Path, port: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program as `make run` does, and kill it at the end."""
    process = subprocess.Popen(  # noqa: S603 -- this very program, no shell
        [sys.executable, "-m", "tallygate.cli.demo.__main__", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TALLYGATE_PORT": port},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def run_until_failure(folder: Path, port: str) -> str:
    """Return its standard error after a usage error, without any standard output."""
    result = run("tallygate.cli.demo.__main__", [str(folder)], environment={**os.environ, "TALLYGATE_PORT": port})
    assert (result.returncode, result.stdout) == (2, "")
    return result.stderr


def read_until(process: subprocess.Popen[str], part: str) -> str:
    """Return its output up to a line with this part."""
    assert process.stdout is not None
    text, deadline = "", time.monotonic() + TIMEOUT_SECONDS
    while part not in text:
        ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0))
        more = os.read(process.stdout.fileno(), 65536).decode() if ready else ""
        assert more, f"{part!r} did not come after:\n{text}"
        text += more
    return text


def send_again(curl: str, folder: Path) -> dict[str, object]:
    """Send the request of a printed curl line without curl, and return the response."""
    words = shlex.split(curl)
    body = Path(words[words.index("--data") + 1].removeprefix("@")).read_bytes()
    request = urllib.request.Request(words[-1], body, {"Content-Type": "application/json"})  # noqa: S310 -- our own https
    trust = ssl.create_default_context(cafile=folder / "tls" / "ca.crt")
    with urllib.request.urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310 -- likewise
        response: dict[str, object] = json.loads(answer.read())["response"]
        return response


def test_the_demo_prints_the_decisions_and_stops_cleanly(tmp_path: Path) -> None:
    """Accept one pod, deny two as kubectl prints it, repeat the requests, and end on Ctrl-C."""
    with run_demo(tmp_path, "0") as process:
        text = read_until(process, "Ctrl-C stops it.")
        assert "pod/good created\n" in text
        assert 'The Pod "bad" is invalid: \n* spec.containers[0].resources.' in text
        assert "1500m is not a whole number" in text
        assert 'Error from server (Forbidden): error when creating "' in text
        assert (
            "cap team-a-gpus of this namespace exceeded: requested 3 nvidia.com/gpu, used 0, reserved 2, hard 4, free 2"
            in text
        )
        answers = [send_again(line, tmp_path) for line in text.splitlines() if line.startswith("curl ")]
        assert [answer["allowed"] for answer in answers] == [True, False, False]
        assert_pages_show_what_their_user_may_see(text, tmp_path)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, out.lstrip(), error) == (0, "stopped\n", "")
    ports = set(re.findall(r"https://127\.0\.0\.1:(\d+)", text))
    assert len(ports) == 2
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", int(port))) != 0
    certificate = (tmp_path / "tls" / "tls.crt").read_bytes()
    assert_second_run_keeps(tmp_path, certificate)


def assert_pages_show_what_their_user_may_see(text: str, folder: Path) -> None:
    """Open pages as the tenant and as the admin, whose tokens are printed."""
    page = re.search(r"https://\S+/page/namespace\?namespace=team-a", text)
    tenant, admin = re.search(r"tenant-\S+", text), re.search(r"admin-\S+", text)
    assert page is not None
    assert tenant is not None
    assert admin is not None
    usage = json.loads(open_page(page[0], tenant[0], folder))
    (line,) = usage["items"]
    assert (line["cap"], line["used"], line["hard"], line["free"]) == ("team-a-gpus", 2, 4, 2)
    assert [waiting["verdict"] for waiting in usage["waiting"]] == ["never on these nodes"]
    others = page[0].replace("team-a", "team-b")
    assert json.loads(open_page(others, admin[0], folder))["namespace"] == "team-b"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        open_page(others, tenant[0], folder)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        open_page(others, "another", folder)


def open_page(address: str, token: str, folder: Path) -> bytes:
    """Return the JSON of a page."""
    request = urllib.request.Request(f"{address}&o=json", headers={"Authorization": f"Bearer {token}"})  # noqa: S310 -- our own https
    trust = ssl.create_default_context(cafile=folder / "tls" / "ca.crt")
    with urllib.request.urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310 -- likewise
        content: bytes = answer.read()
        return content


def assert_second_run_keeps(folder: Path, certificate: bytes) -> None:
    """Keep a valid certificate, and stop on SIGTERM as well."""
    with run_demo(folder, "0") as process:
        read_until(process, "Ctrl-C stops it.")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0
    assert (folder / "tls" / "tls.crt").read_bytes() == certificate


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    """Print the port, and the variable that sets another one."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = run_until_failure(tmp_path, str(port))
    hint = "TALLYGATE_PORT=9443 make run takes another port"
    assert message == f"tallygate: cannot listen on 127.0.0.1:{port}: Address already in use; {hint}\n"


def test_an_invalid_port_is_reported(tmp_path: Path) -> None:
    """Fail before any process starts."""
    assert (
        run_until_failure(tmp_path, "https")
        == "tallygate: TALLYGATE_PORT: 'https' is not a port; write a number up to 65535\n"
    )


def test_a_read_only_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run_until_failure(tmp_path / "file", "0") == f"tallygate: {tmp_path}/file/policies: Not a directory\n"


def test_the_end_of_the_gate_process_is_reported(tmp_path: Path) -> None:
    """Exit with the code of an internal error, and name the log file."""
    with run_demo(tmp_path, "0") as process:
        read_until(process, "Ctrl-C stops it.")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        _, error = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 70
    assert error == f"tallygate: the gate ended by itself, with -9; {tmp_path}/gate.log says why\n"
