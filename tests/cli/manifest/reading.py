"""Reading text in tests: documents as Python values, or the fault that stopped it."""

from typing import Any

import msgspec

from webhook.cli.manifest.bounds import DEFAULT, Bounds
from webhook.cli.manifest.documents import documents
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.to_json import to_json


def values(text: str, bounds: Bounds = DEFAULT) -> list[Any]:
    """What the documents of a text mean."""
    return [msgspec.json.decode(to_json(found.root, bounds.expanded)) for found in documents(text, bounds)]


def fault(text: str, bounds: Bounds = DEFAULT) -> tuple[str, int, int, str]:
    """Code, line, column and message of the fault in a text."""
    found = refusal(text, bounds)
    assert found is not None
    return found.code, found.place.line, found.place.column, found.message


def refusal(text: str, bounds: Bounds) -> Fault | None:
    """The fault in a text, None when it can be read."""
    try:
        values(text, bounds)
    except Fault as found:
        return found
    return None
