"""The schema of policies in that of the chart's values, so that Helm checks policies that are values."""

import json
import re
from pathlib import Path
from typing import Any, Final

_SCHEMA: Final = Path(__file__).parents[2] / "webhook" / "tallygate" / "policy" / "schema.json"
_LINE: Final = re.compile(r'^    "policy": .*$', re.MULTILINE)
_TEXTS: Final = frozenset({"title", "description", "examples", "$comment", "$schema", "$id"})


def embed_policy_schema(values_schema: str) -> str:
    """Return the schema of the values with the definition `policy` as the schema of policies is now.

    It has no descriptions there: Helm prints none, and stores the schema with each release. Draft 7, which all of
    Helm 3 reads, knows every keyword that it has.
    """
    policy = _leave_out_texts(json.loads(_SCHEMA.read_text(encoding="utf-8")), is_keywords=True)
    text = json.dumps(policy, separators=(",", ":")).replace('"#/$defs/', '"#/definitions/policy/$defs/')
    return _LINE.sub(lambda _: f'    "policy": {text}', values_schema)


def _leave_out_texts(node: Any, *, is_keywords: bool) -> Any:
    """Return a part of a schema without texts for readers; the keys of `properties` and `$defs` are names."""
    if isinstance(node, list):
        return [_leave_out_texts(each, is_keywords=is_keywords) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        name: value
        if name in {"const", "enum", "default"}
        else _leave_out_texts(value, is_keywords=_has_keywords(name))
        for name, value in node.items()
        if not (is_keywords and name in _TEXTS)
    }


def _has_keywords(name: str) -> bool:
    return name not in {"properties", "$defs"}
