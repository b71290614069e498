"""Conversion of decoded cases to typed objects."""

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def decode_object(decoded: Any, object_type: type[T]) -> T:
    """Return the typed object. Its quantities are JSON text, as in a request."""
    return msgspec.json.decode(json.dumps(decoded), type=object_type)
