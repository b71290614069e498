"""The documents of a text as Python values, or its error."""

from typing import Any

import msgspec

from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS, DocumentError, ErrorKind, Limits
from tallygate.documents.to_json import to_json


def read_values(text: str, limits: Limits = DEFAULT_LIMITS) -> list[Any]:
    """Return the values of the documents of a text."""
    return [msgspec.json.decode(to_json(found.root, limits.expanded)) for found in read_documents(text, limits)]


def describe_error(text: str, limits: Limits = DEFAULT_LIMITS) -> tuple[ErrorKind, int, int, str]:
    """Return kind, line, column and message of the error of a text."""
    error = find_error(text, limits)
    assert error is not None
    return error.kind, *error.position, error.message


def find_error(text: str, limits: Limits) -> DocumentError | None:
    """Return the error of a text, None if it can be read."""
    try:
        read_values(text, limits)
    except DocumentError as error:
        return error
    return None
