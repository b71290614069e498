"""One name and its quantity: what may be said of them wherever they stand.

Source: ValidateResourceQuantityValue in pkg/apis/core/validation/validation.go, v1.36, except that what Kubernetes
would wrap around is too large here.
"""

from functools import lru_cache

from webhook.accounting.amounts import is_milli
from webhook.accounting.codes import NEGATIVE_QUANTITY, NOT_AN_INTEGER, TOO_LARGE
from webhook.accounting.name_rules import Place, faults
from webhook.accounting.names import is_hugepage, is_integer
from webhook.accounting.problem import Problem, Reason
from webhook.accounting.quantity import INT64_MAX, Quantity
from webhook.accounting.validation.printing import printed

_SMALL = 2**40
_FEW_ZEROS = 3  # so that thousandths of a small mantissa stay within 64 bits


def is_sound(name: str, quantity: Quantity, place: Place) -> bool:
    """Whether nothing can be wrong with an entry by itself. Quick, and sure only of yes: most entries are sound."""
    fraction = _allows_fraction(name, place)
    return (
        fraction is not None
        and 0 <= quantity.mantissa < _SMALL
        and quantity.scale <= _FEW_ZEROS
        and (fraction or quantity.scale >= 0 or quantity.is_whole)
    )


@lru_cache(maxsize=4096)
def _allows_fraction(name: str, place: Place) -> bool | None:
    """Whether a name that is right where it stands may have a fraction; None when more must be looked at."""
    return None if is_hugepage(name) or faults(name, place) else not is_integer(name)


def name_problems(path: str, name: str, place: Place) -> list[Problem]:
    """What is wrong with a name where it stands."""
    found = faults(name, place)
    if not found:
        return []
    value = printed(name)
    return [Problem(path, each.code, each.reason, each.message, each.detail, value) for each in found]


def value_problems(path: str, name: str, quantity: Quantity) -> list[Problem]:
    """What is wrong with a quantity: it is below zero, too large, or has a fraction where there can be none."""
    problems = []
    if quantity.sign < 0:
        message = f"{quantity} is below zero; ask for 0 or more"
        problems.append(
            _invalid(path, NEGATIVE_QUANTITY.number, message, "must be greater than or equal to 0", quantity)
        )
    if is_too_large(name, quantity):
        problems.append(_invalid(path, TOO_LARGE.number, _too_large(name, quantity), "", quantity))
    elif is_integer(name) and not quantity.is_whole:
        message = not_whole(name, quantity)
        problems.append(_invalid(path, NOT_AN_INTEGER.number, message, "must be an integer", quantity))
    return problems


def is_too_large(name: str, quantity: Quantity) -> bool:
    """Whether Kubernetes' 64 bits cannot hold it in the unit it is counted in: thousandths for cpu."""
    return quantity.exceeds_int64 or (is_milli(name) and abs(quantity.milli()) > INT64_MAX)


def not_whole(name: str, quantity: Quantity) -> str:
    """A fraction, and the whole numbers beside it."""
    below = quantity.floor()
    near = f"{below} or {below + 1}" if below > 0 else f"{max(below + 1, 0)}"
    return f"{quantity} is not a whole number; {name} is counted in whole units: use {near}"


def _too_large(name: str, quantity: Quantity) -> str:
    most = f"{INT64_MAX}m" if is_milli(name) else f"{INT64_MAX}"
    return f"{quantity} is beyond what Kubernetes can count, and would wrap around there; at most {most} is possible"


def _invalid(path: str, code: str, message: str, detail: str, quantity: Quantity) -> Problem:
    return Problem(path, code, Reason.INVALID, message, detail, printed(quantity.text))
