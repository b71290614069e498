"""The one document of a configuration file, which has a schema of its own: receivers of messages, devices of a node."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tallygate.documents.syntax_tree import Node, Position, Scalar
from tallygate.policy import policy_codes
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.parse import read_policy_text
from tallygate.policy.scalar_checks import check_ambiguous_numbers
from tallygate.policy.schema import DocumentSchema, check_shape


@dataclass(frozen=True, slots=True)
class ConfigForm:
    """The form of a configuration: its schema, what it is called, the plural of its items, and an example of them."""

    schema: DocumentSchema
    name: str
    items: str
    example: str


def read_config_document(name: str, content: bytes, form: ConfigForm) -> tuple[Node | None, tuple[LintFinding, ...]]:
    """Return the document of a file of this name and content, None without one, and its findings in order."""
    documents, text_findings = read_policy_text(name, content)
    filled = [document for document in documents if not (isinstance(document, Scalar) and document.value is None)]
    findings = {*text_findings, *_check_count(name, filled, form, is_read=not text_findings)}
    reported = {(finding.line, finding.column) for finding in text_findings}
    for document in filled[:1]:
        shape = check_shape(name, document, form.schema)
        findings.update(finding for finding in shape if (finding.line, finding.column) not in reported)
        findings.update(replace(number, severity=Severity.ERROR) for number in check_ambiguous_numbers(name, document))
    return next(iter(filled), None), tuple(sorted(findings))


def create_config_error(name: str, position: Position, code: str, message: str) -> LintFinding:
    """Create a finding that makes a configuration unusable."""
    return LintFinding.create(SourceLocation(name, *position), code, Severity.ERROR, message)


def _check_count(name: str, documents: list[Node], form: ConfigForm, *, is_read: bool) -> Iterator[LintFinding]:
    if not documents and is_read:
        message = f"no {form.name} in it; write apiVersion, kind and {form.example}"
        yield create_config_error(name, Position(1, 1), policy_codes.UNREADABLE, message)
    for document in documents[1:2]:
        message = f"a second document; a file has one, with all its {form.items}: move them to the first"
        yield create_config_error(name, document.position, policy_codes.TOO_LARGE, message)
