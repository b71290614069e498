"""LimitRanges: types, names, and bounds that contradict each other.

Source: ValidateLimitRange in pkg/apis/core/validation/validation.go and SetDefaults_LimitRangeItem in
pkg/apis/core/v1/defaults.go, v1.36. Values are checked for neither sign nor fraction there.
"""

from typing import NamedTuple

from webhook.accounting.asks import NO_QUANTITIES, Quantities, parse_resource_list
from webhook.accounting.codes import TOO_LARGE
from webhook.accounting.name_grammar import find_qualified_name_errors
from webhook.accounting.name_rules import NameContext
from webhook.accounting.problem import Problem, Reason
from webhook.accounting.resource_codes import (
    LIMIT_TYPE_REPEATED,
    LIMIT_TYPE_UNKNOWN,
    POD_DEFAULT,
    STORAGE_BOUND_MISSING,
)
from webhook.accounting.validation.bounds import LimitRangeBounds, check_bounds
from webhook.accounting.validation.printing import encode_go_json
from webhook.accounting.validation.unreadable import check_resource_list, drop_unreadable
from webhook.accounting.validation.values import check_name, check_value
from webhook.objects.cluster import LimitRange, LimitRangeItem

_STANDARD_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


def validate_limit_range(limit_range: LimitRange) -> list[Problem]:
    """Everything the API server says of a LimitRange."""
    problems: list[Problem] = []
    types: set[str] = set()
    items = limit_range.spec.limits if limit_range.spec is not None else None
    for index, item in enumerate(items or ()):
        path, limit_type = f"spec.limits[{index}]", item.type or ""
        problems += _check_type(f"{path}.type", limit_type, is_repeated=limit_type in types)
        problems += _check_item(path, limit_type, item)
        types.add(limit_type)
    return problems


class LimitRangeLists(NamedTuple):
    """An entry's lists, read and completed, under the names of their fields."""

    max: Quantities
    min: Quantities
    default: Quantities
    default_request: Quantities
    ratio: Quantities


def parse_limit_range_item(item: LimitRangeItem) -> LimitRangeLists:
    """An entry as the API server stores it; what cannot be read is left out.

    For containers a missing default is taken from max, a missing default request from the default, else from min.
    """
    lists = (item.max, item.min, item.default, item.default_request, item.max_limit_request_ratio)
    parsed = LimitRangeLists(*[parse_resource_list(drop_unreadable(each)) for each in lists])
    if item.type != "Container":
        return parsed
    default = {**parsed.max, **parsed.default}
    return parsed._replace(default=default, default_request={**parsed.min, **default, **parsed.default_request})


def list_item_fields(path: str, item: LimitRangeLists) -> tuple[tuple[str, Quantities], ...]:
    """Each list of an entry with its path."""
    keys = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    return tuple((f"{path}.{key}", quantities) for key, quantities in zip(keys, item, strict=True))


def _check_type(path: str, limit_type: str, *, is_repeated: bool) -> list[Problem]:
    """What is wrong with an entry's type."""
    details = find_qualified_name_errors(limit_type)
    if not details and "/" not in limit_type and limit_type not in _STANDARD_TYPES:
        details = ("must be a standard limit type or fully qualified",)
    message = f"{limit_type!r} is no type of limit; use {', '.join(_STANDARD_TYPES)}"
    value = encode_go_json(limit_type)
    problems = [Problem(path, LIMIT_TYPE_UNKNOWN.number, Reason.INVALID, message, detail, value) for detail in details]
    if is_repeated:
        message = f"an entry of type {limit_type} stands before this one; put both into one"
        problems.append(Problem(path, LIMIT_TYPE_REPEATED.number, Reason.DUPLICATE, message, "", value))
    return problems


def _check_item(path: str, limit_type: str, raw: LimitRangeItem) -> list[Problem]:
    """Everything about one entry but its type."""
    problems = _check_item_readable(path, raw)
    item = parse_limit_range_item(raw)
    if limit_type == "Pod":
        problems += _check_pod_defaults(path, item)
        item = item._replace(default=NO_QUANTITIES, default_request=NO_QUANTITIES)
    context = NameContext.LIMIT_RANGE if limit_type in ("Container", "Pod") else NameContext.LIMIT_RANGE_OTHER
    for field_path, quantities in list_item_fields(path, item):
        for name, quantity in quantities.items():
            entry_path = f"{field_path}[{name}]"
            problems += check_name(entry_path, name, context)
            problems += [each for each in check_value(entry_path, name, quantity) if each.code == TOO_LARGE.number]
    if limit_type == "PersistentVolumeClaim" and "storage" not in {**item.min, **item.max}:
        problems.append(_create_storage_missing_problem(f"{path}.limits"))
    return problems + _check_all_bounds(path, item)


def _check_item_readable(path: str, raw: LimitRangeItem) -> list[Problem]:
    lists = {
        "max": raw.max,
        "min": raw.min,
        "default": raw.default,
        "defaultRequest": raw.default_request,
        "maxLimitRequestRatio": raw.max_limit_request_ratio,
    }
    return [
        problem
        for key, resource_list in lists.items()
        for problem in check_resource_list(f"{path}.{key}", resource_list)
    ]


def _check_pod_defaults(path: str, item: LimitRangeLists) -> list[Problem]:
    defaults = {"default": item.default, "defaultRequest": item.default_request}
    message = "an entry of type Pod cannot have defaults, since they are filled into containers; use type Container"
    detail = "may not be specified when `type` is 'Pod'"
    code = POD_DEFAULT.number
    return [
        Problem(f"{path}.{key}", code, Reason.FORBIDDEN, message, detail)
        for key, quantities in defaults.items()
        if quantities
    ]


def _create_storage_missing_problem(path: str) -> Problem:
    detail = "either minimum or maximum storage value is required, but neither was provided"
    message = "an entry for volume claims must bound storage; give min or max of it"
    return Problem(path, STORAGE_BOUND_MISSING.number, Reason.REQUIRED, message, detail)


def _check_all_bounds(path: str, item: LimitRangeLists) -> list[Problem]:
    """The bounds of each resource beside each other."""
    names = dict.fromkeys(name for listed in item for name in listed)
    return [
        problem
        for name in names
        for problem in check_bounds(path, name, LimitRangeBounds(*[listed.get(name) for listed in item]))
    ]
