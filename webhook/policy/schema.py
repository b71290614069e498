"""The JSON Schema of policy files: one file, for editors and for this gate.

What a schema cannot say (a quantity's grammar, a label key, a glob) is a `format` there, and
`webhook.policy.formats` is what each format means.
"""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

FILE_NAME = "schema.json"


@cache
def schema() -> dict[str, Any]:
    """The schema (draft 2020-12), read once from the package's data."""
    loaded: dict[str, Any] = json.loads(schema_text())
    return loaded


@cache
def homes(kind: str) -> dict[str, tuple[str, ...]]:
    """Where each field of a kind belongs: its name to the paths of the mappings that have it."""
    found: dict[str, list[str]] = {}
    for path in _fields(schema()["$defs"].get(kind, {}), ""):
        parent, _, name = path.rpartition(".")
        found.setdefault(name, []).append(parent)
    return {name: tuple(parents) for name, parents in found.items()}


def _fields(part: dict[str, Any], path: str) -> Iterator[str]:
    """The paths of all fields beneath a part of the schema, but for those inside lists."""
    referred = part.get("$ref", "").rpartition("/")[2]
    part = schema()["$defs"].get(referred, part)
    for name, below in part.get("properties", {}).items():
        within = f"{path}.{name}" if path else name
        yield within
        yield from _fields(below, within)


def schema_text() -> str:
    """The schema as it is shipped, to be written where an editor finds it."""
    return files("webhook.policy").joinpath(FILE_NAME).read_text(encoding="utf-8")
