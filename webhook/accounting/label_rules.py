"""What the scheduler takes for a requirement on labels, and what for a number in one.

Source: NewRequirement in apimachinery pkg/labels/selector.go, v1.36. The API server lets some through that are none;
such a one makes its whole term match nothing.
"""

import re

from webhook.accounting.name_grammar import find_qualified_name_errors
from webhook.objects.selectors import SelectorRequirement

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-_.]*+[A-Za-z0-9]++)*+)?", re.ASCII)
_MAX_VALUE_BYTES = 63
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64_BOUND = 1 << 63  # whole numbers are of 64 bits


def is_valid_requirement(requirement: SelectorRequirement) -> bool:
    """Whether it is one: an operator that there is, as many values as it takes, and a key and values that can be."""
    values = requirement.values or []
    match requirement.operator:
        case "In" | "NotIn":
            has_valid_values = bool(values)
        case "Exists" | "DoesNotExist":
            has_valid_values = not values
        case "Gt" | "Lt":
            has_valid_values = len(values) == 1 and parse_int64(values[0]) is not None
        case _:
            has_valid_values = False
    return (
        has_valid_values
        and not find_qualified_name_errors(requirement.key)
        and not any(map(find_label_value_errors, values))
    )


def find_label_value_errors(value: str) -> tuple[str, ...]:
    """Everything that keeps a text from being a label's value, in Kubernetes' words.

    Source: IsLabelValue in apimachinery pkg/api/validate/content/kube.go, v1.36.
    """
    length_errors = (
        ("must be no more than 63 bytes",) if len(value.encode("utf-8", "surrogatepass")) > _MAX_VALUE_BYTES else ()
    )
    return (*length_errors, *(() if _LABEL_VALUE.fullmatch(value) else (_BAD_VALUE,)))


def parse_int64(text: str) -> int | None:
    """A whole number of 64 bits as Go reads it; None when it is none."""
    if not _INTEGER.fullmatch(text) or len(text) > len(str(_INT64_BOUND)) + len(text) - len(text.lstrip("+-0")):
        return None
    number = int(text)
    return number if -_INT64_BOUND <= number < _INT64_BOUND else None
