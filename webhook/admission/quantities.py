"""What can be wrong with one written quantity, and how to say so.

Each function takes the resource's name and the raw JSON of the quantity and yields faults: sentences that say what is
wrong, why, and what would pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.accounting.problem import Code, Reason
from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import INT64_MAX, QuantityError, QuantityTooLargeError
from webhook.admission.codes import (
    CONTAINER_BOUND,
    NEGATIVE,
    NOT_A_MULTIPLE,
    NOT_ONE_OF,
    NOT_WHOLE,
    TOO_LARGE,
    UNREADABLE,
)
from webhook.policy.model import AmountBounds

REQUEST_VERB = "ask for"

_MAX_SHOWN = 60
# A container with a quantity takes some 48 bytes, so that the API server's 3 MiB hold no 2^17 of them.
_LARGE_QUANTITY = Quantity.from_int(INT64_MAX // 2**17)


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """What is wrong with a name or a quantity, before anyone says where: see `Problem` for the fields."""

    code: str
    reason: Reason
    value: str
    message: str


def check_whole(name: str, token: bytes, verb: str = REQUEST_VERB) -> Iterator[CheckFailure]:
    """Whether the quantity is a number of whole units: readable, not negative, not a fraction, not past int64.

    `verb` is what one does where it stands: pods ask for it, nodes do not.
    """
    try:
        quantity = Quantity.from_json(token)
    except QuantityTooLargeError:
        yield create_too_large_failure(_truncate_token(token))
        return
    except QuantityError as error:
        yield _create_failure(
            UNREADABLE,
            _truncate_token(token),
            f"{_truncate_token(token)} is not a quantity ({error}): write a number such as 2",
        )
        return
    if quantity.is_beyond_int64:
        yield create_too_large_failure(quantity.text)
        return
    if quantity.sign < 0:
        yield _create_failure(NEGATIVE, quantity.text, f"{quantity.text} is below zero: {verb} 0 or more")
    elif not quantity.is_whole:
        yield _create_failure(NOT_WHOLE, quantity.text, _describe_fraction(name, quantity, verb))


def check_bounds(name: str, token: bytes, bounds: AmountBounds) -> Iterator[CheckFailure]:
    """Whether one container's ask keeps within a rule's bounds; asking for none always does."""
    try:
        quantity = Quantity.from_json(token)
    except QuantityError:
        return  # `whole` says so
    if quantity.sign <= 0:
        return
    text = quantity.text
    if bounds.min is not None and quantity < bounds.min:
        yield _create_failure(
            CONTAINER_BOUND, text, f"{text} is less than the {bounds.min} {name} that a container must ask for"
        )
    if bounds.max is not None and quantity > bounds.max:
        yield _create_failure(
            CONTAINER_BOUND,
            text,
            f"{text} is more than one container may have of {name}: ask for {bounds.max} or less",
        )
    if bounds.multiple_of is not None and not is_multiple(quantity, bounds.multiple_of):
        nearest = " or ".join(multiple.text for multiple in find_nearest_multiples(quantity, bounds.multiple_of))
        yield _create_failure(
            NOT_A_MULTIPLE, text, f"{text} is not a multiple of {bounds.multiple_of}: ask for {nearest}"
        )
    if bounds.one_of and quantity not in bounds.one_of:
        allowed = ", ".join(choice.text for choice in bounds.one_of)
        yield _create_failure(
            NOT_ONE_OF, text, f"{text} is none of the amounts of {name} handed out: ask for one of {allowed}"
        )


def is_large(token: bytes) -> bool:
    """Whether a pod's worth of such quantities might add up to more than int64 holds."""
    try:
        return Quantity.from_json(token) > _LARGE_QUANTITY
    except QuantityError:
        return False


def create_too_large_failure(text: str) -> CheckFailure:
    """The fault of an amount past int64."""
    return _create_failure(
        TOO_LARGE,
        text,
        f"{text} is too large: Kubernetes holds no more than {INT64_MAX} and would count it as something else",
    )


def is_multiple(quantity: Quantity, unit: Quantity) -> bool:
    """Whether one quantity is a whole number of times another, exactly."""
    mantissa, unit_mantissa, _ = _align_scales(quantity, unit)
    return mantissa % unit_mantissa == 0


def find_nearest_multiples(quantity: Quantity, unit: Quantity) -> tuple[Quantity, ...]:
    """The nearest multiples of `of` below (unless that is none) and above a positive quantity."""
    mantissa, unit_mantissa, scale = _align_scales(quantity, unit)
    below = mantissa // unit_mantissa * unit_mantissa
    return tuple(Quantity(multiple, scale, unit.format) for multiple in (below, below + unit_mantissa) if multiple)


def _align_scales(quantity: Quantity, unit: Quantity) -> tuple[int, int, int]:
    scale = min(quantity.scale, unit.scale)
    return (quantity.mantissa * 10 ** (quantity.scale - scale), unit.mantissa * 10 ** (unit.scale - scale), scale)


def _describe_fraction(name: str, quantity: Quantity, verb: str) -> str:
    below = quantity.floor()
    choice = f"{below} or {below + 1}" if below else "1"
    return f"{quantity.text} is not a whole number; {name} is counted in whole units: {verb} {choice}"


def _create_failure(code: Code, value: str, message: str) -> CheckFailure:
    return CheckFailure(code.number, Reason.INVALID, value, message)


def _truncate_token(token: bytes) -> str:
    """The raw JSON as text, cut where nobody would read on."""
    text = token.decode("utf-8", "replace")
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
