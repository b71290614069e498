"""LimitRanges: types, names, and bounds that contradict each other.

Source: ValidateLimitRange in pkg/apis/core/validation/validation.go and SetDefaults_LimitRangeItem in
pkg/apis/core/v1/defaults.go, v1.36. Values are checked for neither sign nor fraction there.
"""

from typing import NamedTuple

from webhook.accounting.asks import NOTHING, Quantities, read_list
from webhook.accounting.codes import TOO_LARGE
from webhook.accounting.name_grammar import qualified_name_faults
from webhook.accounting.name_rules import Place
from webhook.accounting.problem import Problem, Reason
from webhook.accounting.resource_codes import (
    LIMIT_TYPE_REPEATED,
    LIMIT_TYPE_UNKNOWN,
    POD_DEFAULT,
    STORAGE_BOUND_MISSING,
)
from webhook.accounting.validation.bounds import Bounds, bound_problems
from webhook.accounting.validation.printing import printed
from webhook.accounting.validation.unreadable import list_problems, readable
from webhook.accounting.validation.values import name_problems, value_problems
from webhook.objects.cluster import LimitRange, LimitRangeItem

_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


def validate_limit_range(limit_range: LimitRange) -> list[Problem]:
    """Everything the API server says of a LimitRange."""
    problems: list[Problem] = []
    seen: set[str] = set()
    items = limit_range.spec.limits if limit_range.spec is not None else None
    for index, item in enumerate(items or ()):
        path, kind = f"spec.limits[{index}]", item.type or ""
        problems += _type_problems(f"{path}.type", kind, repeated=kind in seen)
        problems += _item_problems(path, kind, item)
        seen.add(kind)
    return problems


class Item(NamedTuple):
    """An entry's lists, read and completed, under the names of their fields."""

    max: Quantities
    min: Quantities
    default: Quantities
    default_request: Quantities
    ratio: Quantities


def read_item(item: LimitRangeItem) -> Item:
    """An entry as the API server stores it; what cannot be read is left out.

    For containers a missing default is taken from max, a missing default request from the default, else from min.
    """
    lists = (item.max, item.min, item.default, item.default_request, item.max_limit_request_ratio)
    read = Item(*[read_list(readable(each)) for each in lists])
    if item.type != "Container":
        return read
    default = {**read.max, **read.default}
    return read._replace(default=default, default_request={**read.min, **default, **read.default_request})


def fields(path: str, item: Item) -> tuple[tuple[str, Quantities], ...]:
    """Each list of an entry with its path."""
    keys = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    return tuple((f"{path}.{key}", listed) for key, listed in zip(keys, item, strict=True))


def _type_problems(path: str, kind: str, *, repeated: bool) -> list[Problem]:
    """What is wrong with an entry's type."""
    details = qualified_name_faults(kind)
    if not details and "/" not in kind and kind not in _TYPES:
        details = ("must be a standard limit type or fully qualified",)
    message = f"{kind!r} is no type of limit; use {', '.join(_TYPES)}"
    value = printed(kind)
    problems = [Problem(path, LIMIT_TYPE_UNKNOWN.number, Reason.INVALID, message, detail, value) for detail in details]
    if repeated:
        message = f"an entry of type {kind} stands before this one; put both into one"
        problems.append(Problem(path, LIMIT_TYPE_REPEATED.number, Reason.DUPLICATE, message, "", value))
    return problems


def _item_problems(path: str, kind: str, raw: LimitRangeItem) -> list[Problem]:
    """Everything about one entry but its type."""
    problems = _unreadable(path, raw)
    item = read_item(raw)
    if kind == "Pod":
        problems += _pod_defaults(path, item)
        item = item._replace(default=NOTHING, default_request=NOTHING)
    place = Place.LIMIT_RANGE if kind in ("Container", "Pod") else Place.LIMIT_RANGE_OTHER
    for at, listed in fields(path, item):
        for name, quantity in listed.items():
            key = f"{at}[{name}]"
            problems += name_problems(key, name, place)
            problems += [each for each in value_problems(key, name, quantity) if each.code == TOO_LARGE.number]
    if kind == "PersistentVolumeClaim" and "storage" not in {**item.min, **item.max}:
        problems.append(_storage_missing(f"{path}.limits"))
    return problems + _bounds(path, item)


def _unreadable(path: str, raw: LimitRangeItem) -> list[Problem]:
    lists = {
        "max": raw.max,
        "min": raw.min,
        "default": raw.default,
        "defaultRequest": raw.default_request,
        "maxLimitRequestRatio": raw.max_limit_request_ratio,
    }
    return [problem for key, listed in lists.items() for problem in list_problems(f"{path}.{key}", listed)]


def _pod_defaults(path: str, item: Item) -> list[Problem]:
    given = {"default": item.default, "defaultRequest": item.default_request}
    message = "an entry of type Pod cannot have defaults, since they are filled into containers; use type Container"
    detail = "may not be specified when `type` is 'Pod'"
    code = POD_DEFAULT.number
    return [
        Problem(f"{path}.{key}", code, Reason.FORBIDDEN, message, detail) for key, listed in given.items() if listed
    ]


def _storage_missing(path: str) -> Problem:
    detail = "either minimum or maximum storage value is required, but neither was provided"
    message = "an entry for volume claims must bound storage; give min or max of it"
    return Problem(path, STORAGE_BOUND_MISSING.number, Reason.REQUIRED, message, detail)


def _bounds(path: str, item: Item) -> list[Problem]:
    """The bounds of each resource beside each other."""
    names = dict.fromkeys(name for listed in item for name in listed)
    return [
        problem
        for name in names
        for problem in bound_problems(path, name, Bounds(*[listed.get(name) for listed in item]))
    ]
