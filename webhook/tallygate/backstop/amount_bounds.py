"""Bounds of amounts as conditions in CEL on thousandths, which are integers there.

An amount that is not exact is at least its thousandths, so that only a maximum can be violated for certain.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import INT64_MAX
from tallygate.admission.cel_texts import quote
from tallygate.backstop.object_variables import MILLI
from tallygate.policy.model import AmountBounds

MIN: Final = "min"
MAX: Final = "max"
MULTIPLE_OF: Final = "multipleOf"
ONE_OF: Final = "oneOf"

_LARGEST = INT64_MAX // MILLI * MILLI
_UNIT = re.compile(r"([0-9]+)(.*)")


class BoundCondition(NamedTuple):
    """A bound by its field in a policy, and the condition in CEL that violates it."""

    name: str
    condition: str


def list_bound_conditions(bounds: AmountBounds, m: str, is_exact: str) -> Iterator[BoundCondition]:
    """Yield the bounds that can be written; `m` is an amount in thousandths, `is_exact` the condition that it is exact.

    An amount of zero violates none.
    """
    if bounds.min is not None and (least := -(-bounds.min).floor_milli()) <= _LARGEST:
        yield BoundCondition(MIN, f"{is_exact} && {m} > 0 && {m} < {least}")
    if bounds.max is not None and (most := bounds.max.floor_milli()) <= _LARGEST:
        yield BoundCondition(MAX, f"{m} > {most}")
    if bounds.multiple_of is not None and (unit := convert_to_milli(bounds.multiple_of)):
        yield BoundCondition(MULTIPLE_OF, f"{is_exact} && {m} > 0 && {m} % {unit} != 0")
    if bounds.one_of:
        amounts = sorted(amount for choice in bounds.one_of if (amount := convert_to_milli(choice)) is not None)
        listed = ", ".join(map(str, amounts))
        # no amount is finer than a thousandth, so a choice that is finer matches none
        yield BoundCondition(
            ONE_OF, f"{m} > 0 && !({m} in [{listed}]) && ({is_exact} || {m} > {max(amounts, default=0)})"
        )


def find_missing_bounds(bounds: AmountBounds) -> Iterator[str]:
    """Yield the bounds that no condition says: those beyond 64 bits, and multiples of a fraction of a thousandth."""
    written = {name for name, _ in list_bound_conditions(bounds, "m", "true")}
    given = {
        MIN: bounds.min is not None,
        MAX: bounds.max is not None,
        MULTIPLE_OF: bounds.multiple_of is not None,
        ONE_OF: bool(bounds.one_of),
    }
    return (name for name, is_given in given.items() if is_given and name not in written)


def convert_to_milli(quantity: Quantity) -> int | None:
    """Return thousandths; None if there is a finer fraction, or more than an integer of CEL has."""
    mantissa, unit, _ = quantity.align(Quantity(1, -3))
    return mantissa // unit if mantissa % unit == 0 and mantissa // unit <= _LARGEST else None


def format_nearest_multiples(unit: Quantity, m: str) -> str:
    """Return the text, in CEL, of the multiples of a unit below and above an amount in thousandths."""
    milli = convert_to_milli(unit)
    written = _UNIT.fullmatch(unit.canonical)
    assert milli, unit  # noqa: S101  # the bound is written
    assert written, unit  # noqa: S101  # a positive quantity
    number, suffix = int(written[1]), quote(written[2])
    below, above = f"string({m} / {milli} * {number}) + {suffix}", f"string(({m} / {milli} + 1) * {number}) + {suffix}"
    return f"({m} < {milli} ? '' : {below} + ' or ') + {above}"
