"""`make run`'s driver, for real: a gate on this machine, three pods, Ctrl-C."""

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
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.warm import run

SECONDS = 40.0


@contextmanager
def first_run(folder: Path, port: str) -> Iterator[subprocess.Popen[str]]:
    """The driver as `make run` starts it, gone at the end whatever happens."""
    process = subprocess.Popen(  # noqa: S603 -- this very program, no shell
        [sys.executable, "-m", "webhook.cli.demo.__main__", str(folder)],
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


def failed(folder: Path, port: str) -> str:
    """What it says on its standard error, and nowhere else, before it ends as misused."""
    result = run("webhook.cli.demo.__main__", [str(folder)], environment={**os.environ, "TALLYGATE_PORT": port})
    assert (result.returncode, result.stdout) == (2, "")
    return result.stderr


def until(process: subprocess.Popen[str], part: str) -> str:
    """What it prints up to a line with this part."""
    assert process.stdout is not None
    text, deadline = "", time.monotonic() + SECONDS
    while part not in text:
        ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0))
        more = os.read(process.stdout.fileno(), 65536).decode() if ready else ""
        assert more, f"{part!r} did not come after:\n{text}"
        text += more
    return text


def asked_again(curl: str, folder: Path) -> dict[str, object]:
    """The answer to a curl line that was printed, without curl."""
    words = shlex.split(curl)
    body = Path(words[words.index("--data") + 1].removeprefix("@")).read_bytes()
    request = urllib.request.Request(words[-1], body, {"Content-Type": "application/json"})  # noqa: S310 -- our own https
    trust = ssl.create_default_context(cafile=folder / "tls" / "ca.crt")
    with urllib.request.urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310 -- likewise
        response: dict[str, object] = json.loads(answer.read())["response"]
        return response


def test_it_shows_what_the_gate_says_and_stops_cleanly(tmp_path: Path) -> None:
    """A pod goes in, two are refused as kubectl would show it, asking again gives the same, Ctrl-C ends it all."""
    with first_run(tmp_path, "0") as process:
        text = until(process, "Ctrl-C stops it.")
        assert "pod/good created\n" in text
        assert 'The Pod "bad" is invalid: \n* spec.containers[0].resources.' in text
        assert "1500m is not a whole number" in text
        assert 'Error from server (Forbidden): error when creating "' in text
        assert (
            "cap team-a-gpus of this namespace exceeded: requested 3 nvidia.com/gpu, used 0, reserved 2, hard 4, free 2"
            in text
        )
        answers = [asked_again(line, tmp_path) for line in text.splitlines() if line.startswith("curl ")]
        assert [answer["allowed"] for answer in answers] == [True, False, False]
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=SECONDS)
    assert (process.returncode, out.lstrip(), error) == (0, "stopped\n", "")
    port = re.search(r"https://127\.0\.0\.1:(\d+)", text)
    assert port is not None
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(port[1]))) != 0
    certificate = (tmp_path / "tls" / "tls.crt").read_bytes()
    assert_second_run_keeps(tmp_path, certificate)


def assert_second_run_keeps(folder: Path, certificate: bytes) -> None:
    """A good certificate is not made again, and SIGTERM stops it as cleanly."""
    with first_run(folder, "0") as process:
        until(process, "Ctrl-C stops it.")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert (folder / "tls" / "tls.crt").read_bytes() == certificate


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    """Which port, and how to take another."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = failed(tmp_path, str(port))
    hint = "TALLYGATE_PORT=9443 make run takes another port"
    assert said == f"tallygate: cannot listen on 127.0.0.1:{port}: Address already in use; {hint}\n"


def test_a_port_that_is_none_is_told(tmp_path: Path) -> None:
    """Before anything is started."""
    assert failed(tmp_path, "https") == "tallygate: TALLYGATE_PORT: 'https' is not a port; write a number up to 65535\n"


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """By its name."""
    (tmp_path / "file").write_text("")
    assert failed(tmp_path / "file", "0") == f"tallygate: {tmp_path}/file/policies: Not a directory\n"


def test_a_gate_that_dies_is_told(tmp_path: Path) -> None:
    """It is not the user's doing, and the log has the reason."""
    with first_run(tmp_path, "0") as process:
        until(process, "Ctrl-C stops it.")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        _, error = process.communicate(timeout=SECONDS)
    assert process.returncode == 70
    assert error == f"tallygate: the gate ended by itself, with -9; {tmp_path}/gate.log says why\n"
