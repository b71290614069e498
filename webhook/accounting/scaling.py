"""Decimal numbers as a mantissa and a power of ten, brought to another power.

Follows `ScaledValue` (apimachinery pkg/api/resource/quantity.go, amount.go and math.go, v1.36) in how it rounds.
"""

_POWERS: tuple[int, ...] = tuple(10**exponent for exponent in range(64))


def power_of_ten(exponent: int) -> int:
    """10 to a power that is not negative."""
    return _POWERS[exponent] if exponent < len(_POWERS) else int(10**exponent)


def round_up(mantissa: int, scale: int, target: int) -> int:
    """`mantissa * 10**scale` in units of `10**target`, rounded away from zero (negativeScaleInt64)."""
    if scale >= target:
        return mantissa * power_of_ten(scale - target)
    quotient, remainder = divmod(abs(mantissa), power_of_ten(target - scale))
    magnitude = quotient + bool(remainder)
    return magnitude if mantissa >= 0 else -magnitude


def round_as_decimal(mantissa: int, scale: int, target: int) -> int:
    """The same as a decimal is rounded (scaledValue): one more than the integer nearer to zero, negatives too.

    So that -1.1 becomes 0, which is Kubernetes' fault, and seen by nobody where negative quantities are refused.
    """
    if mantissa >= 0 or scale >= target:
        return round_up(mantissa, scale, target)
    quotient, remainder = divmod(-mantissa, power_of_ten(target - scale))
    return bool(remainder) - quotient


def round_down(mantissa: int, scale: int, target: int) -> int:
    """`mantissa * 10**scale` in units of `10**target`, rounded to the lower integer."""
    if scale >= target:
        return mantissa * power_of_ten(scale - target)
    return mantissa // power_of_ten(target - scale)
