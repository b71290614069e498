"""Validation of LimitRanges: types, names, and bounds that contradict each other.

Source: ValidateLimitRange in pkg/apis/core/validation/validation.go and SetDefaults_LimitRangeItem in
pkg/apis/core/v1/defaults.go, v1.36. Kubernetes checks neither sign nor fraction of values there.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tallygate.accounting import kubernetes_codes
from tallygate.accounting.name_rules import NameContext
from tallygate.accounting.names import find_qualified_name_errors, is_integer, is_overcommit_allowed
from tallygate.accounting.pod_resources import NO_QUANTITIES, Quantities, parse_resource_list
from tallygate.accounting.problem import Problem, Reason, encode_go_json
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import INT64_MAX
from tallygate.accounting.validation.unreadable import check_resource_list, drop_unreadable
from tallygate.accounting.validation.values import (
    check_name,
    check_value,
    create_accepted_problem,
    create_fraction_problem,
    is_unchecked_integer,
)
from tallygate.objects.core import LimitRange, LimitRangeItem

_ONE = Quantity.from_int(1)
_MAX_MILLI = INT64_MAX // 1000  # resource.MaxMilliValue

_STANDARD_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


class LimitRangeLists(NamedTuple):
    """The lists of an entry, parsed and completed, under the names of their fields."""

    max: Quantities
    min: Quantities
    default: Quantities
    default_request: Quantities
    ratio: Quantities


class LimitRangeBounds(NamedTuple):
    """The bounds of one resource in an entry; each may be absent."""

    max: Quantity | None
    min: Quantity | None
    default: Quantity | None
    default_request: Quantity | None
    ratio: Quantity | None


def validate_limit_range(limit_range: LimitRange) -> list[Problem]:
    """Return every problem that the API server reports for a LimitRange."""
    problems: list[Problem] = []
    types: set[str] = set()
    items = limit_range.spec.limits if limit_range.spec is not None else None
    for index, item in enumerate(items or ()):
        path, limit_type = f"spec.limits[{index}]", item.type or ""
        problems += _check_type(f"{path}.type", limit_type, is_repeated=limit_type in types)
        problems += _check_item(path, limit_type, item)
        types.add(limit_type)
    return problems


def check_limit_range_strictly(limit_range: LimitRange) -> list[Problem]:
    """Return the problems of a LimitRange that Kubernetes accepts.

    These are negative values, and fractions of whole units. Such a LimitRange may fill in a default with which every
    pod is rejected.
    """
    problems: list[Problem] = []
    items = limit_range.spec.limits if limit_range.spec is not None else None
    for index, item in enumerate(items or ()):
        for path, quantities in list_item_fields(f"spec.limits[{index}]", parse_limit_range_item(item)):
            is_ratio = path.endswith("Ratio")
            for name, quantity in quantities.items():
                problems += _check_limit_value(f"{path}[{name}]", name, quantity, is_ratio=is_ratio)
    return problems


def find_device_defaults(limit_range: LimitRange) -> list[Problem]:
    """Return the problems of entries that give containers devices, or reject every pod that names none.

    Kubernetes stores such a LimitRange, and applies it to all later pods.
    """
    problems: list[Problem] = []
    items = (limit_range.spec.limits if limit_range.spec is not None else None) or ()
    of_containers = [parse_limit_range_item(item) for item in items if item.type == "Container"]
    given = {name for container in of_containers for name in container.default_request}
    for index, item in enumerate(items):
        parsed, path = parse_limit_range_item(item), f"spec.limits[{index}]"
        problems += _find_rejecting_bounds(path, item.type or "", parsed, given)
        if item.type != "Container":
            continue
        for name, request in parsed.default_request.items():
            if not is_overcommit_allowed(name) and request:
                field = f"{path}.{_find_source(item, name)}[{name}]"
                problems.append(_create_device_problem(field, name, request, has_limit=name in parsed.default))
    return problems


def _find_rejecting_bounds(
    path: str, limit_type: str, item: LimitRangeLists, given: Collection[str]
) -> Iterator[Problem]:
    """Yield a problem for each bound of a device that no pod meets which does not name the device.

    `given` are the names that each container gets by default.

    A bound of type Pod requires a request or limit (minConstraint and maxConstraint in
    plugin/pkg/admission/limitranger/admission.go, v1.37), and so does a ratio of any type.
    """
    bounds = {"max": item.max, "min": item.min} if limit_type == "Pod" else {}
    if limit_type in {"Container", "Pod"}:
        bounds["maxLimitRequestRatio"] = item.ratio
    for field, quantities in bounds.items():
        for name, quantity in quantities.items():
            if not is_overcommit_allowed(name) and name not in given:
                message = (
                    f"each {limit_type.lower()} that names no {name} has no amount to compare with {quantity}, and the "
                    f"API server rejects its pod: add type Container with default {name}: 0, or use a ResourceRule"
                )
                yield create_accepted_problem(
                    f"{path}.{field}[{name}]", kubernetes_codes.LIMIT_RANGE_REJECTS_PODS, message, str(quantity)
                )


def _find_source(item: LimitRangeItem, name: str) -> str:
    """Return the field from which Kubernetes takes the default request of a resource."""
    for field, entries in (("defaultRequest", item.default_request), ("default", item.default), ("max", item.max)):
        if name in (entries or ()):
            return field
    return "min"


def _create_device_problem(path: str, name: str, request: Quantity, *, has_limit: bool) -> Problem:
    if has_limit:
        message = (
            f"each container that names no {name} gets {request} of it, init containers and sidecars too: to bound "
            "what pods request, use a ResourceRule with perContainer"
        )
        return create_accepted_problem(path, kubernetes_codes.LIMIT_RANGE_GIVES_DEVICES, message, request.text)
    message = (
        f"each container that names no {name} gets a request of {request} without a limit, and the API server rejects "
        f"its pod: remove {name} here; a ResourceRule bounds what containers request"
    )
    return create_accepted_problem(path, kubernetes_codes.LIMIT_RANGE_REJECTS_PODS, message, request.text)


def parse_limit_range_item(item: LimitRangeItem) -> LimitRangeLists:
    """Return an entry as the API server stores it, without unreadable values.

    For containers a missing default is taken from max, a missing default request from the default, else from min.
    """
    lists = (item.max, item.min, item.default, item.default_request, item.max_limit_request_ratio)
    parsed = LimitRangeLists(*[parse_resource_list(drop_unreadable(quantities)) for quantities in lists])
    if item.type != "Container":
        return parsed
    default = {**parsed.max, **parsed.default}
    return parsed._replace(default=default, default_request={**parsed.min, **default, **parsed.default_request})


def list_item_fields(path: str, item: LimitRangeLists) -> tuple[tuple[str, Quantities], ...]:
    keys = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    return tuple((f"{path}.{key}", quantities) for key, quantities in zip(keys, item, strict=True))


def check_bounds(path: str, name: str, bounds: LimitRangeBounds) -> list[Problem]:
    """Return every contradiction between the bounds of one resource, for the entry at a path."""
    return (
        _check_order(path, name, bounds)
        + _check_ratio(path, name, bounds)
        + _check_overcommit_defaults(path, name, bounds)
    )


def _check_type(path: str, limit_type: str, *, is_repeated: bool) -> list[Problem]:
    details = find_qualified_name_errors(limit_type)
    if not details and "/" not in limit_type and limit_type not in _STANDARD_TYPES:
        details = ("must be a standard limit type or fully qualified",)
    message = f"{limit_type!r} is not a type of limit; use {', '.join(_STANDARD_TYPES)}"
    value = encode_go_json(limit_type)
    problems = [
        Problem(path, kubernetes_codes.LIMIT_TYPE_UNKNOWN, Reason.INVALID, message, detail, value) for detail in details
    ]
    if is_repeated:
        message = f"an entry of type {limit_type} stands before this one; put both into one"
        problems.append(Problem(path, kubernetes_codes.LIMIT_TYPE_REPEATED, Reason.DUPLICATE, message, "", value))
    return problems


def _check_item(path: str, limit_type: str, raw: LimitRangeItem) -> list[Problem]:
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
            problems += [
                problem
                for problem in check_value(entry_path, name, quantity)
                if problem.code == kubernetes_codes.TOO_LARGE
            ]
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
    code = kubernetes_codes.POD_DEFAULT
    return [
        Problem(f"{path}.{key}", code, Reason.FORBIDDEN, message, detail)
        for key, quantities in defaults.items()
        if quantities
    ]


def _create_storage_missing_problem(path: str) -> Problem:
    detail = "either minimum or maximum storage value is required, but neither was provided"
    message = "an entry for volume claims must bound storage; give min or max of it"
    return Problem(path, kubernetes_codes.STORAGE_BOUND_MISSING, Reason.REQUIRED, message, detail)


def _check_all_bounds(path: str, item: LimitRangeLists) -> list[Problem]:
    names = dict.fromkeys(name for listed in item for name in listed)
    return [
        problem
        for name in names
        for problem in check_bounds(path, name, LimitRangeBounds(*[listed.get(name) for listed in item]))
    ]


def _check_order(path: str, name: str, bounds: LimitRangeBounds) -> list[Problem]:
    """Report bounds out of order. Kubernetes decides which of the two values is the invalid one."""
    maximum, minimum, default, request, _ = bounds
    checks = (
        ("min", "min", minimum, "max", maximum, minimum),
        ("defaultRequest", "min", minimum, "default request", request, request),
        ("defaultRequest", "default request", request, "max", maximum, request),
        ("defaultRequest", "default request", request, "default limit", default, request),
        ("default", "min", minimum, "default", default, minimum),
        ("default", "default", default, "max", maximum, maximum),
    )
    return [
        _create_order_problem(
            f"{path}.{field}[{name}]",
            f"{small} value {lower} is greater than {large} value {upper}",
            f"{small} value {lower.text} is greater than {large} value {upper.text}",
            invalid,
        )
        for field, small, lower, large, upper, invalid in checks
        if lower is not None and upper is not None and invalid is not None and lower > upper
    ]


def _create_order_problem(path: str, reason: str, detail: str, quantity: Quantity) -> Problem:
    message = f"{reason}; min <= defaultRequest <= default <= max must hold"
    return _create_invalid_problem(path, kubernetes_codes.BOUNDS_OUT_OF_ORDER, message, detail, quantity)


def _check_ratio(path: str, name: str, bounds: LimitRangeBounds) -> list[Problem]:
    """Report a ratio below 1, or above the quotient of max and min."""
    ratio, ratio_path = bounds.ratio, f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is None:
        return []
    problems = []
    if ratio < _ONE:
        message = f"a limit is never below its request, so a ratio of {ratio} can never be met; use 1 or more"
        detail = f"ratio {ratio.text} is less than 1"
        problems.append(_create_invalid_problem(ratio_path, kubernetes_codes.RATIO_IMPOSSIBLE, message, detail, ratio))
    if bounds.min is not None and bounds.max is not None:
        max_ratio = _compute_max_ratio(ratio, bounds.min, bounds.max)
        if max_ratio:
            message = (
                f"a ratio of {ratio} can never be exceeded between min {bounds.min} and max {bounds.max}; use less"
            )
            detail = f"ratio {ratio.text} is greater than max/min = {max_ratio}"
            problems.append(
                _create_invalid_problem(ratio_path, kubernetes_codes.RATIO_IMPOSSIBLE, message, detail, ratio)
            )
    return problems


def _compute_max_ratio(ratio: Quantity, minimum: Quantity, maximum: Quantity) -> str:
    """Return max divided by min as Kubernetes prints it if the ratio is larger, else empty.

    Kubernetes compares and prints 64-bit floating point numbers here. This is the only place where tallygate does so
    too: no other computation gives the same digits. No amount depends on it.
    """
    numbers = [quantity.value() for quantity in (ratio, minimum, maximum)]
    scale = 1
    if all(number < _MAX_MILLI for number in numbers):
        numbers, scale = [quantity.milli() for quantity in (ratio, minimum, maximum)], 1000
    requested_ratio, (_, min_number, max_number) = numbers[0] / scale, numbers
    if min_number == 0:
        return _format_division_by_zero(max_number)
    return f"{max_number / min_number:f}" if requested_ratio > max_number / min_number else ""


def _format_division_by_zero(max_number: int) -> str:
    """Return the quotient of a division by zero if the ratio is larger, else empty.

    IEEE 754: no number exceeds infinity or not a number, every number exceeds minus infinity.
    """
    return "-Inf" if max_number < 0 else ""


def _check_overcommit_defaults(path: str, name: str, bounds: LimitRangeBounds) -> list[Problem]:
    """Report different defaults of a resource that cannot be overcommitted."""
    default, request = bounds.default, bounds.default_request
    if is_overcommit_allowed(name) or default is None or request is None or default == request:
        return []
    detail = f"default value {default.text} must equal to defaultRequest value {request.text} in {name}"
    message = (
        f"default {default} and defaultRequest {request} differ, but {name} cannot be overcommitted; make them equal"
    )
    return [
        _create_invalid_problem(
            f"{path}.defaultRequest[{name}]", kubernetes_codes.DEFAULTS_DIFFER, message, detail, request
        )
    ]


def _create_invalid_problem(path: str, code: str, message: str, detail: str, quantity: Quantity) -> Problem:
    return Problem(path, code, Reason.INVALID, message, detail, encode_go_json(quantity.text))


def _check_limit_value(path: str, name: str, quantity: Quantity, *, is_ratio: bool) -> list[Problem]:
    problems = []
    if quantity.sign < 0:
        message = f"{quantity} is below zero; Kubernetes stores it, but nothing can meet it: use 0 or more"
        problems.append(
            create_accepted_problem(path, kubernetes_codes.LIMIT_RANGE_NEGATIVE, message, encode_go_json(quantity.text))
        )
    if not is_ratio and not quantity.is_whole and (is_integer(name) or is_unchecked_integer(name)):
        problems.append(create_fraction_problem(path, kubernetes_codes.LIMIT_RANGE_FRACTION, name, quantity))
    return problems
