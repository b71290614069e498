"""The table of the chart's values in its README and docs/reference/installation.md, from schema and defaults."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

BEGIN: Final = "<!-- values: begin -->"
END: Final = "<!-- values: end -->"


def update_values_table(page: str, schema: Path, defaults: Path) -> str:
    """Return the page with a new table between its marks.

    Raises:
        ValueError: if the page has no marks.
    """
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    head = ["| value | default | what it is |", "| --- | --- | --- |"]
    read: Mapping[str, Any] = yaml.safe_load(defaults.read_text(encoding="utf-8"))
    lines = [*head, *_rows("", json.loads(schema.read_text(encoding="utf-8"))["properties"], read)]
    return before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + after


def _rows(prefix: str, properties: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    for name, property_ in properties.items():
        if name not in defaults:
            continue  # Helm's own
        if "description" in property_:
            yield f"| `{prefix}{name}` | `{json.dumps(defaults[name])}` | {property_['description']} |"
        else:
            yield from _rows(f"{prefix}{name}.", property_["properties"], defaults[name])
