"""The reference of policy files, written from the schema: `python -m tests.policy.reference > docs/policies.md`."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from webhook.policy import parse as text
from webhook.policy.schema import load_json_schema

_TYPES = {"object": "mapping", "array": "list", "string": "text", "number": "number", "boolean": "true or false"}

_HEAD = """# Reference of policy files

Every field of both kinds, as the [schema](../webhook/policy/schema.json) says it; this page is written from there.
How to work with policies is told in [policies/README.md](../policies/README.md).

A file holds any number of documents, divided by `---`; a folder any number of files `*.yaml`, `*.yml` and `*.json`.
A document of one kind looks like this:

```yaml
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule        # or NamespaceCap
metadata: {name: whole-gpus}
spec: {…}
```
"""


def reference() -> str:
    """The whole page."""
    definitions = load_json_schema()["$defs"]
    parts = [_HEAD]
    for kind in ("ResourceRule", "NamespaceCap"):
        parts.append(f"\n## {kind}\n\n{definitions[kind]['description']}\n")
        parts.extend(fields(definitions[kind], "", definitions))
    return "".join(parts) + _limits()


def _limits() -> str:
    return (
        "\n## Bounds of what is read\n\n"
        f"- a file: {text.MAX_FILE_BYTES:,} bytes, {text.MAX_LINES:,} lines, {text.MAX_NODES:,} values, "
        f"{text.LIMITS.depth} levels deep\n"
        f"- a document: {text.LIMITS.expanded:,} values when aliases are written out\n"
        f"- in all: {text.MAX_FILES:,} files, {text.MAX_TOTAL_BYTES:,} bytes, {text.MAX_DOCUMENTS:,} documents\n"
        "\nWhat goes beyond is refused (TG302).\n"
    )


def fields(part: dict[str, Any], path: str, definitions: dict[str, Any]) -> Iterator[str]:
    """An entry for each field beneath a part of a schema, and for those beneath it."""
    for name, raw in part.get("properties", {}).items():
        field = _resolved(raw, definitions)
        below = f"{path}.{name}" if path else name
        yield _entry(below, field, required=name in part.get("required", []))
        inner = _resolved(field.get("items", {}), definitions)
        yield from fields(field, below, definitions)
        yield from fields(inner, f"{below}[]", definitions)


def _resolved(part: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in part:
        return part
    return {**_resolved(definitions[part["$ref"].rpartition("/")[2]], definitions), **part}


def _entry(path: str, field: dict[str, Any], *, required: bool) -> str:
    facts = [_type(field), "required" if required else f"default {_default(field)}"]
    shown = [f"`{_written(each)}`" for each in field.get("examples", [])]
    example = f"\n\nExample: {', '.join(shown)}" if shown else ""
    return f"\n### `{path}`\n\n*{'; '.join(facts)}*\n\n{field['description']}{example}\n"


def _type(field: dict[str, Any]) -> str:
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return "one of " + ", ".join(f"`{_written(each)}`" for each in field["enum"])
    types = field["type"] if isinstance(field["type"], list) else [field["type"]]
    return " or ".join(_TYPES[each] for each in types)


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    return "none" if default in (None, {}, [], "") else f"`{_written(default)}`"


def _written(value: Any) -> str:
    """A value as YAML in flow style, without quotes where none are needed."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(each) for each in value) + "]"
    if isinstance(value, str):
        return value if _is_bare(value) else json.dumps(value)
    return json.dumps(value)


def _is_bare(text: str) -> bool:
    return text[:1] not in "!*?&" and text not in {"yes", "1"} and not any(mark in text for mark in ":,#[]{}")


if __name__ == "__main__":
    sys.stdout.write(reference())
