"""What an expression in PromQL names: series, and the labels that it selects by."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_SERIES = re.compile(r"\b((?:[a-z_]+:)*tallygate_[a-z0-9_]+(?::[a-z0-9_]+)?)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")


class Series(NamedTuple):
    """A name, and the labels by which some of its series are chosen."""

    name: str
    labels: frozenset[str]


def series(expression: str) -> Iterator[Series]:
    """Everything of ours that it names."""
    for name, matchers in _SERIES.findall(expression):
        yield Series(name, frozenset(_MATCHER.findall(matchers)))
