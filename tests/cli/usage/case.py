"""Cases of commands that read a cluster: a folder each, named by a sentence.

`commands` are what is typed in the folder, one a line; `expected` is what a terminal would show of them: each behind a
`$`, with its stdout, its stderr behind `!`, and its exit code where that is not 0.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from tests.cli.case import working_in
from webhook.cli.app import root

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """One folder."""

    folder: Path

    @property
    def name(self) -> str:
        """The sentence."""
        return self.folder.name

    @property
    def expected(self) -> Path:
        """What is shown."""
        return self.folder / "expected"

    def run(self) -> str:
        """Type the commands, from within the folder, so that no path of this machine is shown."""
        with working_in(self.folder):
            return "\n".join(_shown(line) for line in (self.folder / "commands").read_text().splitlines())


def _shown(line: str) -> str:
    result = CliRunner().invoke(root, shlex.split(line)[1:], prog_name="tallygate")
    errors = "".join(f"! {said}\n" for said in result.stderr.splitlines())
    end = f"(exit {result.exit_code})\n" if result.exit_code else ""
    return f"$ {line}\n{result.stdout}{errors}{end}"


def cases(within: Path = CASES) -> list[Case]:
    """Every case, by name."""
    return [Case(folder) for folder in sorted(within.iterdir()) if folder.is_dir()]
