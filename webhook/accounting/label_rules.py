"""What the scheduler takes for a requirement on labels, and what for a number in one.

Source: NewRequirement in apimachinery pkg/labels/selector.go, v1.36. The API server lets some through that are none;
such a one makes its whole term match nothing.
"""

import re

from webhook.accounting.name_grammar import qualified_name_faults
from webhook.objects.selectors import Requirement

_FORM = re.compile(r"(?:[A-Za-z0-9](?:[-_.]*+[A-Za-z0-9]++)*+)?", re.ASCII)
_LONGEST = 63
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
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
    return fits and not qualified_name_faults(requirement.key) and not any(map(label_value_faults, values))


def label_value_faults(value: str) -> tuple[str, ...]:
    """Everything that keeps a text from being a label's value, in Kubernetes' words.

    Source: IsLabelValue in apimachinery pkg/api/validate/content/kube.go, v1.36.
    """
    long = ("must be no more than 63 bytes",) if len(value.encode("utf-8", "surrogatepass")) > _LONGEST else ()
    return (*long, *(() if _FORM.fullmatch(value) else (_BAD_VALUE,)))


def whole_number(text: str) -> int | None:
    """A whole number of 64 bits as Go reads it; None when it is none."""
    if not _WHOLE.fullmatch(text) or len(text) > len(str(_MOST)) + len(text) - len(text.lstrip("+-0")):
        return None
    number = int(text)
    return number if -_MOST <= number < _MOST else None
