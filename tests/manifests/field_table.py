"""The table of the fields of all kinds that are read, from the models of the official client.

`python -m tests.manifests.field_table` writes it. The client takes most of a second to import, so the command reads
the table instead.
"""

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kubernetes.client import models

from tallygate.admission.kinds import BUILT_IN_TARGETS

TABLE = Path(__file__).parents[2] / "webhook" / "tallygate" / "manifests" / "fields.json"

_OLDER_FIELDS = {
    "V1NodeAllocatableResourceClaimStatus": ("resources",),
    "V1PodSpec": ("workloadRef",),
}
"""Fields that API servers of 1.34 to 1.36 know and 1.37 does not (api/openapi-spec/swagger.json of each minor)."""

_LONGER_NAMES = {"V1ResourceClaim": "ResourceV1ResourceClaim"}
"""The model of each kind whose name another API group uses too."""


def get_client_minor() -> int:
    """Return the minor version of Kubernetes that the installed client is made for."""
    return int(version("kubernetes").split(".")[0])


def create_table() -> dict[str, Any]:
    """Return the minor version, and each type with its fields: a field of another type has the name of that type."""
    types: dict[str, dict[str, str]] = {}
    waiting = [f"V1{kind}" for _, kind in BUILT_IN_TARGETS]
    while waiting:
        name = waiting.pop()
        if name in types:
            continue
        model = getattr(models, _LONGER_NAMES.get(name, name))
        types[name] = {
            model.attribute_map[attribute]: _find_model(written) for attribute, written in model.openapi_types.items()
        }
        waiting += filter(None, types[name].values())
        types[name] |= dict.fromkeys(_OLDER_FIELDS.get(name, ()), "")
    return {"minor": get_client_minor(), "types": types}


def _find_model(written: str) -> str:
    """Return the model in a type such as `List[V1Container]`, or an empty text."""
    names = re.findall(r"\w+", written)
    return names[-1] if hasattr(models, names[-1]) else ""


def format_table(table: dict[str, Any]) -> str:
    """Return the table as JSON with one type on each line."""
    rows = [f"    {json.dumps(name)}: {json.dumps(fields, sort_keys=True)}" for name, fields in table["types"].items()]
    body = ",\n".join(sorted(rows))
    return f'{{\n  "minor": {table["minor"]},\n  "types": {{\n{body}\n  }}\n}}\n'


if __name__ == "__main__":
    TABLE.write_text(format_table(create_table()))
