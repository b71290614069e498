"""Parsing: from the bytes of policy files to a set of rules and caps, and everything that is wrong with them.

Nothing stops at the first error: what can be read is read, so that one run shows every finding of every file.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from webhook.policy import bounds
from webhook.policy.build import Fields, cap, rule
from webhook.policy.codes import AMBIGUOUS_NUMBER, DUPLICATE_POLICY, NAMED_TWICE, TOO_LARGE
from webhook.policy.compose import compose
from webhook.policy.decode import decoded
from webhook.policy.finding import Finding, Severity
from webhook.policy.formats import bare_name, shown
from webhook.policy.model import NamespaceCap, PolicySet, ResourceRule, Source
from webhook.policy.nodes import Mapping, Node, Number, Scalar
from webhook.policy.nodes import Sequence as SequenceNode
from webhook.policy.shape import misshapen


@dataclass(frozen=True, slots=True)
class Parsed:
    """What files say. `policies` holds what has the right shape, and may be used only when it is `usable`."""

    policies: PolicySet
    findings: tuple[Finding, ...]

    @property
    def usable(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


@dataclass(slots=True)
class _Reading:
    """What has been read so far, of all files."""

    rules: list[ResourceRule] = field(default_factory=list)
    caps: list[NamespaceCap] = field(default_factory=list)
    findings: set[Finding] = field(default_factory=set)
    named: dict[tuple[str, str], Source] = field(default_factory=dict)
    documents: int = 0

    def say(self, source: Source, code: str, message: str, severity: Severity = Severity.ERROR) -> None:
        self.findings.add(Finding.at(source, code, severity, message))


def parse(files: Sequence[tuple[str, bytes]], written: Sequence[tuple[str, Node]] = ()) -> Parsed:
    """Read files, given as name and content, into one set, and after them documents that are nodes already.

    The digest is of the contents in their order: the same files give the same digest wherever they are mounted.
    """
    reading = _Reading()
    if _within_bounds(files, reading):
        for name, content in files:
            _read_file(name, content, reading)
    for name, document in written:
        _read_document(name, document, reading, set())
    policies = PolicySet(
        rules=tuple(reading.rules),
        caps=tuple(reading.caps),
        digest=_digest(files),
        files=tuple(name for name, _ in files),
    )
    return Parsed(policies, tuple(_shortened(sorted(reading.findings))))


def _digest(files: Sequence[tuple[str, bytes]]) -> str:
    whole = sha256()
    for _, content in files:
        whole.update(sha256(content).digest())
    return whole.hexdigest()[:16]


def _within_bounds(files: Sequence[tuple[str, bytes]], reading: _Reading) -> bool:
    """Whether the files together may be read at all."""
    if len(files) > bounds.MAX_FILES:
        message = (
            f"{len(files):,} policy files; at most {bounds.MAX_FILES:,} are read: put several policies in one file"
        )
        reading.say(Source(files[bounds.MAX_FILES][0], 1, 1), TOO_LARGE, message)
        return False
    total = sum(len(content) for _, content in files)
    if total > bounds.MAX_TOTAL_BYTES:
        message = f"the files up to this one have more than {bounds.MAX_TOTAL_BYTES:,} bytes together: remove some"
        reading.say(Source(files[-1][0], 1, 1), TOO_LARGE, message)
        return False
    return True


def _read_file(name: str, content: bytes, reading: _Reading) -> None:
    text = decoded(name, content)
    if isinstance(text, Finding):
        reading.findings.add(text)
        return
    documents, findings = compose(name, text)
    reading.findings.update(findings)
    for document in documents:
        reading.documents += 1
        if reading.documents > bounds.MAX_DOCUMENTS:
            message = f"more than {bounds.MAX_DOCUMENTS:,} documents in all files together"
            reading.say(Source(name, document.line, document.column), TOO_LARGE, message)
            return
        if not (isinstance(document, Scalar) and document.value is None):
            _read_document(name, document, reading, {(finding.line, finding.column) for finding in findings})


def _read_document(name: str, document: Node, reading: _Reading, told: set[tuple[int, int]]) -> None:
    """Judge one document; of a value at a place that was told of already, nothing more is said."""
    misshapes = misshapen(name, document)
    reading.findings.update(one for one in misshapes if (one.line, one.column) not in told)
    reading.findings.update(ambiguous(name, document))
    _check_named_twice(name, document, reading)
    if isinstance(document, Mapping) and not misshapes:
        _add(name, document, reading)


def _add(name: str, document: Mapping, reading: _Reading) -> None:
    """Take up a well-shaped document, unless another one has its name already."""
    fields = Fields(document)
    kind, called = fields.text("kind"), fields.fields("metadata").text("name")
    node = fields.fields("metadata").node("name") or document
    source = Source(name, document.line, document.column)
    first = reading.named.setdefault((kind, called), source)
    if first is not source:
        said = f'there is another {kind} named "{called}" at {first}; names are unique per kind: rename one'
        reading.say(Source(name, node.line, node.column), DUPLICATE_POLICY, said)
    elif kind == "ResourceRule":
        reading.rules.append(rule(fields, source))
    else:
        reading.caps.append(cap(fields, source))


def ambiguous(name: str, document: Node) -> Iterator[Finding]:
    """A warning of each number that is another one to other readers of YAML."""
    for number in _ambiguous(document):
        said = f"{shown(number.text)} is decimal here, but octal to readers of YAML 1.1; write it without the zero"
        yield Finding.at(Source(name, number.line, number.column), AMBIGUOUS_NUMBER, Severity.WARNING, said)


def _ambiguous(node: Node) -> Iterator[Scalar]:
    """Numbers that begin with a zero they do not need."""
    if isinstance(node, Scalar):
        if isinstance(node.value, Number) and re.match(r"[-+]?0[0-9]", node.text):
            yield node
    elif isinstance(node, SequenceNode):
        for item in node.items:
            yield from _ambiguous(item)
    else:
        for _, value in node.pairs:
            yield from _ambiguous(value)


def _check_named_twice(name: str, document: Node, reading: _Reading) -> None:
    """A cap that names `X` and `requests.X` side by side."""
    spec = Fields(document).fields("spec")
    for where in ("hard", "soft"):
        amounts = spec.node(where)
        keys = [key for key, _ in amounts.pairs] if isinstance(amounts, Mapping) else []
        plain = {key.text for key in keys}
        for key in keys:
            prefix, bare = bare_name(key.text)
            if prefix == "requests." and bare in plain:
                said = f'spec.{where}: "{bare}" and "{key.text}" both mean what is requested; keep one'
                reading.say(Source(name, key.line, key.column), NAMED_TWICE, said)


def _shortened(findings: list[Finding]) -> Iterator[Finding]:
    """The findings, of each file at most so many, and then how many more there are."""
    shown: dict[str, int] = {}
    for finding in findings:
        shown[finding.file] = shown.get(finding.file, 0) + 1
        if shown[finding.file] <= bounds.MAX_FINDINGS_PER_FILE:
            yield finding
        elif shown[finding.file] == bounds.MAX_FINDINGS_PER_FILE + 1:
            yield replace(finding, message=f"{finding.message}; and more beyond this one, not shown")
