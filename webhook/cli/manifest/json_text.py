"""JSON text to nodes: one object after another, as `kubectl get -o json` and generators write them.

A reader of our own because no JSON library tells where a value stands. It accepts exactly RFC 8259, and its recursion
is held by the bound on depth.
"""

import json
import re
from collections.abc import Iterator

from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.nodes import Entry, Mapping, Node, Place, Scalar, Sequence
from webhook.cli.manifest.scalars import number

_BLANKS = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(
    r'(?P<mark>[{}\[\],:])|(?P<text>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|(?P<word>true|false|null)",
    re.ASCII,
)
_HALVES = re.compile("[\ud800-\udfff]")
"""Halves of a character that stand alone: Go reads each as U+FFFD (encoding/json, unquoteBytes)."""
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


class _Reader:
    """The next token (`kind`, `lexeme`, `place`), and how to go on from it. `kind` is empty at the end of the text."""

    def __init__(self, text: str, bounds: Bounds) -> None:
        self.text, self.bounds = text, bounds
        self.offset = self.line_start = self.nodes = 0
        self.line = 1
        self.kind = self.lexeme = ""
        self.place = Place(1, 1)
        self.advance()

    def advance(self) -> None:
        """Move on to the next token."""
        blanks = _BLANKS.match(self.text, self.offset)
        start = blanks.end() if blanks else self.offset
        self._count_lines(start)
        self.place = Place(self.line, start - self.line_start + 1)
        match = _TOKEN.match(self.text, start)
        self.kind = (match.lastgroup or "") if match else ""
        self.lexeme = match[0] if match else self.text[start : start + 1]
        self.offset = start + len(self.lexeme)

    def _count_lines(self, start: int) -> None:
        newlines = self.text.count("\n", self.offset, start)
        if newlines:
            self.line += newlines
            self.line_start = self.text.rfind("\n", self.offset, start) + 1

    def take(self, *marks: str) -> str:
        """Step over one of these marks and say which it was."""
        if self.kind != "mark" or self.lexeme not in marks:
            raise self.fault(" or ".join(f"'{mark}'" for mark in marks))
        token = self.lexeme
        self.advance()
        return token

    def fault(self, expected: str) -> Fault:
        """The fault that something else stands where `expected` should."""
        found = repr(self.lexeme) if self.lexeme else "the end of the text"
        return Fault("TG401", self.place, f"this is not JSON: expected {expected}, found {found}")

    def value(self, depth: int) -> Node:
        """The value that starts here."""
        self.nodes += 1
        if depth > self.bounds.depth:
            raise Fault("TG402", self.place, f"nested more than {self.bounds.depth} levels deep")
        if self.nodes > self.bounds.nodes:
            raise Fault("TG402", self.place, f"more than {self.bounds.nodes} values in one file")
        if self.kind == "mark" and self.lexeme == "{":
            return self._object(depth)
        if self.kind == "mark" and self.lexeme == "[":
            return self._array(depth)
        return self._scalar()

    def _object(self, depth: int) -> Mapping:
        mapping = Mapping(self.place)
        self.take("{")
        if self.kind == "mark" and self.lexeme == "}":
            self.take("}")
            return mapping
        mark = ","
        while mark == ",":
            if self.kind != "text":
                raise self.fault("a key in double quotes")
            key = self._scalar()
            self.take(":")
            mapping.entries.append(Entry(str(key.value), key, self.value(depth + 1)))
            mark = self.take(",", "}")
        return mapping

    def _array(self, depth: int) -> Sequence:
        sequence = Sequence(self.place)
        self.take("[")
        if self.kind == "mark" and self.lexeme == "]":
            self.take("]")
            return sequence
        mark = ","
        while mark == ",":
            sequence.items.append(self.value(depth + 1))
            mark = self.take(",", "]")
        return sequence

    def _scalar(self) -> Scalar:
        kind, token, place = self.kind, self.lexeme, self.place
        end = Place(place.line, place.column + len(token))
        if kind not in ("text", "number", "word"):
            raise self.fault("a value")
        self.advance()
        if kind == "text":
            text = _HALVES.sub("\ufffd", json.loads(token))
            return Scalar(text, text, place, end)
        if kind == "word":
            return Scalar(_WORDS[token], token, place, end)
        return Scalar(number(token, token), token, place, end)


def read(text: str, bounds: Bounds) -> Iterator[tuple[Node, Place]]:
    """Each object of the text and where it begins.

    Raises:
        Fault: the text is not JSON, or beyond the bounds; what came before has been yielded.
    """
    reader, documents = _Reader(text, bounds), 0
    while reader.lexeme:
        documents += 1
        if documents > bounds.documents:
            raise Fault("TG402", reader.place, f"more than {bounds.documents} documents in one file")
        if reader.lexeme != "{":
            raise reader.fault("'{'")
        place = reader.place
        yield reader.value(1), place
