"""The decoder of policy files: from bytes to text, within the bounds."""

import re

from webhook.policy import bounds
from webhook.policy.lint_findings import LintFinding, Severity
from webhook.policy.model import SourceLocation
from webhook.policy.policy_codes import TOO_LARGE, UNREADABLE

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


def decoded(name: str, content: bytes) -> str | LintFinding:
    """Return the text of a file, or a finding with the reason for its absence; a UTF-8 byte order mark is ignored."""
    if len(content) > bounds.MAX_FILE_BYTES:
        message = f"more than {bounds.MAX_FILE_BYTES:,} bytes, which is all that is read of one file: split it"
        return _error(SourceLocation(name, 1, 1), TOO_LARGE, message)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        return _error(SourceLocation(name, line, column), UNREADABLE, "not UTF-8 text; save the file as UTF-8")
    found = _CONTROL.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - (text.rfind("\n", 0, found.start()) + 1) + 1
        message = f"a control character (U+{ord(found[0]):04X}) cannot stand in a policy file; remove it"
        return _error(SourceLocation(name, line, column), UNREADABLE, message)
    if text.count("\n") + text.count("\r") > bounds.MAX_LINES:
        message = f"more than {bounds.MAX_LINES:,} lines, which is all that is read of one file: split it"
        return _error(SourceLocation(name, bounds.MAX_LINES, 1), TOO_LARGE, message)
    return text.replace("\t", " ") if name.endswith(".json") else text


def _error(source: SourceLocation, code: str, message: str) -> LintFinding:
    return LintFinding.create(source, code, Severity.ERROR, message)
