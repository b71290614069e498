"""A pseudo-terminal for commands."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

from tests.warm import Program

_SECONDS = 120


def run_in_terminal(arguments: list[str], columns: int, folder: Path, command: str = "", **environment: str) -> str:
    """Return the output of `tallygate`, or of a Python program in its place, on a terminal with this width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {
        name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "FORCE_COLOR"}
    }
    inherited |= {"TERM": "xterm-256color", **environment}
    if command:
        process: subprocess.Popen[bytes] | Program = subprocess.Popen(  # noqa: S603 -- this very program, no shell
            [sys.executable, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=inherited,
        )
    else:
        process = Program("tallygate.cli", arguments, stdout=slave, stderr=slave, cwd=folder, environment=inherited)
    os.close(slave)
    data = b""
    while more := _read(master):
        data += more
    process.wait(_SECONDS)
    os.close(master)
    return data.decode().replace("\r\n", "\n")


def answer_in_terminal(arguments: list[str], answers: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Return the exit code and the output of `tallygate` on a terminal, where a user answers its questions.

    `answers` has for each question a part of its text and the answer, in the order of the questions. Each is typed
    when the question is on the screen.
    """
    master, slave = pty.openpty()
    streams = {"stdin": slave, "stdout": slave, "stderr": slave}
    process = Program("tallygate.cli", arguments, cwd=folder, environment={**os.environ, "TERM": "dumb"}, **streams)
    os.close(slave)
    screen, seen = b"", 0
    for question, answer in answers.items():
        while (found := screen.find(question.encode(), seen)) < 0:
            more = _read(master, f"{question!r} is not asked: {screen.decode()}")
            assert more, f"{question!r} is not asked: {screen.decode()}"
            screen += more
        seen = found + len(question)
        os.write(master, f"{answer}\n".encode())
    while more := _read(master):
        screen += more
    code = process.wait(_SECONDS)
    os.close(master)
    return code, screen.decode().replace("\r\n", "\n")


def _read(terminal: int, problem: str = "the command neither writes nor ends") -> bytes:
    """Wait for output, and return it; nothing after the other side has closed, which Linux reports as an error."""
    ready, _, _ = select.select([terminal], [], [], _SECONDS)
    assert ready, problem
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
