"""A pseudo-terminal for commands."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from tests.warm import Program


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
    process.wait(120)
    os.close(master)
    return data.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """Return the available output; nothing after the other side has closed, which Linux reports as an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
