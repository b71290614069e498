"""Loading: the files that arguments name, as sequences, and everything that is wrong with them.

The one module of this room that touches files, but for manifests and policies, which their own rooms read.
"""

import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from webhook.cli.manifest.files import find, printable
from webhook.cli.sequences.build import build
from webhook.cli.sequences.language import language
from webhook.cli.sequences.model import Sequence
from webhook.policy.bounds import MAX_FILE_BYTES
from webhook.policy.codes import TOO_LARGE, UNREADABLE
from webhook.policy.compose import compose
from webhook.policy.decode import decoded
from webhook.policy.finding import LintFinding, Severity
from webhook.policy.model import SourceLocation
from webhook.policy.nodes import Mapping, Node, Scalar
from webhook.policy.parse import check_ambiguous_numbers
from webhook.policy.shape import check_shape

MOST_SEQUENCES: Final = 2_000
MOST_FINDINGS: Final = 200


@dataclass(slots=True)
class Loaded:
    """What files say: sequences in the order written, and what is wrong, which keeps all of them from being run."""

    sequences: list[Sequence] = field(default_factory=list)
    findings: list[LintFinding] = field(default_factory=list)
    files: int = 0


def load(arguments: tuple[str, ...]) -> Loaded:
    """Read every file; one that is broken does not hide the others."""
    loaded = Loaded()
    for name in find(arguments):
        if len(loaded.sequences) > MOST_SEQUENCES or len(loaded.findings) > MOST_FINDINGS:
            break
        loaded.files += 1
        _read(name, loaded)
    if len(loaded.sequences) > MOST_SEQUENCES:
        loaded.findings.append(_error("", TOO_LARGE, f"more than {MOST_SEQUENCES:,} sequences; test them in parts"))
    for argument in arguments if not loaded.files else ():
        loaded.findings.append(_error(argument, UNREADABLE, "no sequence here; put a file named *.yaml into it"))
    return loaded


def _read(name: str, loaded: Loaded) -> None:
    shown, content = printable(name), _bytes(name)
    text = content if isinstance(content, LintFinding) else decoded(shown, content)
    if isinstance(text, LintFinding):
        loaded.findings.append(text)
        return
    documents, findings = compose(shown, text)
    loaded.findings += findings
    written = [each for each in documents if not (isinstance(each, Scalar) and each.value is None)]
    if not written and not findings:
        loaded.findings.append(_error(name, UNREADABLE, "no sequence in it; write one with name and steps"))
    told = {(finding.line, finding.column) for finding in findings}
    for document in written:
        _take(shown, document, told, loaded)


def _take(name: str, document: Node, told: set[tuple[int, int]], loaded: Loaded) -> None:
    """One document; of a value at a place that was told of already, nothing more is said."""
    misshapes = check_shape(name, document, language())
    doubtful = (replace(each, severity=Severity.ERROR) for each in check_ambiguous_numbers(name, document))
    loaded.findings += sorted({*(one for one in misshapes if (one.line, one.column) not in told), *doubtful})
    if isinstance(document, Mapping) and not misshapes:
        sequence, findings = build(name, document)
        loaded.findings += sorted(findings)
        loaded.sequences += [sequence] if sequence is not None else []


def _bytes(name: str) -> bytes | LintFinding:
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116  # a name may be any bytes
            return _error(name, UNREADABLE, "not a regular file; sequences are files and folders of files")
        with Path(name).open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        return _error(name, UNREADABLE, f"cannot be read: {said}; check that it is there and readable")


def _error(name: str, code: str, message: str) -> LintFinding:
    return LintFinding.create(SourceLocation(printable(name), 1, 1), code, Severity.ERROR, message)
