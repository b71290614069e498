"""The bounds of one resource in a LimitRange entry, beside each other.

Source: ValidateLimitRange in pkg/apis/core/validation/validation.go, v1.36.
"""

from typing import NamedTuple

from webhook.accounting.names import is_overcommit_allowed
from webhook.accounting.problem import Code, Problem, Reason
from webhook.accounting.quantity import INT64_MAX, Quantity
from webhook.accounting.resource_codes import BOUNDS_OUT_OF_ORDER, DEFAULTS_DIFFER, RATIO_IMPOSSIBLE
from webhook.accounting.validation.printing import encode_go_json

_ONE = Quantity.from_int(1)
_MAX_MILLI = INT64_MAX // 1000  # resource.MaxMilliValue


class LimitRangeBounds(NamedTuple):
    """What an entry says of one resource; each may be absent."""

    max: Quantity | None
    min: Quantity | None
    default: Quantity | None
    default_request: Quantity | None
    ratio: Quantity | None


def check_bounds(path: str, name: str, bounds: LimitRangeBounds) -> list[Problem]:
    """Everything that contradicts, for the entry at a path."""
    return (
        _check_order(path, name, bounds)
        + _check_ratio(path, name, bounds)
        + _check_overcommit_defaults(path, name, bounds)
    )


def _check_order(path: str, name: str, bounds: LimitRangeBounds) -> list[Problem]:
    """Bounds out of order. Which of the two values is called the bad one is Kubernetes' choice."""
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
            f"{path}.{field}[{name}]", f"{small} value {lower} is greater than {large} value {upper}", bad
        )
        for field, small, lower, large, upper, bad in checks
        if lower is not None and upper is not None and bad is not None and lower > upper
    ]


def _create_order_problem(path: str, detail: str, quantity: Quantity) -> Problem:
    message = f"{detail}; min <= defaultRequest <= default <= max must hold"
    return _create_invalid_problem(path, BOUNDS_OUT_OF_ORDER, message, detail, quantity)


def _check_ratio(path: str, name: str, bounds: LimitRangeBounds) -> list[Problem]:
    """A ratio below 1, or above what max and min leave room for."""
    ratio, ratio_path = bounds.ratio, f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is None:
        return []
    problems = []
    if ratio < _ONE:
        message = f"a limit is never below its request, so a ratio of {ratio} can never be met; use 1 or more"
        problems.append(
            _create_invalid_problem(ratio_path, RATIO_IMPOSSIBLE, message, f"ratio {ratio} is less than 1", ratio)
        )
    if bounds.min is not None and bounds.max is not None:
        max_ratio = _compute_max_ratio(ratio, bounds.min, bounds.max)
        if max_ratio:
            message = (
                f"a ratio of {ratio} can never be exceeded between min {bounds.min} and max {bounds.max}; use less"
            )
            problems.append(
                _create_invalid_problem(
                    ratio_path, RATIO_IMPOSSIBLE, message, f"ratio {ratio} is greater than max/min = {max_ratio}", ratio
                )
            )
    return problems


def _compute_max_ratio(ratio: Quantity, minimum: Quantity, maximum: Quantity) -> str:
    """Max divided by min as Kubernetes prints it when the ratio is larger, else empty.

    Kubernetes compares and prints 64-bit floating point numbers here. This is the one place where we do so too: the
    same digits come out no other way. No amount depends on it.
    """
    numbers = [each.value() for each in (ratio, minimum, maximum)]
    scale = 1
    if all(number < _MAX_MILLI for number in numbers):
        numbers, scale = [each.milli() for each in (ratio, minimum, maximum)], 1000
    requested_ratio, (_, min_number, max_number) = numbers[0] / scale, numbers
    if min_number == 0:
        return _format_division_by_zero(max_number)
    return f"{max_number / min_number:f}" if requested_ratio > max_number / min_number else ""


def _format_division_by_zero(max_number: int) -> str:
    """IEEE 754: nothing is more than infinity or not a number, everything more than minus infinity."""
    return "-Inf" if max_number < 0 else ""


def _check_overcommit_defaults(path: str, name: str, bounds: LimitRangeBounds) -> list[Problem]:
    """Defaults that differ for what cannot be overcommitted."""
    default, request = bounds.default, bounds.default_request
    if is_overcommit_allowed(name) or default is None or request is None or default == request:
        return []
    detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
    message = (
        f"default {default} and defaultRequest {request} differ, but {name} cannot be overcommitted; make them equal"
    )
    return [_create_invalid_problem(f"{path}.defaultRequest[{name}]", DEFAULTS_DIFFER, message, detail, request)]


def _create_invalid_problem(path: str, code: Code, message: str, detail: str, quantity: Quantity) -> Problem:
    return Problem(path, code.number, Reason.INVALID, message, detail, encode_go_json(quantity.text))
