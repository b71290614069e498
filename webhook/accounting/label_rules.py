"""What the scheduler takes for a requirement on labels, and what for a number in one.

Source: NewRequirement in apimachinery pkg/labels/selector.go, v1.36. The API server lets some through that are none;
such a one makes its whole term match nothing.
"""

import re

from webhook.accounting.name_grammar import qualified_name_faults
from webhook.objects.selectors import Requirement

_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MOST = 1 << 63  # whole numbers are of 64 bits


def is_requirement(requirement: Requirement) -> bool:
    """Whether it is one: an operator that there is, as many values as it takes, and a key and values that can be."""
    values = requirement.values or []
    match requirement.operator:
        case "In" | "NotIn":
            fits = bool(values)
        case "Exists" | "DoesNotExist":
            fits = not values
        case "Gt" | "Lt":
            fits = len(values) == 1 and whole_number(values[0]) is not None
        case _:
            fits = False
    return fits and not qualified_name_faults(requirement.key) and all(map(_VALUE.fullmatch, values))


def whole_number(text: str) -> int | None:
    """A whole number of 64 bits as Go reads it; None when it is none."""
    if not _WHOLE.fullmatch(text) or len(text) > len(str(_MOST)) + len(text) - len(text.lstrip("+-0")):
        return None
    number = int(text)
    return number if -_MOST <= number < _MOST else None
