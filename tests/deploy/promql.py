"""The series that an expression in PromQL names, and the labels that it selects by."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_SERIES = re.compile(r"\b((?:[a-z_]+:)*(?:tallygate|haproxy)_[a-z0-9_]+(?::[a-z0-9_]+)?)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")


class Series(NamedTuple):
    """A name, and the labels by which an expression selects its series."""

    name: str
    labels: frozenset[str]


def find_series(expression: str) -> Iterator[Series]:
    """Yield the series of gates and relays that an expression names."""
    for name, matchers in _SERIES.findall(expression):
        yield Series(name, frozenset(_MATCHER.findall(matchers)))
