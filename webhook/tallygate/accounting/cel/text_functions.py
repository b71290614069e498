"""Functions of strings and regular expressions (ext/strings.go, common/types/string.go, library/regex.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import re2

from tallygate.accounting.cel.runtime_values import EvaluationError, UnsupportedValueError, check_length, is_same

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_QUOTES = str.maketrans(
    {
        "\a": r"\a",
        "\b": r"\b",
        "\f": r"\f",
        "\n": r"\n",
        "\r": r"\r",
        "\t": r"\t",
        "\v": r"\v",
        "\\": "\\\\",
        '"': r"\"",
    }
)


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:  # re2 has no types
    """Return a compiled regular expression of RE2, which needs linear time.

    Raises:
        EvaluationError: if RE2 does not accept the pattern.
        UnsupportedValueError: if it is one for the C++ library, and not for Go.
    """
    if r"\C" in pattern:
        raise UnsupportedValueError(r"the pattern \C is not supported")
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        message = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        raise EvaluationError(f"invalid regular expression: {message}") from error


def _require(*values: object) -> None:
    if any(type(value) is not str for value in values):
        raise EvaluationError("no such overload")


def _require_int(value: object) -> int:
    if type(value) is not int:
        raise EvaluationError("no such overload")
    return value


def _contains(text: str, part: str) -> object:
    _require(text, part)
    return part in text


def _ends_with(text: str, part: str) -> object:
    _require(text, part)
    return text.endswith(part)


def _starts_with(text: str, part: str) -> object:
    _require(text, part)
    return text.startswith(part)


def _matches(text: str, pattern: str) -> object:
    _require(text, pattern)
    return compile_pattern(pattern).search(text) is not None


def _find(text: str, pattern: str) -> object:
    _require(text, pattern)
    match = compile_pattern(pattern).search(text)
    return "" if match is None else match[0]


def _find_all(text: str, pattern: str, limit: int = -1) -> object:
    _require(text, pattern)
    count = _require_int(limit)
    if count == 0:
        return []
    found: list[object] = []
    end_of_last = -1
    for match in compile_pattern(pattern).finditer(text):
        if match.start() == match.end() == end_of_last:
            continue  # Go has no empty match right after another one
        end_of_last = match.end()
        found.append(match[0])
        if len(found) == count:
            break
    return found


def _get_character(text: str, index: int) -> object:
    _require(text)
    _require_int(index)
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _find_index(target: object, item: object, *offset: object) -> object:
    if isinstance(target, list) and not offset:
        return next((place for place, value in enumerate(target) if is_same(value, item)), -1)
    _require(target, item)
    assert isinstance(target, str)  # noqa: S101
    assert isinstance(item, str)  # noqa: S101
    start = _require_int(offset[0]) if offset else 0
    if not item:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return target.find(item, start)


def _find_last_index(target: object, item: object, *offset: object) -> object:
    if isinstance(target, list) and not offset:
        places = range(len(target) - 1, -1, -1)
        return next((place for place in places if is_same(target[place], item)), -1)
    _require(target, item)
    assert isinstance(target, str)  # noqa: S101
    assert isinstance(item, str)  # noqa: S101
    if not offset:
        return target.rfind(item)
    end = _require_int(offset[0])
    if not item:
        return end
    if end < 0:
        raise EvaluationError(f"index out of range: {end}")
    return -1 if end >= len(target) else target.rfind(item, 0, end + len(item))


def _lower(text: str) -> object:
    _require(text)
    return text.translate(_LOWER)


def _upper(text: str) -> object:
    _require(text)
    return text.translate(_UPPER)


def _replace(text: str, old: str, new: str, limit: int = -1) -> object:
    _require(text, old, new)
    count = _require_int(limit)
    found = text.count(old)
    found = found if count < 0 else min(found, count)
    check_length(len(text) + found * len(new))
    return text.replace(old, new, found)


def _split(text: str, separator: str, limit: int = -1) -> object:
    _require(text, separator)
    count = _require_int(limit)
    if count == 0:
        return []
    if not separator:
        characters: list[object] = list(text)
        return characters if count < 0 or len(text) <= count else [*text[: count - 1], text[count - 1 :]]
    return text.split(separator, count - 1 if count > 0 else -1)


def _cut(text: str, start: int, *ends: int) -> object:
    _require(text)
    first, last = _require_int(start), _require_int(ends[0]) if ends else len(text)
    if ends and first > last:
        raise EvaluationError(f"invalid substring range. start: {first}, end: {last}")
    if not (0 <= first <= len(text) and 0 <= last <= len(text)):
        raise EvaluationError(f"index out of range: {first}, {last}")
    return text[first:last]


def _trim(text: str) -> object:
    _require(text)
    return text.strip(_SPACES)


def _quote(text: str) -> object:
    _require(text)
    return f'"{text.translate(_QUOTES)}"'


def _join(texts: list[str], separator: str = "") -> object:
    if not isinstance(texts, list):
        raise EvaluationError("no such overload")
    _require(*texts, separator)
    check_length(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


TEXT_FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "charAt": _get_character,
    "contains": _contains,
    "endsWith": _ends_with,
    "find": _find,
    "findAll": _find_all,
    "indexOf": _find_index,
    "join": _join,
    "lastIndexOf": _find_last_index,
    "lowerAscii": _lower,
    "matches": _matches,
    "replace": _replace,
    "split": _split,
    "startsWith": _starts_with,
    "strings.quote": _quote,
    "substring": _cut,
    "trim": _trim,
    "upperAscii": _upper,
}
