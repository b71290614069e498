"""Cases of `tallygate test`: one folder for each, whose name is a sentence.

`*.yaml` in the folder are the scenarios, and its subfolders have their files. `expected.FORMAT` is the whole
output in that format: the exit code, stdout, and stderr.
"""

from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.check_case import change_directory

CASES = Path(__file__).parent / "cases"
FORMATS = ("table", "verbose", "json", "yaml", "github", "junit")


@dataclass(frozen=True)
class ScenarioCase:
    """The folder of one case."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    def run(self, output_format: str) -> str:
        """Run the scenarios in the folder, so that no path of this machine is in the output."""
        sources = sorted(path.name for path in self.folder.glob("*.yaml") if path.stem != "expected")
        options = ["-v"] if output_format == "verbose" else ["-o", output_format]
        with change_directory(self.folder):
            result = CliRunner().invoke(root, ["test", *options, *sources])
        return f"exit {result.exit_code}\n{result.stdout}--- stderr\n{result.stderr}"


def list_expectations() -> list[tuple[ScenarioCase, str]]:
    """Return every case with each format that it expects."""
    cases = [ScenarioCase(folder) for folder in sorted(CASES.iterdir()) if folder.is_dir()]
    return [
        (case, output_format)
        for case in cases
        for output_format in FORMATS
        if (case.folder / f"expected.{output_format}").exists()
    ]
