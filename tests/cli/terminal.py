"""A real terminal for a command: what it prints there, at a width."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from tests.warm import Program


def printed(arguments: list[str], columns: int, folder: Path, command: str = "", **environment: str) -> str:
    """Everything that `tallygate`, or a Python program in its place, prints on a terminal so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {
        name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "FORCE_COLOR"}
    }
    inherited |= {"TERM": "xterm-256color", **environment}
    if command:
        process: subprocess.Popen[bytes] | Program = subprocess.Popen(  # noqa: S603 -- this very program, no shell
            [sys.executable, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=inherited,
        )
    else:
        process = Program("webhook.cli", arguments, stdout=theirs, stderr=theirs, cwd=folder, environment=inherited)
    os.close(theirs)
    data = b""
    while more := _read(ours):
        data += more
    process.wait(30)
    os.close(ours)
    return data.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """What there is to read; nothing once the other side has gone, which Linux tells by an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
