"""Remembering the answers of pure functions of short texts.

Names and quantities repeat from request to request. What is remembered is bounded in number and in length, so that
nobody can fill the memory with megabyte-long names.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

MAX_TEXT_LENGTH = 320
"""The longest text that is remembered: a name of 253 bytes of domain and 63 of name, and some."""

MAX_RESULTS = 4096
"""How many answers of one function are remembered."""

_Text = TypeVar("_Text", str, bytes)
_Rest = TypeVarTuple("_Rest")
_Answer = TypeVar("_Answer")


def memoize(function: Callable[[_Text, *_Rest], _Answer]) -> Callable[[_Text, *_Rest], _Answer]:
    """Decorate a pure function whose first argument is a text, and whose others are few in their values."""
    cached = lru_cache(maxsize=MAX_RESULTS)(function)

    @wraps(function)
    def call(text: _Text, *rest: *_Rest) -> _Answer:
        return function(text, *rest) if len(text) > MAX_TEXT_LENGTH else cached(text, *rest)

    return call
