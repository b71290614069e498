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

from webhook.policy.formats import create_format_checker

SCHEMA_FILE_NAME = "schema.json"


class DocumentSchema:
    """What documents of one kind of file may say: their schema, what its formats mean, and how to tell of a slip.

    `head` says what to write at the top where apiVersion or kind is missing, `whole` what a document is.
    """

    def __init__(
        self, schema: Mapping[str, Any], formats: FormatChecker, *, required_head: str, document_form: str
    ) -> None:
        self.schema = schema
        self.required_head = required_head
        self.document_form = document_form
        self.validator = Draft202012Validator(schema, format_checker=formats)

    @cached_property
    def definitions(self) -> Mapping[str, Any]:
        """The parts of the schema that have names."""
        definitions: Mapping[str, Any] = self.schema["$defs"]
        return definitions

    def list_parents(self, kind: str) -> dict[str, tuple[str, ...]]:
        """Where each field of a kind belongs: its name to the paths of the mappings that have it."""
        parents_by_field: dict[str, list[str]] = {}
        for path in self._list_field_paths(self.definitions.get(kind, {}), ""):
            parent, _, name = path.rpartition(".")
            parents_by_field.setdefault(name, []).append(parent)
        return {name: tuple(parents) for name, parents in parents_by_field.items()}

    def _list_field_paths(self, schema_part: dict[str, Any], path: str) -> Iterator[str]:
        """The paths of all fields beneath a part of the schema, but for those inside lists."""
        definition_name = schema_part.get("$ref", "").rpartition("/")[2]
        schema_part = self.definitions.get(definition_name, schema_part)
        for name, child in schema_part.get("properties", {}).items():
            field_path = f"{path}.{name}" if path else name
            yield field_path
            yield from self._list_field_paths(child, field_path)


@cache
def get_policy_schema() -> DocumentSchema:
    """The language of policy files."""
    return DocumentSchema(
        load_json_schema(),
        create_format_checker(),
        required_head="apiVersion: tallygate.dev/v1alpha1 and kind: ResourceRule or NamespaceCap",
        document_form="a document must be a mapping with apiVersion, kind, metadata and spec",
    )


@cache
def load_json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12), read once from the package's data."""
    loaded: dict[str, Any] = json.loads(read_schema_text())
    return loaded


def read_schema_text() -> str:
    """The schema as it is shipped, to be written where an editor finds it."""
    return files("webhook.policy").joinpath(SCHEMA_FILE_NAME).read_text(encoding="utf-8")
