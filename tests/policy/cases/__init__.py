"""Policy files with what is to be found in them: the lines that begin with `#!`, and what they mean."""

from pathlib import Path

FOLDER = Path(__file__).parent


def files(room: str) -> list[Path]:
    """The case files of one room."""
    return sorted((FOLDER / room).glob("*.yaml"))


def expected(path: Path) -> list[tuple[str, str, str, str]]:
    """Place, severity, code and a part of the message of each finding that a case file announces."""
    lines = [line[3:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#! ")]
    split = [line.split(" ", 3) for line in lines]
    return [(place, severity, code, message) for place, severity, code, message in split]
