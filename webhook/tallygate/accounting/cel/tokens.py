"""Tokens of an expression, and the values of its literals (parser/gen/CEL.g4, parser/unescape.go)."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from tallygate.accounting.cel.syntax import ExpressionError, TextPosition

_HEX = "[0-9a-fA-F]"
_ESCAPE = rf"\\(?:[abfnrtv\"'\\?`]|[xX]{_HEX}{{2}}|u{_HEX}{{4}}|U{_HEX}{{8}}|[0-3][0-7][0-7])"
_RAW = r"""[rR](?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"[^"\n\r]*"|'[^'\n\r]*')"""
_QUOTED = (
    rf'"{{3}}(?:{_ESCAPE}|[^\\])*?"{{3}}' + "|" + rf"'{{3}}(?:{_ESCAPE}|[^\\])*?'{{3}}"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"' + rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN = re.compile(
    rf"""
    (?P<blank>[\t\ \r\n\f]+|//[^\n]*)
    |(?P<bytes>[bB](?:{_RAW}|{_QUOTED}))
    |(?P<string>{_RAW}|{_QUOTED})
    |(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>0x{_HEX}+[uU]|[0-9]+[uU])
    |(?P<int>0x{_HEX}+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>==|!=|<=|>=|&&|\|\||[\[\]{{}}().,\-!?:+*/%<>])
    """,
    re.VERBOSE,
)
_WORDS = {"in", "true", "false", "null"}
_ESCAPED = re.compile(r"\\(?:([abfnrtv\"'\\?`])|[xX](..)|u(.{4})|U(.{8})|([0-3][0-7][0-7]))", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INT_RANGE: Final = (-(2**63), 2**63 - 1)
_UINT_RANGE: Final = (0, 2**64 - 1)
_LARGEST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class Token(NamedTuple):
    """A token with its form: `string`, `bytes`, `double`, `uint`, `int`, `name`, `sign` or `end`."""

    form: str
    text: str
    position: TextPosition


def scan_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of an expression, and one of the form `end`.

    Raises:
        ExpressionError: if a character begins no token.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def locate(offset: int) -> TextPosition:
        line = bisect_right(starts, offset)
        return TextPosition(line, offset - starts[line - 1] + 1)

    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise ExpressionError(f"syntax error: no token begins with {text[offset]!r}", locate(offset))
        form = match.lastgroup or ""
        if form != "blank":
            yield Token("sign" if match[0] in _WORDS else form, match[0], locate(offset))
        offset = match.end()
    yield Token("end", "", locate(offset))


def read_int(text: str, position: TextPosition) -> int:
    """Return the value of an integer with its sign, which must fit an int64."""
    return _read_within(text, position, _INT_RANGE, "int")


def read_uint(text: str, position: TextPosition) -> int:
    """Return the value of an unsigned integer, which must fit a uint64."""
    return _read_within(text[:-1], position, _UINT_RANGE, "uint")


def read_double(text: str, position: TextPosition) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ExpressionError("invalid double literal", position)
    return value


def read_string(token: Token) -> str:
    """Return the text of a string literal without quotes and escapes."""
    text, is_raw = _remove_quotes(token.text)
    return text if is_raw else _ESCAPED.sub(lambda match: _decode_escape(match, token.position), text)


def read_bytes(token: Token) -> bytes:
    text, is_raw = _remove_quotes(token.text[1:])
    if is_raw:
        return text.encode()
    parts = []
    offset = 0
    for match in _ESCAPED.finditer(text):
        parts.append(text[offset : match.start()].encode())
        parts.append(_decode_byte(match, token.position))
        offset = match.end()
    parts.append(text[offset:].encode())
    return b"".join(parts)


def _read_within(text: str, position: TextPosition, limits: tuple[int, int], form: str) -> int:
    """Return the value of decimal or hexadecimal digits, if it is within the limits."""
    value = int(text, 16 if "0x" in text else 10)
    if not limits[0] <= value <= limits[1]:
        raise ExpressionError(f"invalid {form} literal", position)
    return value


def _remove_quotes(text: str) -> tuple[str, bool]:
    """Return the text between quotes with line ends as one character, and whether it is raw."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_raw = text[0] in "rR"
    text = text[1:] if is_raw else text
    width = 3 if text.startswith(('"""', "'''")) else 1
    return text[width:-width], is_raw


def _decode_escape(match: re.Match[str], position: TextPosition) -> str:
    control, *numbers = match.groups()
    if control is not None:
        return _CONTROLS.get(control, control)
    octal = numbers.pop()
    code = int(octal, 8) if octal else int(next(filter(None, numbers)), 16)
    if code > _LARGEST_CODE_POINT or code in _SURROGATES:
        raise ExpressionError("invalid unicode code point", position)
    return chr(code)


def _decode_byte(match: re.Match[str], position: TextPosition) -> bytes:
    """Return the byte of an escape sequence of bytes; those of code points are not allowed there."""
    control, short, four, eight, octal = match.groups()
    if control is not None:
        return _CONTROLS.get(control, control).encode()
    if four or eight:
        raise ExpressionError("unable to unescape string", position)
    return bytes([int(octal, 8) if octal else int(short, 16)])
