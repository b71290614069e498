"""The programs that the steps of a release run, and the errors of these steps."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_SHOWN_OUTPUT: Final = 3000  # characters of what failed


class ReleaseError(Exception):
    """A step that failed, or a file that must not be released."""


def run_program(
    *command: str | Path, folder: Path = ROOT, environment: Mapping[str, str] | None = None, code: int = 0
) -> str:
    """Return what a program prints on stdout, which has to exit with this code.

    Raises:
        ReleaseError: if it does not; with the end of what it prints.
    """
    words = [str(each) for each in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, env=environment)  # noqa: S603  commands of ours, no shell
    if done.returncode != code:
        end = (done.stdout + done.stderr)[-_SHOWN_OUTPUT:]
        raise ReleaseError(f"{' '.join(words)} exits with {done.returncode}, not {code}:\n{end}")
    return done.stdout
