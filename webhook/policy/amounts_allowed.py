"""What bounds leave: which amounts satisfy them, alone or several together. Exact."""

from math import lcm

from webhook.accounting.quantity import Quantity
from webhook.policy.model import AmountBounds


def is_allowed_amount(bounds: AmountBounds, quantity: Quantity) -> bool:
    """Whether an amount is within bounds."""
    return (
        (bounds.min is None or quantity >= bounds.min)
        and (bounds.max is None or quantity <= bounds.max)
        and (bounds.multiple_of is None or _is_multiple(quantity, bounds.multiple_of))
        and (not bounds.one_of or quantity in bounds.one_of)
    )


def _is_multiple(quantity: Quantity, unit: Quantity) -> bool:
    return unit.milli() != 0 and quantity.milli() % unit.milli() == 0


def find_min_allowed(all_bounds: tuple[AmountBounds, ...]) -> Quantity | None:
    """The least amount that satisfies all of these bounds, or `None` if there is none."""
    choices = next((bounds.one_of for bounds in all_bounds if bounds.one_of), ())
    if choices:
        return min(
            (choice for choice in choices if all(is_allowed_amount(bounds, choice) for bounds in all_bounds)),
            default=None,
        )
    lowest = max((bounds.min for bounds in all_bounds if bounds.min is not None), default=Quantity.from_int(0))
    units = [bounds.multiple_of.milli() for bounds in all_bounds if bounds.multiple_of is not None]
    if units:
        if 0 in units:
            return None
        unit = lcm(*units)
        lowest = Quantity.parse(f"{-(-lowest.milli() // unit) * unit}m")
    highest = min((bounds.max for bounds in all_bounds if bounds.max is not None), default=lowest)
    return lowest if lowest <= highest else None
