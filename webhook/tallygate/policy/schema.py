"""The JSON Schema of policy files, one file for editors and for the gate, and the findings of its validation.

A schema cannot express every demand (the grammar of a quantity, a label key, a glob): such a text has a `format`, which
`tallygate.policy.formats` checks.

jsonschema validates a document. This module turns each of its errors into a finding at the key or value with the error,
with a message that names a valid form.
"""

import json
from collections.abc import Callable, Iterator
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError

from tallygate.documents import syntax_tree
from tallygate.documents.scalars import Number
from tallygate.policy import policy_codes
from tallygate.policy.formats import FormatError, create_format_checker, quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.suggest import find_nearest, format_suggestion

SCHEMA_FILE_NAME = "schema.json"


class DocumentSchema:
    """The schema of one kind of document: JSON Schema, formats and the texts of its findings.

    `required_head` is the advice if apiVersion or kind is missing, `document_form` the form of a whole document.
    """

    def __init__(
        self, schema: AnyMapping[str, Any], formats: FormatChecker, *, required_head: str, document_form: str
    ) -> None:
        self.schema = schema
        self.required_head = required_head
        self.document_form = document_form
        self.validator = Draft202012Validator(schema, format_checker=formats)

    def list_parents(self, kind: str) -> dict[str, tuple[str, ...]]:
        """Return the fields of a kind: each name with the paths of the mappings that contain it."""
        parents_by_field: dict[str, list[str]] = {}
        for path in _list_field_paths(self.schema.get("$defs", {}).get(kind, {}), ""):
            parent, _, name = path.rpartition(".")
            parents_by_field.setdefault(name, []).append(parent)
        return {name: tuple(parents) for name, parents in parents_by_field.items()}


def _list_field_paths(schema_part: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of all fields below a part of the schema, except those inside lists."""
    for name, child in schema_part.get("properties", {}).items():
        field_path = f"{path}.{name}" if path else name
        yield field_path
        yield from _list_field_paths(child, field_path)


@cache
def get_policy_schema() -> DocumentSchema:
    return DocumentSchema(
        load_json_schema(),
        create_format_checker(),
        required_head="apiVersion: tallygate.dev/v1alpha1 and kind: ResourceRule, NamespaceCap, ImpliedRequest, "
        "WorkloadKind, NodeResource or NodeShape",
        document_form="a document must be a mapping with apiVersion, kind, metadata and spec",
    )


@cache
def load_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12), read once from the package's data."""
    loaded: dict[str, Any] = json.loads(read_schema_text())
    return loaded


def read_schema_text() -> str:
    """Return the text of the shipped schema, which a command can write to a file for editors."""
    return files("tallygate.policy").joinpath(SCHEMA_FILE_NAME).read_text(encoding="utf-8")


_ShapeProblem = tuple[syntax_tree.Node, str, str]
"""The node, the code and the message of a problem."""


@dataclass(frozen=True, slots=True)
class _SchemaError:
    """One error of jsonschema: the node and its path, the expected value, and the part of the schema."""

    document_schema: DocumentSchema
    kind: str
    node: syntax_tree.Node
    path: str
    expected: Any
    schema_part: Any
    cause: object
    key: syntax_tree.Scalar | None
    """The key with the error, or None if the error is in a value."""


_HEAD_FIELDS = frozenset({"apiVersion", "kind"})
_MAX_PARENTS = 4


def check_shape(
    file: str, document: syntax_tree.Node, document_schema: DocumentSchema | None = None
) -> set[LintFinding]:
    """Return the findings of a schema, by default the schema of policy files, about a document."""
    document_schema = document_schema or get_policy_schema()
    if not isinstance(document, syntax_tree.Mapping):
        return {_create_shape_finding(file, (document, policy_codes.UNKNOWN_KIND, document_schema.document_form))}
    errors = document_schema.validator.iter_errors(document.value)
    return {
        _create_shape_finding(file, problem)
        for error in errors
        for problem in _describe_error(document, error, document_schema)
    }


def _create_shape_finding(file: str, problem: _ShapeProblem) -> LintFinding:
    node, code, message = problem
    return LintFinding.create(SourceLocation(file, *node.position), code, Severity.ERROR, message)


def _describe_error(
    document: syntax_tree.Mapping, error: ValidationError, document_schema: DocumentSchema
) -> Iterator[_ShapeProblem]:
    node = syntax_tree.descend(document, error.absolute_path)
    is_key_error = "propertyNames" in error.absolute_schema_path
    entry = node.get_entry(str(error.instance)) if is_key_error and isinstance(node, syntax_tree.Mapping) else None
    key = entry.key if entry else None
    describe = _DESCRIBERS.get(str(error.validator))
    if describe is not None:
        kind = document.get("kind")
        kind_name = kind.text if isinstance(kind, syntax_tree.Scalar) else ""
        path, expected = _format_path(error), error.validator_value
        yield from describe(
            _SchemaError(document_schema, kind_name, node, path, expected, error.schema, error.cause, key)
        )


def _format_path(error: ValidationError) -> str:
    path = ""
    for step in error.absolute_path:
        path = syntax_tree.join_path(path, syntax_tree.truncate_text(step) if isinstance(step, str) else step)
    return path


def _prefix_path(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _describe_unknown_fields(error: _SchemaError) -> Iterator[_ShapeProblem]:
    known_fields = error.schema_part["properties"]
    for key in [entry.key for entry in error.node.entries] if isinstance(error.node, syntax_tree.Mapping) else ():
        if key.text not in known_fields:
            field = f"{error.path}.{syntax_tree.truncate_text(key.text)}".removeprefix(".")
            advice = (
                _suggest_from_habit(error, key)
                or format_suggestion(key.text, known_fields)
                or _suggest_parent(error, key.text)
                or (f"; known: {', '.join(known_fields)}")
            )
            yield key, policy_codes.UNKNOWN_FIELD, f"{field}: there is no such field here{advice}"


_ENFORCEMENT = "; a cap denies by hard and warns by soft: write the limit there"
_NAMESPACE_SELECTOR = "; write namespaces: {selector: %s}"
_HABITS = {
    ("NamespaceCap", "spec.enforcement"): _ENFORCEMENT,
    ("NamespaceCap", "spec.enforcementAction"): _ENFORCEMENT,
    ("NamespaceCap", "spec.validationFailureAction"): _ENFORCEMENT,
    ("NamespaceCap", "spec.namespaceSelector"): _NAMESPACE_SELECTOR,
    ("ResourceRule", "spec.match.namespaceSelector"): _NAMESPACE_SELECTOR,
    ("ResourceRule", "spec.namespaceSelector"): "; write match: {namespaces: {selector: %s}}",
    ("ResourceRule", "spec.enforcementAction"): "; write enforcement: deny, warn or audit",
    ("ResourceRule", "spec.validationFailureAction"): "; write enforcement: deny, warn or audit",
}
"""The fields by which other admission tools say it, and what says it here; `%s` is the value."""


def _suggest_from_habit(error: _SchemaError, key: syntax_tree.Scalar) -> str:
    """Return the advice on a field of another tool, or on labels that lack `matchLabels`, or an empty text."""
    node = error.node.get(key.text) if isinstance(error.node, syntax_tree.Mapping) else None
    advice = _HABITS.get((error.kind, f"{error.path}.{key.text}"), "")
    if "%s" in advice:
        return advice % (
            _format_value(node.value) if isinstance(node, syntax_tree.Mapping) else "{matchLabels: {team: x}}"
        )
    if not advice and "matchLabels" in error.schema_part["properties"] and isinstance(node, syntax_tree.Scalar):
        return f"; write matchLabels: {{{syntax_tree.truncate_text(key.text)}: {syntax_tree.truncate_text(node.text)}}}"
    return advice


def _suggest_parent(error: _SchemaError, name: str) -> str:
    """Return the parents in which a field of this name is valid, if there are at most four."""
    parents = [path or "the top level" for path in error.document_schema.list_parents(error.kind).get(name, ())]
    return f"; it belongs in {' or '.join(parents)}" if 0 < len(parents) <= _MAX_PARENTS else ""


def _describe_missing_fields(error: _SchemaError) -> Iterator[_ShapeProblem]:
    for name in error.expected:
        if isinstance(error.node, syntax_tree.Mapping) and error.node.get(name) is None:
            code = policy_codes.UNKNOWN_KIND if not error.path and name in _HEAD_FIELDS else policy_codes.MISSING_FIELD
            yield error.node, code, _prefix_path(error.path, f'"{name}" is missing; {_create_example(error, name)}')


def _create_example(error: _SchemaError, name: str) -> str:
    if name in _HEAD_FIELDS <= set(error.expected):
        return f"write {error.document_schema.required_head}"
    examples = error.schema_part.get("properties", {}).get(name, {}).get("examples")
    return f"write {name}: {_format_value(examples[0])}" if examples else "In and NotIn need values"


def _describe_missing_limits(error: _SchemaError) -> Iterator[_ShapeProblem]:
    names = [entry.key.text for entry in error.node.entries] if isinstance(error.node, syntax_tree.Mapping) else []
    if any(find_nearest(name, ("hard", "soft")) for name in names):
        return  # another error reports the misspelt field
    text = 'a cap needs "hard" or "soft"; write hard: {nvidia.com/gpu: 8}'
    yield error.node, policy_codes.MISSING_FIELD, _prefix_path(error.path, text)


def _describe_wrong_type(error: _SchemaError) -> Iterator[_ShapeProblem]:
    types = error.expected if isinstance(error.expected, list) else [error.expected]
    text = f"must be {' or '.join(_TYPE_NAMES[type_name] for type_name in types)}, not {_describe_node(error.node)}"
    yield (
        error.node,
        policy_codes.WRONG_TYPE,
        _prefix_path(error.path, f"{text}{_suggest_value(error.node, types, error.schema_part)}"),
    )


_TYPE_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def _describe_node(node: syntax_tree.Node) -> str:
    if isinstance(node, syntax_tree.Mapping):
        return "a mapping"
    if isinstance(node, syntax_tree.Sequence):
        return "a list"
    if node.value is None:
        return "empty"
    return f"the text {quote_text(node.text)}" if isinstance(node.value, str) else node.text


def _suggest_value(node: syntax_tree.Node, types: list[str], schema_part: Any) -> str:
    """Return the advice for a value of a wrong type, or an empty text."""
    fields = schema_part.get("properties", {})
    if isinstance(node, syntax_tree.Sequence) and types == ["object"] and "include" in fields:
        return f"; write {{include: {_format_value(node.value)}}}"
    if not isinstance(node, syntax_tree.Scalar):
        return ""
    if types == ["object"] and isinstance(node.value, str):
        return next(
            (form % syntax_tree.truncate_text(node.text) for name, form in _SHORT_FORMS.items() if name in fields), ""
        )
    if node.value is None:
        return "; give it a value or remove the field"
    if "boolean" in types:
        return (
            f"; write {'true' if node.text.lower() in _TRUE_TEXTS else 'false'}"
            if node.text.lower() in _TRUE_TEXTS | _FALSE_TEXTS
            else ""
        )
    if types == ["array"]:
        items = ", ".join(item.strip() for item in _format_value(node.value).split(","))
        return f"; write [{items}]"
    return _suggest_text(node, schema_part) if types == ["string"] else ""


def _suggest_text(node: syntax_tree.Scalar, schema_part: Any) -> str:
    """Return the advice for a value in the place of a text."""
    text_format = schema_part.get("format")
    if text_format in _TIME_FORMATS:
        return f"; write a number and a unit, as in {node.text}s or {node.text}m"
    if text_format == "percent":
        return f"; write {node.text}%"
    if text_format in {"end-time", "time"}:
        return f"; write it as in {schema_part['examples'][0]}"
    if "enum" in schema_part:
        return f"; write {_format_alternatives(schema_part['enum'])}"
    return f'; write "{node.text}" in quotes'


_SHORT_FORMS = {"label": "; write {label: %s}", "include": "; write {include: [%s]}"}
"""The mapping that a text in its place stands for, by a field that the mapping has."""
_TIME_FORMATS = frozenset({"duration", "period", "run-time"})
_TRUE_TEXTS = frozenset({"yes", "on", "y", "true", "1"})
_FALSE_TEXTS = frozenset({"no", "off", "n", "false", "0"})


_ENFORCEMENTS = {
    **dict.fromkeys(("enforce", "enforced"), "deny"),
    **dict.fromkeys(("dryrun", "dry-run", "log", "report"), "audit"),
    "warning": "warn",
}
"""The values of other admission tools, and those of `enforcement`."""


def _describe_unknown_value(error: _SchemaError) -> Iterator[_ShapeProblem]:
    if "type" in error.schema_part and not isinstance(error.node.value, str):
        return  # another error reports its wrong type
    known_values = error.expected
    texts = [value for value in known_values if isinstance(value, str)]
    hint = format_suggestion(error.node.text, texts) if isinstance(error.node, syntax_tree.Scalar) else ""
    if isinstance(error.node, syntax_tree.Scalar) and (meant := _ENFORCEMENTS.get(error.node.text.lower())) in texts:
        hint = f'; write "{meant}"'
    text = f"must be {_format_alternatives(known_values)}, not {_describe_node(error.node)}{hint}"
    yield (
        error.node,
        policy_codes.UNKNOWN_KIND if error.path in _HEAD_FIELDS else policy_codes.UNKNOWN_VALUE,
        _prefix_path(error.path, text),
    )


def _format_alternatives(values: list[Any]) -> str:
    formatted = [_format_value(value) for value in values]
    return formatted[0] if len(formatted) == 1 else f"{', '.join(formatted[:-1])} or {formatted[-1]}"


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_format_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_format_value(item) for item in value) + "]"
    return str(value) if isinstance(value, Number) or not isinstance(value, str) else value


def _describe_too_few(error: _SchemaError) -> Iterator[_ShapeProblem]:
    min_length = error.expected
    advice = "leave the field out" if min_length == 1 else "add more"
    yield (
        error.node,
        policy_codes.BAD_LENGTH,
        _prefix_path(
            error.path, f"must have at least {min_length} {_name_unit(min_length, error.node)}; add one or {advice}"
        ),
    )


def _name_unit(count: int, node: syntax_tree.Node) -> str:
    singular, plural = (
        ("entry", "entries")
        if isinstance(node, (syntax_tree.Sequence, syntax_tree.Mapping))
        else ("character", "characters")
    )
    return singular if count == 1 else plural


def _describe_too_many(error: _SchemaError) -> Iterator[_ShapeProblem]:
    max_length = error.expected
    if max_length == 0:
        text = "must be left out: Exists and DoesNotExist have no values"
    else:
        text = f"has {_count_entries(error.node):,} {_name_unit(2, error.node)}; at most {max_length:,} are read"
    yield error.node, policy_codes.BAD_LENGTH, _prefix_path(error.path, text)


def _count_entries(node: syntax_tree.Node) -> int:
    if isinstance(node, syntax_tree.Scalar):
        return len(node.text)
    return len(node.items if isinstance(node, syntax_tree.Sequence) else node.entries)


def _describe_repeated(error: _SchemaError) -> Iterator[_ShapeProblem]:
    seen: set[str] = set()
    for item in error.node.items if isinstance(error.node, syntax_tree.Sequence) else ():
        text = item.text if isinstance(item, syntax_tree.Scalar) else ""
        if text in seen and isinstance(item, syntax_tree.Scalar):
            yield (
                item,
                policy_codes.REPEATED,
                _prefix_path(error.path, f"{quote_text(text)} is given twice; remove one"),
            )
        seen.add(text)


def _describe_format_error(error: _SchemaError) -> Iterator[_ShapeProblem]:
    if isinstance(error.cause, FormatError):
        yield error.key or error.node, error.cause.code, _prefix_path(error.path, str(error.cause))


_DESCRIBERS: dict[str, Callable[[_SchemaError], Iterator[_ShapeProblem]]] = {
    "additionalProperties": _describe_unknown_fields,
    "required": _describe_missing_fields,
    "anyOf": _describe_missing_limits,
    "type": _describe_wrong_type,
    "enum": _describe_unknown_value,
    "minItems": _describe_too_few,
    "minProperties": _describe_too_few,
    "maxItems": _describe_too_many,
    "maxProperties": _describe_too_many,
    "maxLength": _describe_too_many,
    "uniqueItems": _describe_repeated,
    "format": _describe_format_error,
}
"""Descriptions by keyword, without `pattern` and `minimum` (a `format` is checked instead) and `const` (the kind)."""
