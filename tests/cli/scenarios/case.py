"""Cases of `tallygate test`: a folder each, named by a sentence.

`*.yaml` at its top are the scenarios; what they name lies in folders beneath. `expected.FORMAT` is the whole
output in that form: the exit code, stdout, and stderr.
"""

from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from tests.cli.case import working_in
from webhook.cli.app import root

CASES = Path(__file__).parent / "cases"
FORMATS = ("table", "verbose", "json", "yaml", "junit")


@dataclass(frozen=True)
class Case:
    """One folder."""

    folder: Path

    @property
    def name(self) -> str:
        """The sentence."""
        return self.folder.name

    def run(self, form: str) -> str:
        """Play it from within its folder, so that no path of this machine is in the output."""
        sources = sorted(path.name for path in self.folder.glob("*.yaml") if path.stem != "expected")
        how = ["-v"] if form == "verbose" else ["-o", form]
        with working_in(self.folder):
            result = CliRunner().invoke(root, ["test", *how, *sources])
        return f"exit {result.exit_code}\n{result.stdout}--- stderr\n{result.stderr}"


def expectations() -> list[tuple[Case, str]]:
    """Every case with each form of output that it expects."""
    cases = [Case(folder) for folder in sorted(CASES.iterdir()) if folder.is_dir()]
    return [(case, form) for case in cases for form in FORMATS if (case.folder / f"expected.{form}").exists()]
