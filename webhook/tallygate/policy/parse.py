"""The parser: from the bytes of policy files to a set of rules, caps, kinds and shapes, with all findings.

It does not stop at the first error, so that one run shows every finding of every file. Of a policy with errors the
parts that have none are linted: a copy without the invalid fields is built for that, and no gate uses it.

Each limit is checked before the work that it bounds. The limits are far above real policies and far below a size that
harms the gate: a ConfigMap has at most 1 MiB, a set of 1,000 rules is some 20,000 nodes in 400 kB.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import msgspec

from tallygate.accounting.node_shape import NodeShape
from tallygate.documents import syntax_tree
from tallygate.documents.composer import compose_policies
from tallygate.documents.syntax_tree import Sequence as SequenceNode
from tallygate.policy import model, policy_codes
from tallygate.policy.formats import split_counted_name
from tallygate.policy.kind_definitions import build_workload_kind, check_kind_definition, check_kind_names
from tallygate.policy.lint_caps import lint_cap
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.lint_implied import lint_implied_request
from tallygate.policy.lint_policies import lint_rule
from tallygate.policy.node_resource_definitions import build_node_resource, check_node_resource
from tallygate.policy.node_resources import NodeResource
from tallygate.policy.own_names import check_own_names, list_limits
from tallygate.policy.policy_builder import Fields, build_cap, build_implied_request, build_rule
from tallygate.policy.scalar_checks import check_ambiguous_numbers, check_cut_texts
from tallygate.policy.schema import check_shape
from tallygate.policy.shape_definitions import build_node_shape, check_shape_definition
from tallygate.policy.workload_kinds import WorkloadKind

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

LIMITS = syntax_tree.Limits(size=MAX_FILE_BYTES, depth=32, documents=2 * MAX_NODES, nodes=MAX_NODES, expanded=10_000)
"""A policy nests eight deep; its documents are limited over all files, by `MAX_DOCUMENTS`."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_CODES = {
    syntax_tree.ErrorKind.SYNTAX: policy_codes.SYNTAX,
    syntax_tree.ErrorKind.TOO_LARGE: policy_codes.TOO_LARGE,
    syntax_tree.ErrorKind.FEATURE: policy_codes.YAML_FEATURE,
    syntax_tree.ErrorKind.DUPLICATE_KEY: policy_codes.DUPLICATE_KEY,
}
_DIALECT_CODES = {policy_codes.YAML_FEATURE, policy_codes.DUPLICATE_KEY}
_KUSTOMIZE_GROUP = "kustomize.config.k8s.io"
_DEFINITION_CHECKS = {
    "WorkloadKind": check_kind_definition,
    "NodeResource": check_node_resource,
    "NodeShape": check_shape_definition,
}


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The result of parsing files.

    `policies` contains the documents of the right shape; use it only if `is_usable`. `scenario_count` is the number of
    scenarios of `tallygate test` beside them, which were skipped, and `foreign` has the places of other documents
    that are no policies, skipped too.
    """

    policies: model.PolicySet
    findings: tuple[LintFinding, ...]
    scenario_count: int = 0
    foreign: tuple[model.SourceLocation, ...] = ()

    @property
    def is_usable(self) -> bool:
        """True if no finding is an error."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


@dataclass(slots=True)
class _ParseState:
    """The result so far, over all files."""

    rules: list[model.ResourceRule] = field(default_factory=list)
    implied_requests: list[model.ImpliedRequest] = field(default_factory=list)
    caps: list[model.NamespaceCap] = field(default_factory=list)
    workload_kinds: list[WorkloadKind] = field(default_factory=list)
    node_resources: list[NodeResource] = field(default_factory=list)
    node_shapes: list[NodeShape] = field(default_factory=list)
    kind_names: list[tuple[model.SourceLocation, int, str]] = field(default_factory=list)
    defined_kinds: set[str] = field(default_factory=set)
    kind_locations: dict[tuple[str, str], model.SourceLocation] = field(default_factory=dict)
    findings: set[LintFinding] = field(default_factory=set)
    locations_by_name: dict[tuple[str, str], model.SourceLocation] = field(default_factory=dict)
    documents: int = 0
    scenario_count: int = 0
    foreign: list[model.SourceLocation] = field(default_factory=list)

    def add_finding(
        self, location: model.SourceLocation, code: str, message: str, severity: Severity = Severity.ERROR
    ) -> None:
        self.findings.add(LintFinding.create(location, code, severity, message))


def parse(
    files: Sequence[tuple[str, bytes]],
    extra_documents: Sequence[tuple[str, syntax_tree.Node]] = (),
    collected: Collection[str] = (),
) -> ParseResult:
    """Parse files, given as name and content, into one set, and then documents that are nodes already.

    `collected` names the files that a folder contains, and that the user has not named: documents of other tools in
    them are skipped. The digest covers the contents in their order: equal files give an equal digest in any folder.
    """
    state = _ParseState()
    if _check_limits(files, state):
        for name, content in files:
            _parse_file(name, content, state, skips_foreign=name in collected)
    for name, document in extra_documents:
        _parse_document(name, document, state, set())
    if state.kind_names:
        state.findings.update(check_kind_names(state.kind_names, state.defined_kinds))
    policies = model.PolicySet(
        rules=tuple(state.rules),
        caps=tuple(state.caps),
        digest=_compute_digest(files),
        files=tuple(name for name, _ in files),
        workload_kinds=tuple(state.workload_kinds),
        node_resources=tuple(state.node_resources),
        node_shapes=tuple(state.node_shapes),
        implied_requests=tuple(state.implied_requests),
    )
    findings = tuple(_limit_per_file(sorted(state.findings)))
    return ParseResult(policies, findings, state.scenario_count, tuple(state.foreign))


def is_scenario(document: syntax_tree.Node) -> bool:
    """Return whether a document is a scenario: it has steps, and is no object of an API."""
    return (
        isinstance(document, syntax_tree.Mapping)
        and document.get("steps") is not None
        and document.get("kind") is None
        and document.get("apiVersion") is None
    )


def is_policy(document: syntax_tree.Node) -> bool:
    """Return whether a document is a policy, correct or not, by its apiVersion."""
    api_version = document.get("apiVersion") if isinstance(document, syntax_tree.Mapping) else None
    return isinstance(api_version, syntax_tree.Scalar) and api_version.text.partition("/")[0] == model.POLICY_GROUP


def is_foreign(document: syntax_tree.Node) -> bool:
    """Return whether a document is that of another tool: a JSON schema, a kustomization, values.

    An object of another API is not, and neither is a policy with a mistake in its apiVersion or kind, or without both:
    to skip it would be to enforce less than its author may have meant.
    """
    if isinstance(document, SequenceNode):
        return not any(is_policy(item) for item in document.items)
    if not isinstance(document, syntax_tree.Mapping) or is_scenario(document):
        return False
    if Fields(document).get_text("apiVersion").partition("/")[0] == _KUSTOMIZE_GROUP:
        return True
    return bool(document.entries) and not any(document.get(name) for name in ("apiVersion", "kind", "spec"))


def _compute_digest(files: Sequence[tuple[str, bytes]]) -> str:
    digest = sha256()
    for _, content in files:
        digest.update(sha256(content).digest())
    return digest.hexdigest()[:16]


def _check_limits(files: Sequence[tuple[str, bytes]], state: _ParseState) -> bool:
    """Return whether the files together are within the bounds; add a finding if not."""
    if len(files) > MAX_FILES:
        message = f"{len(files):,} policy files; at most {MAX_FILES:,} are read: put several policies in one file"
        state.add_finding(model.SourceLocation(files[MAX_FILES][0], 1, 1), policy_codes.TOO_LARGE, message)
        return False
    total = sum(len(content) for _, content in files)
    if total > MAX_TOTAL_BYTES:
        message = f"the files up to this one have more than {MAX_TOTAL_BYTES:,} bytes together: remove some"
        state.add_finding(model.SourceLocation(files[-1][0], 1, 1), policy_codes.TOO_LARGE, message)
        return False
    return True


def _parse_file(name: str, content: bytes, state: _ParseState, *, skips_foreign: bool) -> None:
    text = _decode(name, content)
    if isinstance(text, LintFinding):
        state.findings.add(text)
        return
    documents, findings = _compose(name, text)
    foreign = [document for document in documents if is_foreign(document)] if skips_foreign else []
    state.foreign += (model.SourceLocation(name, *document.position) for document in foreign)
    if foreign and len(foreign) == len(documents):  # the dialect of policies does not bind other tools
        findings = [finding for finding in findings if finding.code not in _DIALECT_CODES]
    state.findings.update(findings)
    lines = _LINE_BREAK.split(text)
    for document in documents:
        state.documents += 1
        if state.documents > MAX_DOCUMENTS:
            message = f"more than {MAX_DOCUMENTS:,} documents in all files together"
            state.add_finding(model.SourceLocation(name, *document.position), policy_codes.TOO_LARGE, message)
            return
        if document in foreign:
            continue
        if is_scenario(document):
            state.scenario_count += 1
        elif not (isinstance(document, syntax_tree.Scalar) and document.value is None):
            _parse_document(name, document, state, {(finding.line, finding.column) for finding in findings})
            state.findings.update(check_cut_texts(name, document, lines))


def read_policy_text(name: str, content: bytes) -> tuple[list[syntax_tree.Node], list[LintFinding]]:
    """Return the documents of a file, and a finding for every error of its text; a byte order mark is ignored."""
    text = _decode(name, content)
    return ([], [text]) if isinstance(text, LintFinding) else _compose(name, text)


def _compose(name: str, text: str) -> tuple[list[syntax_tree.Node], list[LintFinding]]:
    documents, errors = compose_policies(text, LIMITS)
    return documents, [
        _create_error(name, error.position, _CODES[error.kind], f"{error.message}{_suggest_quotes(error)}")
        for error in errors
    ]


def _suggest_quotes(error: syntax_tree.DocumentError) -> str:
    """Return the advice on a path such as `spec.tasks[*].count` within brackets: there `*` begins an alias."""
    is_wildcard = error.kind is syntax_tree.ErrorKind.SYNTAX and "scanning an alias" in error.message
    return "; put a path with [*] in quotes" if is_wildcard else ""


def _decode(name: str, content: bytes) -> str | LintFinding:
    """Return the text of a file, or a finding with the reason for its absence."""
    if len(content) > MAX_FILE_BYTES:
        message = f"more than {MAX_FILE_BYTES:,} bytes, which is all that is read of one file: split it"
        return _create_error(name, syntax_tree.Position(1, 1), policy_codes.TOO_LARGE, message)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        return _create_error(
            name, syntax_tree.Position(line, column), policy_codes.UNREADABLE, "not UTF-8 text; save the file as UTF-8"
        )
    control = _CONTROL.search(text)
    if control:
        start = control.start()
        position = syntax_tree.Position(text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        message = f"a control character (U+{ord(control[0]):04X}) cannot stand in a policy file; remove it"
        return _create_error(name, position, policy_codes.UNREADABLE, message)
    if text.count("\n") + text.count("\r") > MAX_LINES:
        message = f"more than {MAX_LINES:,} lines, which is all that is read of one file: split it"
        return _create_error(name, syntax_tree.Position(MAX_LINES, 1), policy_codes.TOO_LARGE, message)
    return text.replace("\t", " ") if name.endswith(".json") else text


def _create_error(name: str, position: syntax_tree.Position, code: str, message: str) -> LintFinding:
    return LintFinding.create(model.SourceLocation(name, *position), code, Severity.ERROR, message)


def _parse_document(name: str, document: syntax_tree.Node, state: _ParseState, reported: set[tuple[int, int]]) -> None:
    """Parse one document; a value at a position with an earlier finding gets no second one."""
    shape_findings = check_own_names(name, document, check_shape(name, document))
    state.findings.update(finding for finding in shape_findings if (finding.line, finding.column) not in reported)
    state.findings.update(check_ambiguous_numbers(name, document))
    _check_named_twice(name, document, state)
    _check_annotations(name, document, state)
    fields = Fields(document)
    kind, spec = fields.get_text("kind"), fields.get_fields("spec")
    if kind in _DEFINITION_CHECKS:
        if kind == "WorkloadKind":
            state.defined_kinds.add(spec.get_text("kind"))
        mistakes = tuple(_DEFINITION_CHECKS[kind](name, document))
        state.findings.update(mistakes)
        if not shape_findings and all(mistake.severity is not Severity.ERROR for mistake in mistakes):
            _add_policy(name, fields, document, state)
        return
    for index, node in enumerate(spec.get_fields("match").get_items("kinds")):
        if kind == "ResourceRule" and isinstance(node, syntax_tree.Scalar) and isinstance(node.value, str):
            state.kind_names.append((model.SourceLocation(name, *node.position), index, node.text))
    if isinstance(document, syntax_tree.Mapping) and not shape_findings:
        _add_policy(name, fields, document, state)
    elif isinstance(document, syntax_tree.Mapping):
        state.findings.update(lint_valid_parts(name, document, shape_findings))


def _add_policy(name: str, fields: Fields, document: syntax_tree.Node, state: _ParseState) -> None:
    """Add the policy of a well-shaped document, unless another policy has its name already."""
    kind, policy_name = fields.get_text("kind"), fields.get_fields("metadata").get_text("name")
    node = fields.get_fields("metadata").get_node("name") or document
    location = model.SourceLocation(name, *document.position)
    first = state.locations_by_name.setdefault((kind, policy_name), location)
    if first is not location:
        message = f'there is another {kind} named "{policy_name}" at {first}; names are unique per kind: rename one'
        state.add_finding(model.SourceLocation(name, *node.position), policy_codes.DUPLICATE_POLICY, message)
    elif kind == "ResourceRule":
        state.rules.append(build_rule(document, location))
    elif kind == "NamespaceCap":
        state.caps.append(build_cap(document, location))
    elif kind == "NodeResource":
        state.node_resources.append(build_node_resource(document, location))
    elif kind == "NodeShape":
        state.node_shapes.append(build_node_shape(document))
    elif kind == "ImpliedRequest":
        state.implied_requests.append(build_implied_request(document, location))
    else:
        _add_workload_kind(build_workload_kind(document), location, state)


def _add_workload_kind(workload_kind: WorkloadKind, location: model.SourceLocation, state: _ParseState) -> None:
    """Add a kind, unless another document defines it already."""
    key = workload_kind.group, workload_kind.kind
    first = state.kind_locations.setdefault(key, location)
    if first is location:
        state.workload_kinds.append(workload_kind)
    else:
        message = f"{workload_kind.kind} of {workload_kind.group} is defined at {first} already; keep one of the two"
        state.add_finding(location, policy_codes.KIND_IS_READ, message)


def _check_named_twice(name: str, document: syntax_tree.Node, state: _ParseState) -> None:
    """Add an error for a cap that names both `X` and `requests.X`."""
    spec = Fields(document).get_fields("spec")
    limits = list_limits(spec) | {"devices": spec.list_entries("devices")}
    sections = {f"spec.{section}": entries for section, entries in limits.items()}
    for index, override in enumerate(spec.get_items("overrides")):
        sections[f"spec.overrides[{index}].hard"] = Fields(override).list_entries("hard")
    for section, entries in sections.items():
        keys = [entry.key for entry in entries]
        plain = {key.text for key in keys}
        for key in keys:
            prefix, bare = split_counted_name(key.text)
            if prefix == "requests." and bare in plain:
                message = f'{section}: "{bare}" and "{key.text}" both mean what is requested; keep one'
                state.add_finding(model.SourceLocation(name, *key.position), policy_codes.NAMED_TWICE, message)


def _check_annotations(name: str, document: syntax_tree.Node, state: _ParseState) -> None:
    """Add a warning for each annotation of this project that nothing reads."""
    for entry in Fields(document).get_fields("metadata").list_entries("annotations"):
        key = entry.key.text
        if key.partition("/")[0] == model.POLICY_GROUP and key != model.REASON_ANNOTATION:
            message = f'metadata.annotations: nothing reads "{key}"; did you mean "{model.REASON_ANNOTATION}"?'
            state.add_finding(
                model.SourceLocation(name, *entry.key.position),
                policy_codes.UNKNOWN_ANNOTATION,
                message,
                Severity.WARNING,
            )


def _limit_per_file(findings: list[LintFinding]) -> Iterator[LintFinding]:
    """Yield the findings, per file up to the maximum and one more with a note on the omitted ones."""
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.file] = counts.get(finding.file, 0) + 1
        if counts[finding.file] <= MAX_FINDINGS_PER_FILE:
            yield finding
        elif counts[finding.file] == MAX_FINDINGS_PER_FILE + 1:
            yield replace(finding, message=f"{finding.message}; and more beyond this one, not shown")


def lint_valid_parts(
    name: str, document: syntax_tree.Mapping, shape_findings: set[LintFinding]
) -> Iterator[LintFinding]:
    """Yield the findings of lint about those parts of a policy that have no error of shape."""
    spec, metadata = document.get("spec"), Fields(document).get_fields("metadata")
    if not isinstance(spec, syntax_tree.Mapping):
        return
    pruning = _Pruning({(finding.line, finding.column) for finding in shape_findings})
    valid_spec = pruning.copy_mapping(spec, "")
    head = {"apiVersion": model.API_VERSION, "kind": Fields(document).get_text("kind"), "metadata": {"name": "unnamed"}}
    valid = syntax_tree.Mapping(
        document.position, [*_create_mapping(head, syntax_tree.START).entries, _create_entry("spec", valid_spec)]
    )
    if check_shape(name, valid):
        return
    location, sections = model.SourceLocation(name, *document.position), frozenset(pruning.sections)
    policy_name = metadata.get_text("name")
    if head["kind"] == "ResourceRule":
        yield from lint_rule(msgspec.structs.replace(build_rule(valid, location), name=policy_name), sections)
    elif head["kind"] == "ImpliedRequest":
        yield from lint_implied_request(
            msgspec.structs.replace(build_implied_request(valid, location), name=policy_name), sections
        )
    else:
        yield from lint_cap(msgspec.structs.replace(build_cap(valid, location), name=policy_name), sections)


def _create_mapping(values: dict[str, Any], position: syntax_tree.Position) -> syntax_tree.Mapping:
    return syntax_tree.Mapping(
        position,
        [
            _create_entry(
                name,
                _create_mapping(value, position)
                if isinstance(value, dict)
                else syntax_tree.Scalar(position, value, value, plain=False),
            )
            for name, value in values.items()
        ],
    )


def _create_entry(name: str, value: syntax_tree.Node) -> syntax_tree.Entry:
    return syntax_tree.Entry(name, syntax_tree.Scalar(value.position, name, name, plain=False), value)


class _Pruning:
    """A copy of nodes without those at invalid positions; `sections` are the fields of the root that lost some."""

    def __init__(self, invalid_positions: set[tuple[int, int]]) -> None:
        self.sections: set[str] = set()
        self._invalid_positions = invalid_positions

    def copy_mapping(self, node: syntax_tree.Mapping, section: str) -> syntax_tree.Mapping:
        """Return the mapping without invalid entries, and without those that are empty without them."""
        entries: list[syntax_tree.Entry] = []
        for entry in node.entries:
            value = (
                None
                if entry.key.position in self._invalid_positions
                else self._copy(entry.value, section or entry.name)
            )
            if value is None:
                self.sections.add(section or entry.name)
            else:
                entries.append(syntax_tree.Entry(entry.name, entry.key, value))
        return syntax_tree.Mapping(node.position, entries)

    def _copy(self, node: syntax_tree.Node, section: str) -> syntax_tree.Node | None:
        """Return the valid part of a node, or None if nothing is left of it."""
        if isinstance(node, syntax_tree.Mapping):
            begins_with_key = bool(node.entries) and node.entries[0].key.position == node.position
            if node.position in self._invalid_positions and not begins_with_key:
                return None
            mapping = self.copy_mapping(node, section)
            return mapping if mapping.entries or not node.entries else None
        if node.position in self._invalid_positions:
            return None
        if isinstance(node, syntax_tree.Scalar):
            return node
        items = [copied for item in node.items if (copied := self._copy(item, section)) is not None]
        if len(items) < len(node.items):
            self.sections.add(section)
        return SequenceNode(node.position, items) if items or not node.items else None
