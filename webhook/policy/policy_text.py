"""The reading of policy text: from bytes to syntax trees, within limits, with a finding for every error.

Each limit is checked before the work that it bounds. The limits are far above real policies and far below a size that
harms the gate: a ConfigMap has at most 1 MiB, a set of 1,000 rules is some 20,000 nodes in 400 kB.
"""

import re

from webhook.documents.composer import compose_policies
from webhook.documents.syntax_tree import ErrorKind, Limits, Node, Position
from webhook.policy.lint_findings import LintFinding, Severity
from webhook.policy.model import SourceLocation
from webhook.policy.policy_codes import DUPLICATE_KEY, SYNTAX, TOO_LARGE, UNREADABLE, YAML_FEATURE

MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 8 << 20
MAX_LINES = 50_000
"""Lines of one file."""

MAX_FILES = 1_000
MAX_DOCUMENTS = 2_000
"""Documents of all files together; lint compares them in pairs."""

MAX_FINDINGS_PER_FILE = 200
"""Findings shown per file; one more notes that there are others."""

MAX_NODES = 50_000
"""Scalars, lists and mappings of one file."""

LIMITS = Limits(size=MAX_FILE_BYTES, depth=32, documents=2 * MAX_NODES, nodes=MAX_NODES, expanded=10_000)
"""A policy nests eight deep; its documents are limited over all files, by `MAX_DOCUMENTS`."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_CODES = {
    ErrorKind.SYNTAX: SYNTAX,
    ErrorKind.TOO_LARGE: TOO_LARGE,
    ErrorKind.FEATURE: YAML_FEATURE,
    ErrorKind.DUPLICATE_KEY: DUPLICATE_KEY,
}


def read_policy_text(name: str, content: bytes) -> tuple[list[Node], list[LintFinding]]:
    """Return the documents of a file, and a finding for every error of its text; a byte order mark is ignored."""
    text = _decode(name, content)
    if isinstance(text, LintFinding):
        return [], [text]
    documents, errors = compose_policies(text, LIMITS)
    return documents, [_create_error(name, error.position, _CODES[error.kind], error.message) for error in errors]


def _decode(name: str, content: bytes) -> str | LintFinding:
    """Return the text of a file, or a finding with the reason for its absence."""
    if len(content) > MAX_FILE_BYTES:
        message = f"more than {MAX_FILE_BYTES:,} bytes, which is all that is read of one file: split it"
        return _create_error(name, Position(1, 1), TOO_LARGE, message)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        return _create_error(name, Position(line, column), UNREADABLE, "not UTF-8 text; save the file as UTF-8")
    control = _CONTROL.search(text)
    if control:
        start = control.start()
        position = Position(text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        message = f"a control character (U+{ord(control[0]):04X}) cannot stand in a policy file; remove it"
        return _create_error(name, position, UNREADABLE, message)
    if text.count("\n") + text.count("\r") > MAX_LINES:
        message = f"more than {MAX_LINES:,} lines, which is all that is read of one file: split it"
        return _create_error(name, Position(MAX_LINES, 1), TOO_LARGE, message)
    return text.replace("\t", " ") if name.endswith(".json") else text


def _create_error(name: str, position: Position, code: str, message: str) -> LintFinding:
    return LintFinding.create(SourceLocation(name, *position), code, Severity.ERROR, message)
