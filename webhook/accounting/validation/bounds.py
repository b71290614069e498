"""The bounds of one resource in a LimitRange entry, beside each other.

Source: ValidateLimitRange in pkg/apis/core/validation/validation.go, v1.36.
"""

from typing import NamedTuple

from webhook.accounting.names import is_overcommit_allowed
from webhook.accounting.problem import Code, Problem, Reason
from webhook.accounting.quantity import INT64_MAX, Quantity
from webhook.accounting.resource_codes import BOUNDS_OUT_OF_ORDER, DEFAULTS_DIFFER, RATIO_IMPOSSIBLE
from webhook.accounting.validation.printing import printed

_ONE = Quantity.of(1)
_MAX_MILLI = INT64_MAX // 1000  # resource.MaxMilliValue


class Bounds(NamedTuple):
    """What an entry says of one resource; each may be absent."""

    max: Quantity | None
    min: Quantity | None
    default: Quantity | None
    default_request: Quantity | None
    ratio: Quantity | None


def bound_problems(path: str, name: str, bounds: Bounds) -> list[Problem]:
    """Everything that contradicts, for the entry at a path."""
    return _order_problems(path, name, bounds) + _ratio_problems(path, name, bounds) + _overcommit(path, name, bounds)


def _order_problems(path: str, name: str, bounds: Bounds) -> list[Problem]:
    """Bounds out of order. Which of the two values is called the bad one is Kubernetes' choice."""
    most, least, default, request, _ = bounds
    checks = (
        ("min", "min", least, "max", most, least),
        ("defaultRequest", "min", least, "default request", request, request),
        ("defaultRequest", "default request", request, "max", most, request),
        ("defaultRequest", "default request", request, "default limit", default, request),
        ("default", "min", least, "default", default, least),
        ("default", "default", default, "max", most, most),
    )
    return [
        _out_of_order(f"{path}.{field}[{name}]", f"{small} value {lower} is greater than {large} value {upper}", bad)
        for field, small, lower, large, upper, bad in checks
        if lower is not None and upper is not None and bad is not None and lower > upper
    ]


def _out_of_order(path: str, detail: str, bad: Quantity) -> Problem:
    message = f"{detail}; min <= defaultRequest <= default <= max must hold"
    return _invalid(path, BOUNDS_OUT_OF_ORDER, message, detail, bad)


def _ratio_problems(path: str, name: str, bounds: Bounds) -> list[Problem]:
    """A ratio below 1, or above what max and min leave room for."""
    ratio, at = bounds.ratio, f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is None:
        return []
    problems = []
    if ratio < _ONE:
        message = f"a limit is never below its request, so a ratio of {ratio} can never be met; use 1 or more"
        problems.append(_invalid(at, RATIO_IMPOSSIBLE, message, f"ratio {ratio} is less than 1", ratio))
    if bounds.min is not None and bounds.max is not None:
        room = _room(ratio, bounds.min, bounds.max)
        if room:
            message = (
                f"a ratio of {ratio} can never be exceeded between min {bounds.min} and max {bounds.max}; use less"
            )
            problems.append(
                _invalid(at, RATIO_IMPOSSIBLE, message, f"ratio {ratio} is greater than max/min = {room}", ratio)
            )
    return problems


def _room(ratio: Quantity, least: Quantity, most: Quantity) -> str:
    """Max divided by min as Kubernetes prints it when the ratio is larger, else empty.

    Kubernetes compares and prints 64-bit floating point numbers here. This is the one place where we do so too: the
    same digits come out no other way. No amount depends on it.
    """
    numbers = [each.value() for each in (ratio, least, most)]
    scale = 1
    if all(number < _MAX_MILLI for number in numbers):
        numbers, scale = [each.milli() for each in (ratio, least, most)], 1000
    asked, (_, below, above) = numbers[0] / scale, numbers
    if below == 0:
        return _divided_by_zero(above)
    return f"{above / below:f}" if asked > above / below else ""


def _divided_by_zero(above: int) -> str:
    """IEEE 754: nothing is more than infinity or not a number, everything more than minus infinity."""
    return "-Inf" if above < 0 else ""


def _overcommit(path: str, name: str, bounds: Bounds) -> list[Problem]:
    """Defaults that differ for what cannot be overcommitted."""
    default, request = bounds.default, bounds.default_request
    if is_overcommit_allowed(name) or default is None or request is None or default == request:
        return []
    detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
    message = (
        f"default {default} and defaultRequest {request} differ, but {name} cannot be overcommitted; make them equal"
    )
    return [_invalid(f"{path}.defaultRequest[{name}]", DEFAULTS_DIFFER, message, detail, request)]


def _invalid(path: str, code: Code, message: str, detail: str, quantity: Quantity) -> Problem:
    return Problem(path, code.number, Reason.INVALID, message, detail, printed(quantity.text))
