"""Validation of the requests and limits of one container, or of another object with the same rules.

Source: validateResourceRequirements in pkg/apis/core/validation/validation.go, v1.36.
"""

from functools import lru_cache

from tallygate.accounting.kubernetes_codes import (
    HUGE_PAGES_ALONE,
    LIMIT_MISSING,
    NOT_WHOLE_PAGES,
    REQUEST_ABOVE_LIMIT,
    REQUEST_NOT_LIMIT,
)
from tallygate.accounting.name_rules import NameContext
from tallygate.accounting.names import HUGEPAGES_PREFIX, is_hugepage, is_overcommit_allowed
from tallygate.accounting.pod_resources import Quantities
from tallygate.accounting.problem import Code, Problem, Reason, encode_go_json
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import Format, QuantityError
from tallygate.accounting.validation.values import check_name, check_value, is_surely_valid

_QOS_NAMES = frozenset({"cpu", "memory"})


def check_resources(path: str, requests: Quantities, limits: Quantities, context: NameContext) -> list[Problem]:
    """Return every problem of `resources` at a path: names, values, requests against limits, huge pages."""
    problems: list[Problem] = []
    for name, quantity in limits.items():
        if not is_surely_valid(name, quantity, context):
            problems += _check_entry(f"{path}.limits[{name}]", name, quantity, context)
    for name, quantity in requests.items():
        if not is_surely_valid(name, quantity, context):
            problems += _check_entry(f"{path}.requests[{name}]", name, quantity, context)
        if quantity is not limits.get(name):
            problems += _check_request_against_limit(path, name, quantity, limits.get(name))
    names = requests.keys() | limits.keys()
    if any(map(is_hugepage, names)) and not names & _QOS_NAMES:
        message = "huge pages are requested, but neither cpu nor memory; request one of them too"
        problems.append(
            Problem(path, HUGE_PAGES_ALONE.number, Reason.FORBIDDEN, message, "HugePages require cpu or memory")
        )
    return problems


def is_whole_pages(name: str, quantity: Quantity) -> bool:
    """Return whether a quantity of huge pages is a whole number of pages (IsHugePageResourceValueDivisible).

    Zero pages are whole.
    """
    size = _parse_page_size(name)
    return size > 0 and quantity.value() % size == 0


def _check_entry(path: str, name: str, quantity: Quantity, context: NameContext) -> list[Problem]:
    """Check one entry of requests or limits by itself."""
    problems = check_name(path, name, context) + check_value(path, name, quantity)
    if is_hugepage(name) and not is_whole_pages(name, quantity):
        detail = f"{quantity.text} is not positive integer multiple of {name}"
        problems.append(
            _create_invalid_problem(path, NOT_WHOLE_PAGES, _describe_not_whole_pages(name, quantity), detail, quantity)
        )
    return problems


def _describe_not_whole_pages(name: str, quantity: Quantity) -> str:
    """Return the message for a fraction of a page, with the nearest whole pages."""
    size, page = _parse_page_size(name), name.removeprefix(HUGEPAGES_PREFIX)
    if not size:
        return f"{page!r} is no page size; write one as in hugepages-2Mi"
    above = -(-quantity.value() // size) * size
    suggestions = [Quantity(each, format=Format.BINARY_SI).text for each in (above - size, above) if each >= 0]
    return f"{quantity} is not a whole number of pages of {page}: use {' or '.join(suggestions or ['0'])}"


def _check_request_against_limit(path: str, name: str, request: Quantity, limit: Quantity | None) -> list[Problem]:
    """Compare a request with its limit. The path of Kubernetes' errors ends before the name."""
    is_overcommit = is_overcommit_allowed(name)
    if limit is None:
        return [] if is_overcommit else [_create_limit_missing_problem(path, name, request)]
    if not is_overcommit and request != limit:
        detail = f"must be equal to {name} limit of {limit.text}"
        message = f"the request of {request} {name} differs from its limit of {limit}; set both to the same"
        return [_create_invalid_problem(f"{path}.requests", REQUEST_NOT_LIMIT, message, detail, request)]
    if request > limit:
        detail = f"must be less than or equal to {name} limit of {limit.text}"
        message = (
            f"the request of {request} {name} is more than its limit of {limit}; lower the request or raise the limit"
        )
        return [_create_invalid_problem(f"{path}.requests", REQUEST_ABOVE_LIMIT, message, detail, request)]
    return []


def _create_limit_missing_problem(path: str, name: str, request: Quantity) -> Problem:
    message = f"{name} is requested without a limit; it cannot be overcommitted: set the limit to {request}"
    detail = "Limit must be set for non overcommitable resources"
    return Problem(f"{path}.limits", LIMIT_MISSING.number, Reason.REQUIRED, message, detail)


@lru_cache(maxsize=256)
def _parse_page_size(name: str) -> int:
    """Return the bytes of a page by the resource name; 0 if the name has no size (HugePageSizeFromResourceName)."""
    try:
        size = Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX))
    except QuantityError:
        return 0
    return size.value() if size.sign > 0 and size.milli() % 1000 == 0 else 0


def _create_invalid_problem(path: str, code: Code, message: str, detail: str, quantity: Quantity) -> Problem:
    return Problem(path, code.number, Reason.INVALID, message, detail, encode_go_json(quantity.text))
