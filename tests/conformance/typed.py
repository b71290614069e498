"""A decoded case as one of the typed records that the functions under test take."""

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def typed(decoded: Any, record: type[T]) -> T:
    """The record. Quantities come to it as JSON text, as they do from the wire."""
    return msgspec.json.decode(json.dumps(decoded), type=record)
