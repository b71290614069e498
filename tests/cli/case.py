"""Cases of `tallygate check`: a folder each, named by a sentence.

`manifests/` is what is checked; `policies/`, `snapshot.json` and `arguments` (one a line) are added where they are.
`expected.findings` says the exit code and each finding without its wording; `expected.FORMAT`, where it is, the whole
output in that form.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from webhook.cli.app import root

CASES = Path(__file__).parent / "cases"
FORMATS = ("table", "json", "yaml", "github", "sarif")


@dataclass(frozen=True)
class Case:
    """One folder."""

    folder: Path

    @property
    def name(self) -> str:
        """The sentence."""
        return self.folder.name

    def run(self, output: str) -> Result:
        """Check it from within its folder, so that no path of this machine is in the output."""
        arguments = ["check", "manifests", "-o", output]
        for option, path in (("--policies", "policies"), ("--snapshot", "snapshot.json")):
            if (self.folder / path).exists():
                arguments += [option, path]
        if (self.folder / "arguments").exists():
            arguments += (self.folder / "arguments").read_text().split("\n")[:-1]
        with working_in(self.folder):
            return CliRunner().invoke(root, arguments)

    def findings(self) -> str:
        """What is found, without wording: `exit 1`, then `file:line:column level code by field`."""
        result = self.run("json")
        lines = [f"exit {result.exit_code}"]
        for found in json.loads(result.stdout)["findings"]:
            parts = (f"{found['file']}:{found['line']}:{found['column']}", found["level"], found["code"], found["by"])
            lines.append(" | ".join((*parts, found["field"])).removesuffix(" | "))
        return "\n".join(lines) + "\n"


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Make a folder the working directory for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def cases() -> list[Case]:
    """Every case, by name."""
    return [Case(folder) for folder in sorted(CASES.iterdir()) if folder.is_dir()]


def expectations() -> list[tuple[Case, str]]:
    """Every case with each form of output that it expects whole."""
    return [(case, form) for case in cases() for form in FORMATS if (case.folder / f"expected.{form}").exists()]
