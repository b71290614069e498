"""One case: what Kubernetes was given and what it answered, a line of JSON."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Case = dict[str, Any]
"""What was given, by name, and what came out under `answer` (a workload's answer stands beside it)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case went: every difference in a sentence, none when both agree.

    `beyond_int64` tells that Kubernetes' answer shows its integers wrapping around. Then the differences are those
    from the right answer. `is_judged` is false where tallygate itself names something that it does not judge.
    """

    differences: tuple[str, ...] = ()
    beyond_int64: bool = False
    is_judged: bool = True


class CaseFileError(Exception):
    """A file of cases cannot be read, and this says which and why."""


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a file, plain or gzipped.

    Raises:
        CaseFileError: it cannot be read, or a line is no JSON object.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = content.decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise CaseFileError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _case(path, number, line)


def _case(path: Path, number: int, line: str) -> Case:
    """The case on one line."""
    try:
        case = json.loads(
            line, parse_float=str
        )  # Kubernetes takes a quantity's number for its text; so its text is kept
    except ValueError as error:
        raise CaseFileError(f"{path}:{number}: not JSON: {error}") from error
    if not isinstance(case, dict):
        raise CaseFileError(f"{path}:{number}: not a JSON object")
    return case
