"""Policy files with their expected findings: the lines that begin with `#!`."""

from pathlib import Path

FOLDER = Path(__file__).parent


def list_files(folder: str) -> list[Path]:
    """Return the case files of a folder."""
    return sorted((FOLDER / folder).glob("*.yaml"))


def read_expected_findings(path: Path) -> list[tuple[str, str, str, str]]:
    """Return position, severity, code and a part of the message of each expected finding of a case file."""
    lines = [line[3:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#! ")]
    split = [line.split(" ", 3) for line in lines]
    return [(position, severity, code, message) for position, severity, code, message in split]
