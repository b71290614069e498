"""Commands that may take minutes: run to their end, with a word now and then for whoever waits."""

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

_QUIET = 2.0  # seconds without a word
_EVERY = 30.0  # seconds between words after that


def ended(
    command: Sequence[str], doing: str, *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What became of a command, well or not; what it does is told on stderr once it takes more than two seconds."""
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
            output, errors = _watched(process, doing, start)
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _watched(process: subprocess.Popen[str], doing: str, start: float) -> tuple[str, str]:
    silence = _QUIET
    while True:
        try:
            return process.communicate(timeout=silence)
        except subprocess.TimeoutExpired:
            click.echo(f"{doing} … {time.monotonic() - start:.0f} s", err=True)
            silence = _EVERY
