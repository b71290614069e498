"""The JSON Schema of policy files: one file, for editors and for this gate.

What a schema cannot say (a quantity's grammar, a label key, a glob) is a `format` there, and
`webhook.policy.formats` is what each format means.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

FILE_NAME = "schema.json"


@cache
def schema() -> dict[str, Any]:
    """The schema (draft 2020-12), read once from the package's data."""
    loaded: dict[str, Any] = json.loads(schema_text())
    return loaded


def schema_text() -> str:
    """The schema as it is shipped, to be written where an editor finds it."""
    return files("webhook.policy").joinpath(FILE_NAME).read_text(encoding="utf-8")
