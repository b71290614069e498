"""The written form of documents: Structs that define the fields of a document, and the conversion of a node to them.

A field has its type, its default, and its description in the text below it; `Meta` has its bounds and examples. The
JSON schemas that are shipped are generated from these Structs (`python -m tests.schemas`), so that a field stands in
one place. jsonschema finds the mistakes of a document with their positions; a valid document is converted here.
"""

from typing import Any, TypeVar

import msgspec

from tallygate.accounting.percent import Percent
from tallygate.accounting.quantity import Quantity
from tallygate.documents.scalars import Number
from tallygate.documents.syntax_tree import Mapping, Node, Sequence
from tallygate.policy.periods import RunTime, Seconds, parse_period, parse_run_time

_MAX_DIGITS = 18
"""Whole numbers of documents have at most ten digits; a longer text stays a text."""

UNIQUE = {"uniqueItems": True}
"""The part of the schema of a list without repetitions."""


class Written(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A mapping of a document; a field of None, or with an empty list or mapping, is left out."""


WrittenType = TypeVar("WrittenType", bound=Written)


def read_plain(node: Node) -> Any:
    """Return the values of a node as dicts, lists, texts and numbers; each number is exact, or a text."""
    if isinstance(node, Mapping):
        return {entry.name: read_plain(entry.value) for entry in node.entries}
    if isinstance(node, Sequence):
        return [read_plain(item) for item in node.items]
    return _read_number(node.text) if isinstance(node.value, Number) else node.value


def _read_number(text: str) -> int | str:
    """Return a whole number with the text of its author, or the text alone."""
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        return text
    number = Number(int(text))
    number.text = text
    return number


def convert(plain: Any, written_type: type[WrittenType]) -> WrittenType:
    """Return the Struct of the values of a document that its schema has accepted."""
    return msgspec.convert(plain, written_type, dec_hook=_decode)


def _decode(custom_type: type, value: Any) -> object:
    read = getattr(custom_type, "read_written", None)
    return _READERS[custom_type](str(value)) if read is None else read(value)


_READERS = {
    Quantity: Quantity.parse,
    Seconds: parse_period,
    RunTime: parse_run_time,
    Percent: Percent.parse,
}
