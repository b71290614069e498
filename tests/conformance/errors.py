"""Two lists of validation errors side by side."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from webhook.accounting.problem import Problem

# Where resources stand in any kind: `resources` of containers and pods, overhead, a node's status, a quota's keys and
# scopes, a LimitRange's entries. A resource name may hold anything, so only the beginning of the path is looked at.
_RESOURCE_FIELD = re.compile(
    r"(?:.*[.])?spec[.](?:(?:containers|initContainers|ephemeralContainers)\[\d+\][.])?resources\b"
    r"|(?:.*[.])?spec[.]overhead\b"
    r"|status[.](?:capacity|allocatable|hard|used)\b"
    r"|spec[.](?:hard|scopes|scopeSelector)\b"
    r"|spec[.]limits\[\d+\]"
)


def is_resource_field(path: str) -> bool:
    """Whether a path is about resources, whatever the kind."""
    return bool(_RESOURCE_FIELD.match(path))


def compare_errors(
    theirs: Iterable[Mapping[str, str]] | None, ours: Iterable[Problem], wrapping: Collection[str]
) -> list[str]:
    """The multisets of errors under resource fields: field, type and detail.

    The message says nothing more but the offending value, which comes rounded to thousandths from an API server and as
    it was written from a validation that was called by itself.

    Errors about a name that wraps around are left out on both sides: there Kubernetes' are an accident.
    """
    wanted = Counter(
        (each["field"], each["type"], each["detail"]) for each in theirs or () if is_resource_field(each["field"])
    )
    found = Counter((each.field, str(each.reason), each.detail) for each in ours)
    said = [("Kubernetes", each) for each in (wanted - found).elements()]
    said += [("tallygate", each) for each in (found - wanted).elements()]
    return [f"only {who} says {each}" for who, each in said if not is_about(each, wrapping)]


def is_about(error: tuple[str, ...], names: Collection[str]) -> bool:
    """Whether one of the names is in its field or its words."""
    return any(name in part for name in names for part in error)
