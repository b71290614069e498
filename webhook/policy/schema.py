"""The JSON Schema of policy files: one file, for editors and for this gate.

What a schema cannot say (a quantity's grammar, a label key, a glob) is a `format` there, and
`webhook.policy.formats` is what each format means.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from webhook.policy.formats import checker

FILE_NAME = "schema.json"


class Language:
    """What documents of one kind of file may say: their schema, what its formats mean, and how to tell of a slip.

    `head` says what to write at the top where apiVersion or kind is missing, `whole` what a document is.
    """

    def __init__(self, schema: Mapping[str, Any], formats: FormatChecker, *, head: str, whole: str) -> None:
        self.schema = schema
        self.head = head
        self.whole = whole
        self.validator = Draft202012Validator(schema, format_checker=formats)

    @cached_property
    def definitions(self) -> Mapping[str, Any]:
        """The parts of the schema that have names."""
        found: Mapping[str, Any] = self.schema["$defs"]
        return found

    def homes(self, kind: str) -> dict[str, tuple[str, ...]]:
        """Where each field of a kind belongs: its name to the paths of the mappings that have it."""
        found: dict[str, list[str]] = {}
        for path in self._fields(self.definitions.get(kind, {}), ""):
            parent, _, name = path.rpartition(".")
            found.setdefault(name, []).append(parent)
        return {name: tuple(parents) for name, parents in found.items()}

    def _fields(self, part: dict[str, Any], path: str) -> Iterator[str]:
        """The paths of all fields beneath a part of the schema, but for those inside lists."""
        referred = part.get("$ref", "").rpartition("/")[2]
        part = self.definitions.get(referred, part)
        for name, below in part.get("properties", {}).items():
            within = f"{path}.{name}" if path else name
            yield within
            yield from self._fields(below, within)


@cache
def policies() -> Language:
    """The language of policy files."""
    return Language(
        schema(),
        checker(),
        head="apiVersion: tallygate.dev/v1alpha1 and kind: ResourceRule or NamespaceCap",
        whole="a document must be a mapping with apiVersion, kind, metadata and spec",
    )


@cache
def schema() -> dict[str, Any]:
    """The schema (draft 2020-12), read once from the package's data."""
    loaded: dict[str, Any] = json.loads(schema_text())
    return loaded


def schema_text() -> str:
    """The schema as it is shipped, to be written where an editor finds it."""
    return files("webhook.policy").joinpath(FILE_NAME).read_text(encoding="utf-8")
