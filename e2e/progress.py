"""Commands that may take minutes: run to their end, with progress now and then for the user."""

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

_QUIET = 2.0  # seconds without a message
_EVERY = 30.0  # seconds between messages after that


def run_command(
    command: Sequence[str], doing: str, *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its result, successful or not; report on stderr once it takes more than two seconds."""
    start = time.monotonic()
    with subprocess.Popen(  # noqa: S603  commands of ours, and no shell
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, errors = _communicate(process, doing, start)
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _communicate(process: subprocess.Popen[str], doing: str, start: float) -> tuple[str, str]:
    silence = _QUIET
    while True:
        try:
            return process.communicate(timeout=silence)
        except subprocess.TimeoutExpired:
            click.echo(f"{doing} … {time.monotonic() - start:.0f} s", err=True)
            silence = _EVERY
