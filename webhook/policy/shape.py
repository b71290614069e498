"""Shape: does a document hold what its kind's schema asks, and if not, what is wrong where.

jsonschema judges; here each of its errors becomes a finding at the key or value that is at fault, in words that say
what would pass.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jsonschema.exceptions import ValidationError

from webhook.policy.codes import (
    BAD_LENGTH,
    MISSING_FIELD,
    REPEATED,
    UNKNOWN_FIELD,
    UNKNOWN_KIND,
    UNKNOWN_VALUE,
    WRONG_TYPE,
)
from webhook.policy.finding import Finding, Severity
from webhook.policy.formats import FormatError, clipped, shown
from webhook.policy.model import Source
from webhook.policy.nodes import Mapping, Node, Number, Scalar, Sequence, descend, joined
from webhook.policy.schema import Language, policies
from webhook.policy.suggest import did_you_mean

_Told = tuple[Node, str, str]
"""Where, which code, and what is said."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """One error of jsonschema: the node and its path, what the keyword asked, and in which part of the schema."""

    language: Language
    kind: str
    node: Node
    path: str
    asked: Any
    within: Any
    cause: object
    key: Scalar | None
    """The key that is at fault, where it is one."""


_HEAD = frozenset({"apiVersion", "kind"})
_MOST_HOMES = 2


def misshapen(file: str, document: Node, language: Language | None = None) -> set[Finding]:
    """Everything that the schema of a language, or that of policies, holds against a document."""
    language = language or policies()
    if not isinstance(document, Mapping):
        return {_finding(file, (document, UNKNOWN_KIND, language.whole))}
    errors = language.validator.iter_errors(document.value)
    return {_finding(file, told) for error in errors for told in _tell(document, error, language)}


def _finding(file: str, told: _Told) -> Finding:
    node, code, message = told
    return Finding.at(Source(file, node.line, node.column), code, Severity.ERROR, message)


def _tell(document: Mapping, error: ValidationError, language: Language) -> Iterator[_Told]:
    node = descend(document, iter(error.absolute_path))
    of_key = "propertyNames" in error.absolute_schema_path
    key = node.key(str(error.instance)) if of_key and isinstance(node, Mapping) else None
    tell = _TELL.get(str(error.validator))
    if tell is not None:
        kind = document.get("kind")
        named = kind.text if isinstance(kind, Scalar) else ""
        path, asked = _path(error), error.validator_value
        yield from tell(_Refused(language, named, node, path, asked, error.schema, error.cause, key))


def _path(error: ValidationError) -> str:
    """The field as a person writes it: `spec.match.kinds[1]`."""
    path = ""
    for step in error.absolute_path:
        path = joined(path, clipped(step) if isinstance(step, str) else step)
    return path


def _named(path: str, said: str) -> str:
    return f"{path}: {said}" if path else said


def _unknown_fields(refused: _Refused) -> Iterator[_Told]:
    known = refused.within["properties"]
    for key, _ in refused.node.pairs if isinstance(refused.node, Mapping) else ():
        if key.text not in known:
            field = f"{refused.path}.{clipped(key.text)}".removeprefix(".")
            choice = did_you_mean(key.text, known) or _belongs(refused, key.text) or f"; known: {', '.join(known)}"
            yield key, UNKNOWN_FIELD, f"{field}: there is no such field here{choice}"


def _belongs(refused: _Refused, name: str) -> str:
    """Where a field of this name would be right, if that is one place or two."""
    where = [path or "the top level" for path in refused.language.homes(refused.kind).get(name, ())]
    return f"; it belongs in {' or '.join(where)}" if 0 < len(where) <= _MOST_HOMES else ""


def _missing_fields(refused: _Refused) -> Iterator[_Told]:
    for name in refused.asked:
        if isinstance(refused.node, Mapping) and refused.node.get(name) is None:
            code = UNKNOWN_KIND if not refused.path and name in _HEAD else MISSING_FIELD
            yield refused.node, code, _named(refused.path, f'"{name}" is missing; {_example(refused, name)}')


def _example(refused: _Refused, name: str) -> str:
    """What to write for a missing field, from the schema's own examples."""
    described = refused.within.get("properties", {}).get(name, {})
    if name in _HEAD:
        return f"write {refused.language.head}"
    examples = refused.language.definitions.get(described.get("$ref", "").rpartition("/")[2], described).get("examples")
    return f"write {name}: {_written(examples[0])}" if examples else "In and NotIn need values"


def _neither(refused: _Refused) -> Iterator[_Told]:
    said = 'a cap needs "hard" or "soft"; write hard: {nvidia.com/gpu: 8}'
    yield refused.node, MISSING_FIELD, _named(refused.path, said)


def _wrong_type(refused: _Refused) -> Iterator[_Told]:
    wanted = refused.asked if isinstance(refused.asked, list) else [refused.asked]
    said = f"must be {' or '.join(_TYPES[each] for each in wanted)}, not {_kind_of(refused.node)}"
    yield refused.node, WRONG_TYPE, _named(refused.path, f"{said}{_remedy(refused.node, wanted)}")


_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def _kind_of(node: Node) -> str:
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    if node.value is None:
        return "empty"
    return f"the text {shown(node.text)}" if isinstance(node.value, str) else node.text


def _remedy(node: Node, wanted: list[str]) -> str:
    """What to write instead, where that can be told."""
    if not isinstance(node, Scalar):
        return ""
    if node.value is None:
        return "; give it a value or remove the field"
    if "boolean" in wanted:
        return f"; write {'true' if node.text.lower() in _YES else 'false'}" if node.text.lower() in _YES | _NO else ""
    if wanted == ["array"]:
        return f"; write [{_written(node.value)}]"
    return f'; write "{node.text}" in quotes' if wanted == ["string"] else ""


_YES = frozenset({"yes", "on", "y", "true", "1"})
_NO = frozenset({"no", "off", "n", "false", "0"})


def _unknown_value(refused: _Refused) -> Iterator[_Told]:
    if "type" in refused.within and not isinstance(refused.node.value, str):
        return  # its type is wrong already
    known = refused.asked
    texts = [each for each in known if isinstance(each, str)]
    hint = did_you_mean(refused.node.text, texts) if isinstance(refused.node, Scalar) else ""
    said = f"must be {_alternatives(known)}, not {_kind_of(refused.node)}{hint}"
    yield refused.node, UNKNOWN_KIND if refused.path in _HEAD else UNKNOWN_VALUE, _named(refused.path, said)


def _alternatives(known: list[Any]) -> str:
    written = [_written(each) for each in known]
    return written[0] if len(written) == 1 else f"{', '.join(written[:-1])} or {written[-1]}"


def _written(value: Any) -> str:
    """A value as YAML writes it in flow style."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(each) for each in value) + "]"
    return str(value) if isinstance(value, Number) or not isinstance(value, str) else value


def _too_few(refused: _Refused) -> Iterator[_Told]:
    least = refused.asked
    advice = "leave the field out" if least == 1 else "add more"
    yield (
        refused.node,
        BAD_LENGTH,
        _named(refused.path, f"must have at least {least} {_counted(least, refused.node)}; add one or {advice}"),
    )


def _counted(number: int, node: Node) -> str:
    one, many = ("entry", "entries") if isinstance(node, (Sequence, Mapping)) else ("character", "characters")
    return one if number == 1 else many


def _too_many(refused: _Refused) -> Iterator[_Told]:
    most = refused.asked
    if most == 0:
        said = "must be left out: Exists and DoesNotExist have no values"
    else:
        said = f"has {_length(refused.node):,} {_counted(2, refused.node)}; at most {most:,} are read"
    yield refused.node, BAD_LENGTH, _named(refused.path, said)


def _length(node: Node) -> int:
    if isinstance(node, Scalar):
        return len(node.text)
    return len(node.items if isinstance(node, Sequence) else node.pairs)


def _repeated(refused: _Refused) -> Iterator[_Told]:
    seen: set[str] = set()
    for item in refused.node.items if isinstance(refused.node, Sequence) else ():
        text = item.text if isinstance(item, Scalar) else ""
        if text in seen and isinstance(item, Scalar):
            yield item, REPEATED, _named(refused.path, f"{shown(text)} stands here twice; remove one")
        seen.add(text)


def _ill_formed(refused: _Refused) -> Iterator[_Told]:
    if isinstance(refused.cause, FormatError):
        yield refused.key or refused.node, refused.cause.code, _named(refused.path, str(refused.cause))


_TELL: dict[str, Callable[[_Refused], Iterator[_Told]]] = {
    "additionalProperties": _unknown_fields,
    "required": _missing_fields,
    "anyOf": _neither,
    "type": _wrong_type,
    "enum": _unknown_value,
    "minItems": _too_few,
    "minProperties": _too_few,
    "maxItems": _too_many,
    "maxProperties": _too_many,
    "maxLength": _too_many,
    "uniqueItems": _repeated,
    "format": _ill_formed,
}
"""Left out: `pattern` and `minimum`, which tell editors what a format says here, and `const`, which chose the kind."""
