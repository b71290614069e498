"""The schemas of policies and receivers in that of the chart's values, so that Helm checks those that are values."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any, Final

_PACKAGE: Final = Path(__file__).parents[2] / "webhook" / "tallygate"
_LINE: Final = r'^    "{}": .*?(,?)$'
_TEXTS: Final = frozenset({"title", "description", "examples", "$comment", "$schema", "$id"})


def embed_schemas(values_schema: str) -> str:
    """Return the schema of the values with the definitions `policy` and `receiver` as their schemas are now.

    They have no descriptions there: Helm prints none, and stores the schema with each release. Draft 7, which all of
    Helm 3 reads, knows every keyword that they have.
    """
    policy = _read_schema("policy")
    receiver = _read_schema("server/notify")["properties"]["receivers"]["items"]
    for name, schema in (("policy", policy), ("receiver", receiver)):
        plain = _leave_out_texts(schema, is_keywords=True)
        text = json.dumps(plain, separators=(",", ":")).replace('"#/$defs/', f'"#/definitions/{name}/$defs/')
        line = re.compile(_LINE.format(name), re.MULTILINE)
        values_schema = line.sub(partial(_replace, f'    "{name}": {text}'), values_schema)
    return values_schema


def _replace(line: str, match: re.Match[str]) -> str:
    return line + match[1]


def _read_schema(folder: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((_PACKAGE / folder / "schema.json").read_text(encoding="utf-8"))
    return schema


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
