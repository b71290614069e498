"""A cache for the results of pure functions of short texts.

Names and quantities repeat from request to request. The cache is limited in number and in length, so that no user can
fill the memory with names of a megabyte.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

MAX_TEXT_LENGTH = 320
"""The longest text that is remembered: 253 bytes of domain and 63 of name, and a margin."""

MAX_RESULTS = 4096
"""The number of results that are remembered for each function."""

_Text = TypeVar("_Text", str, bytes)
_Rest = TypeVarTuple("_Rest")
_Result = TypeVar("_Result")


def memoize(function: Callable[[_Text, *_Rest], _Result]) -> Callable[[_Text, *_Rest], _Result]:
    """Decorate a pure function whose first argument is a text and whose other arguments have few values."""
    cached = lru_cache(maxsize=MAX_RESULTS)(function)

    @wraps(function)
    def call(text: _Text, *rest: *_Rest) -> _Result:
        return function(text, *rest) if len(text) > MAX_TEXT_LENGTH else cached(text, *rest)

    return call
