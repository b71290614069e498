"""Comparison of two lists of validation errors."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from tallygate.accounting.problem import Problem

# The fields of resources in any kind: `resources` of containers and pods, overhead, a node's status, a quota's keys and
# scopes, a LimitRange's entries. A resource name may contain anything, so only the beginning of the path is matched.
_RESOURCE_FIELD = re.compile(
    r"(?:.*[.])?spec[.](?:(?:containers|initContainers|ephemeralContainers)\[\d+\][.])?resources\b"
    r"|(?:.*[.])?spec[.]overhead\b"
    r"|status[.](?:capacity|allocatable|hard|used)\b"
    r"|spec[.](?:hard|scopes|scopeSelector)\b"
    r"|spec[.]limits\[\d+\]"
)


def is_resource_field(path: str) -> bool:
    """Return whether a path is a resource field of any kind."""
    return bool(_RESOURCE_FIELD.match(path))


def compare_errors(
    theirs: Iterable[Mapping[str, str]] | None, ours: Iterable[Problem], wrapping: Collection[str]
) -> list[str]:
    """Compare the multisets of errors under resource fields (field, type, detail), and return the differences.

    The message only adds the invalid value, which is rounded to thousandths by an API server, and unchanged where the
    validation is called directly.

    Errors about a name that wraps around are left out on both sides: Kubernetes' errors are arbitrary there.
    """
    expected = Counter(
        (each["field"], each["type"], each["detail"]) for each in theirs or () if is_resource_field(each["field"])
    )
    found = Counter((each.field, str(each.reason), each.detail) for each in ours)
    differences = [("Kubernetes", each) for each in (expected - found).elements()]
    differences += [("tallygate", each) for each in (found - expected).elements()]
    return [f"only {source} says {each}" for source, each in differences if not mentions(each, wrapping)]


def mentions(error: tuple[str, ...], names: Collection[str]) -> bool:
    """Return whether an error mentions one of the names in any part."""
    return any(name in part for name in names for part in error)
