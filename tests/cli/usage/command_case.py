"""Cases of commands that read a cluster: one folder for each, whose name is a sentence.

`commands` has the command lines, and `expected` has their output as in a terminal: each command after a
`$`, with its stdout, its stderr after `!`, and its exit code if it is not 0.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.check_case import change_directory

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class CommandCase:
    """The folder of one case."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def expected(self) -> Path:
        """The file of the expected output."""
        return self.folder / "expected"

    def run(self) -> str:
        """Run the commands in the folder, so that no path of this machine is in the output."""
        with change_directory(self.folder):
            return "\n".join(_run_command(line) for line in (self.folder / "commands").read_text().splitlines())


def _run_command(line: str) -> str:
    result = CliRunner().invoke(root, shlex.split(line)[1:], prog_name="tallygate")
    errors = "".join(f"! {error}\n" for error in result.stderr.splitlines())
    end = f"(exit {result.exit_code})\n" if result.exit_code else ""
    return f"$ {line}\n{result.stdout}{errors}{end}"


def list_cases(root_folder: Path = CASES) -> list[CommandCase]:
    """Return every case, sorted by name."""
    return [CommandCase(folder) for folder in sorted(root_folder.iterdir()) if folder.is_dir()]
