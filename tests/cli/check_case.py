"""Cases of `tallygate check`: one folder for each, whose name is a sentence.

The command checks `manifests/`, with `policies/`, `snapshot.json` and `arguments` (one a line) if they exist.
`expected.findings` has the exit code and each finding without its message; an optional `expected.FORMAT` has the whole
output in that format.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from tallygate.cli.app import root

CASES = Path(__file__).parent / "cases"
FORMATS = ("table", "json", "yaml", "github", "sarif")


@dataclass(frozen=True)
class Case:
    """The folder of one case."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    def run(self, output: str) -> Result:
        """Run the command in the folder, so that no path of this machine is in the output."""
        arguments = ["check", "manifests", "-o", output]
        for option, path in (("--policies", "policies"), ("--snapshot", "snapshot.json")):
            if (self.folder / path).exists():
                arguments += [option, path]
        if (self.folder / "arguments").exists():
            arguments += (self.folder / "arguments").read_text().split("\n")[:-1]
        with change_directory(self.folder):
            return CliRunner().invoke(root, arguments)

    def format_findings(self) -> str:
        """Return the findings without messages: `exit 1`, then `file:line:column level code by field`."""
        result = self.run("json")
        lines = [f"exit {result.exit_code}"]
        for found in json.loads(result.stdout)["findings"]:
            parts = (f"{found['file']}:{found['line']}:{found['column']}", found["level"], found["code"], found["by"])
            lines.append(" | ".join((*parts, found["field"])).removesuffix(" | "))
        return "\n".join(lines) + "\n"


@contextmanager
def change_directory(folder: Path) -> Iterator[None]:
    """Change the working directory inside the block."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def list_cases() -> list[Case]:
    """Return every case, sorted by name."""
    return [Case(folder) for folder in sorted(CASES.iterdir()) if folder.is_dir()]


def list_expectations() -> list[tuple[Case, str]]:
    """Return every case with each format whose whole output it expects."""
    return [
        (case, output_format)
        for case in list_cases()
        for output_format in FORMATS
        if (case.folder / f"expected.{output_format}").exists()
    ]
