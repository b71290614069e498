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
from webhook.policy.model import Bounds

ASK = "ask for"

_SHOWN = 60
# A container with a quantity takes some 48 bytes, so that the API server's 3 MiB hold no 2^17 of them.
_LARGE = Quantity.from_int(INT64_MAX // 2**17)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a name or a quantity, before anyone says where: see `Problem` for the fields."""

    code: str
    reason: Reason
    value: str
    message: str


def whole(name: str, token: bytes, verb: str = ASK) -> Iterator[Fault]:
    """Whether the quantity is a number of whole units: readable, not negative, not a fraction, not past int64.

    `verb` is what one does where it stands: pods ask for it, nodes do not.
    """
    try:
        quantity = Quantity.from_json(token)
    except QuantityTooLargeError:
        yield too_large(_shown(token))
        return
    except QuantityError as error:
        yield _fault(
            UNREADABLE, _shown(token), f"{_shown(token)} is not a quantity ({error}): write a number such as 2"
        )
        return
    if quantity.is_beyond_int64:
        yield too_large(quantity.text)
        return
    if quantity.sign < 0:
        yield _fault(NEGATIVE, quantity.text, f"{quantity.text} is below zero: {verb} 0 or more")
    elif not quantity.is_whole:
        yield _fault(NOT_WHOLE, quantity.text, _not_whole(name, quantity, verb))


def within(name: str, token: bytes, bounds: Bounds) -> Iterator[Fault]:
    """Whether one container's ask keeps within a rule's bounds; asking for none always does."""
    try:
        asked = Quantity.from_json(token)
    except QuantityError:
        return  # `whole` says so
    if asked.sign <= 0:
        return
    text = asked.text
    if bounds.min is not None and asked < bounds.min:
        yield _fault(
            CONTAINER_BOUND, text, f"{text} is less than the {bounds.min} {name} that a container must ask for"
        )
    if bounds.max is not None and asked > bounds.max:
        yield _fault(
            CONTAINER_BOUND,
            text,
            f"{text} is more than one container may have of {name}: ask for {bounds.max} or less",
        )
    if bounds.multiple_of is not None and not is_multiple(asked, bounds.multiple_of):
        around = " or ".join(multiple.text for multiple in multiples_around(asked, bounds.multiple_of))
        yield _fault(NOT_A_MULTIPLE, text, f"{text} is not a multiple of {bounds.multiple_of}: ask for {around}")
    if bounds.one_of and asked not in bounds.one_of:
        allowed = ", ".join(one.text for one in bounds.one_of)
        yield _fault(NOT_ONE_OF, text, f"{text} is none of the amounts of {name} handed out: ask for one of {allowed}")


def is_large(token: bytes) -> bool:
    """Whether a pod's worth of such quantities might add up to more than int64 holds."""
    try:
        return Quantity.from_json(token) > _LARGE
    except QuantityError:
        return False


def too_large(text: str) -> Fault:
    """The fault of an amount past int64."""
    return _fault(
        TOO_LARGE,
        text,
        f"{text} is too large: Kubernetes holds no more than {INT64_MAX} and would count it as something else",
    )


def is_multiple(quantity: Quantity, of: Quantity) -> bool:
    """Whether one quantity is a whole number of times another, exactly."""
    mine, theirs, _ = _aligned(quantity, of)
    return mine % theirs == 0


def multiples_around(quantity: Quantity, of: Quantity) -> tuple[Quantity, ...]:
    """The nearest multiples of `of` below (unless that is none) and above a positive quantity."""
    mine, theirs, scale = _aligned(quantity, of)
    below = mine // theirs * theirs
    return tuple(Quantity(each, scale, of.format) for each in (below, below + theirs) if each)


def _aligned(quantity: Quantity, of: Quantity) -> tuple[int, int, int]:
    scale = min(quantity.scale, of.scale)
    return (quantity.mantissa * 10 ** (quantity.scale - scale), of.mantissa * 10 ** (of.scale - scale), scale)


def _not_whole(name: str, quantity: Quantity, verb: str) -> str:
    below = quantity.floor()
    choice = f"{below} or {below + 1}" if below else "1"
    return f"{quantity.text} is not a whole number; {name} is counted in whole units: {verb} {choice}"


def _fault(code: Code, value: str, message: str) -> Fault:
    return Fault(code.number, Reason.INVALID, value, message)


def _shown(token: bytes) -> str:
    """The raw JSON as text, cut where nobody would read on."""
    text = token.decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
