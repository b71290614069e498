"""Validation of one name and its quantity, in every context.

Source: ValidateResourceQuantityValue in pkg/apis/core/validation/validation.go, v1.36, except that a quantity that
Kubernetes would wrap around is too large here.
"""

from functools import lru_cache

from tallygate.accounting.amounts import is_milli
from tallygate.accounting.kubernetes_codes import NEGATIVE_QUANTITY, NOT_AN_INTEGER, TOO_LARGE
from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import is_hugepage, is_integer, is_prefixed_native
from tallygate.accounting.problem import Problem, Reason, encode_go_json
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import INT64_MAX

_MAX_SURE_MANTISSA = 2**40
_MAX_SURE_SCALE = 3  # so that thousandths of a small mantissa stay within 64 bits


def is_surely_valid(name: str, quantity: Quantity, context: NameContext) -> bool:
    """Return whether an entry by itself surely has no problem.

    The check is quick, and False means unknown: most entries are valid.
    """
    can_be_fractional = _can_be_fractional(name, context)
    return (
        can_be_fractional is not None
        and 0 <= quantity.mantissa < _MAX_SURE_MANTISSA
        and quantity.scale <= _MAX_SURE_SCALE
        and (can_be_fractional or quantity.scale >= 0 or quantity.is_whole)
    )


def check_name(path: str, name: str, context: NameContext) -> list[Problem]:
    name_problems = find_name_problems(name, context)
    if not name_problems:
        return []
    value = encode_go_json(name)
    return [
        Problem(path, problem.code, problem.reason, problem.message, problem.detail, value) for problem in name_problems
    ]


def check_value(path: str, name: str, quantity: Quantity) -> list[Problem]:
    """Return the problems of a quantity: negative, too large, or a fraction of a whole unit."""
    problems = []
    if quantity.sign < 0:
        message = f"{quantity} is below zero; request 0 or more"
        problems.append(
            _create_value_problem(path, NEGATIVE_QUANTITY, message, "must be greater than or equal to 0", quantity)
        )
    if is_too_large(name, quantity):
        problems.append(_create_value_problem(path, TOO_LARGE, _describe_too_large(name, quantity), "", quantity))
    elif is_integer(name) and not quantity.is_whole:
        message = describe_not_whole(name, quantity)
        problems.append(_create_value_problem(path, NOT_AN_INTEGER, message, "must be an integer", quantity))
    return problems


def is_too_large(name: str, quantity: Quantity) -> bool:
    """Return whether a quantity exceeds the 64 bits of Kubernetes in its unit: thousandths for cpu."""
    return quantity.is_beyond_int64 or (is_milli(name) and abs(quantity.milli()) > INT64_MAX)


def is_unchecked_integer(name: str) -> bool:
    """Return whether a name counts whole units, but is native to Kubernetes, which does not check it."""
    return is_prefixed_native(name)


def describe_not_whole(name: str, quantity: Quantity) -> str:
    """Return the message for a fraction, with the nearest whole numbers."""
    below = quantity.floor()
    suggestions = f"{below} or {below + 1}" if below > 0 else f"{max(below + 1, 0)}"
    return f"{quantity} is not a whole number; {name} is counted in whole units: use {suggestions}"


def create_fraction_problem(path: str, code: str, name: str, quantity: Quantity) -> Problem:
    """Return the problem of a fraction that Kubernetes stores where it counts whole units."""
    return create_accepted_problem(
        path,
        code,
        f"{describe_not_whole(name, quantity)} (Kubernetes stores it all the same)",
        encode_go_json(quantity.text),
    )


def create_accepted_problem(path: str, code: str, message: str, value: str) -> Problem:
    """Return a problem of an object that Kubernetes accepts: it has no message of Kubernetes' own."""
    return Problem(path, code, Reason.INVALID, message, "", value)


@lru_cache(maxsize=4096)
def _can_be_fractional(name: str, context: NameContext) -> bool | None:
    """Return whether a name that is valid in its context may have a fraction; None if more checks are needed."""
    return None if is_hugepage(name) or find_name_problems(name, context) else not is_integer(name)


def _describe_too_large(name: str, quantity: Quantity) -> str:
    maximum = f"{INT64_MAX}m" if is_milli(name) else f"{INT64_MAX}"
    return f"{quantity} is beyond what Kubernetes can count, and would wrap around there; at most {maximum} is possible"


def _create_value_problem(path: str, code: str, message: str, detail: str, quantity: Quantity) -> Problem:
    return Problem(path, code, Reason.INVALID, message, detail, encode_go_json(quantity.text))
