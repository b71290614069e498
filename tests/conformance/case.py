"""Cases: the input and the answer of Kubernetes, one line of JSON each."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Case = dict[str, Any]
"""The inputs by name, and the result under `answer` (in a workload the result has keys of its own)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case: one sentence for each difference.

    `beyond_int64` means that integers wrap around in Kubernetes' answer. Then the differences are those from the right
    answer. `is_judged` is false where tallygate itself names a feature that it does not model.
    """

    differences: tuple[str, ...] = ()
    beyond_int64: bool = False
    is_judged: bool = True


class CaseFileError(Exception):
    """A file of cases cannot be read; the message names the file and the reason."""


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file, plain or gzipped.

    Raises:
        CaseFileError: if the file cannot be read, or a line is not a JSON object.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = content.decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise CaseFileError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _parse_case(path, number, line)


def _parse_case(path: Path, number: int, line: str) -> Case:
    """Parse the case on one line."""
    try:
        case = json.loads(
            line, parse_float=str
        )  # Kubernetes reads the text of a number as a quantity; so the text is kept
    except ValueError as error:
        raise CaseFileError(f"{path}:{number}: not JSON: {error}") from error
    if not isinstance(case, dict):
        raise CaseFileError(f"{path}:{number}: not a JSON object")
    return case
