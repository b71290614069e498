"""The reader of JSON text: one object after another, as `kubectl get -o json` and generators write them.

No JSON library gives the position of a value. This reader accepts exactly RFC 8259, and the limit of depth bounds its
recursion.
"""

import json
import re
from collections.abc import Iterator

from tallygate.documents.scalars import parse_number
from tallygate.documents.syntax_tree import (
    START,
    DocumentError,
    Entry,
    ErrorKind,
    Limits,
    Mapping,
    Node,
    Position,
    Scalar,
    Sequence,
)

_BLANKS = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(
    r'(?P<mark>[{}\[\],:])|(?P<text>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|(?P<word>true|false|null)",
    re.ASCII,
)
_HALVES = re.compile("[\ud800-\udfff]")
"""Single halves of a character: Go reads each as U+FFFD (encoding/json, unquoteBytes)."""
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


class _Reader:
    """The next token (`kind`, `lexeme`, `position`); `kind` is empty at the end of the text."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text, self.limits = text, limits
        self.offset = self.line_start = self.nodes = 0
        self.line = 1
        self.kind = self.lexeme = ""
        self.position = START
        self.advance()

    def advance(self) -> None:
        """Read the next token."""
        blanks = _BLANKS.match(self.text, self.offset)
        start = blanks.end() if blanks else self.offset
        self._count_lines(start)
        self.position = Position(self.line, start - self.line_start + 1)
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
        """Return one of these marks and go to the next token."""
        if self.kind != "mark" or self.lexeme not in marks:
            raise self.create_error(" or ".join(f"'{mark}'" for mark in marks))
        token = self.lexeme
        self.advance()
        return token

    def create_error(self, expected: str) -> DocumentError:
        """Return the error of a token that differs from the expected one."""
        found = repr(self.lexeme) if self.lexeme else "the end of the text"
        return DocumentError(ErrorKind.SYNTAX, self.position, f"this is not JSON: expected {expected}, found {found}")

    def read_value(self, depth: int) -> Node:
        """Return the value that begins with the next token."""
        self.nodes += 1
        if depth > self.limits.depth:
            raise DocumentError(ErrorKind.TOO_LARGE, self.position, f"nested more than {self.limits.depth} levels deep")
        if self.nodes > self.limits.nodes:
            raise DocumentError(ErrorKind.TOO_LARGE, self.position, f"more than {self.limits.nodes} values in one file")
        if self.kind == "mark" and self.lexeme == "{":
            return self._read_object(depth)
        if self.kind == "mark" and self.lexeme == "[":
            return self._read_array(depth)
        return self._read_scalar()

    def _read_object(self, depth: int) -> Mapping:
        mapping = Mapping(self.position)
        self.take("{")
        if self.kind == "mark" and self.lexeme == "}":
            self.take("}")
            return mapping
        mark = ","
        while mark == ",":
            if self.kind != "text":
                raise self.create_error("a key in double quotes")
            key = self._read_scalar()
            self.take(":")
            mapping.entries.append(Entry(str(key.value), key, self.read_value(depth + 1)))
            mark = self.take(",", "}")
        return mapping

    def _read_array(self, depth: int) -> Sequence:
        sequence = Sequence(self.position)
        self.take("[")
        if self.kind == "mark" and self.lexeme == "]":
            self.take("]")
            return sequence
        mark = ","
        while mark == ",":
            sequence.items.append(self.read_value(depth + 1))
            mark = self.take(",", "]")
        return sequence

    def _read_scalar(self) -> Scalar:
        kind, token, position = self.kind, self.lexeme, self.position
        if kind not in ("text", "number", "word"):
            raise self.create_error("a value")
        self.advance()
        if kind == "text":
            text = _HALVES.sub("\ufffd", json.loads(token))
            return Scalar(position, text, text, plain=False)
        if kind == "word":
            return Scalar(position, token, _WORDS[token], plain=True)
        return Scalar(position, token, parse_number(token, token), plain=True)


def read_json(text: str, limits: Limits) -> Iterator[Node]:
    """Yield each object of the text.

    Raises:
        DocumentError: if the text is not JSON, or exceeds a limit; earlier objects have been yielded.
    """
    reader, count = _Reader(text, limits), 0
    while reader.lexeme:
        count += 1
        if count > limits.documents:
            message = f"more than {limits.documents} documents in one file"
            raise DocumentError(ErrorKind.TOO_LARGE, reader.position, message)
        if reader.lexeme != "{":
            raise reader.create_error("'{'")
        yield reader.read_value(1)
