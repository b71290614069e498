"""Decimal numbers as a mantissa and a power of ten, brought to another power.

Follows `ScaledValue` (apimachinery pkg/api/resource/quantity.go, amount.go and math.go, v1.36) in how it rounds.
"""

_POWERS: tuple[int, ...] = tuple(10**exponent for exponent in range(64))


def ten_to(exponent: int) -> int:
    """10 to a power that is not negative."""
    return _POWERS[exponent] if exponent < len(_POWERS) else int(10**exponent)


def rounded_up(mantissa: int, scale: int, target: int) -> int:
    """`mantissa * 10**scale` in units of `10**target`, rounded away from zero (negativeScaleInt64)."""
    if scale >= target:
        return mantissa * ten_to(scale - target)
    quotient, rest = divmod(abs(mantissa), ten_to(target - scale))
    magnitude = quotient + bool(rest)
    return magnitude if mantissa >= 0 else -magnitude


def rounded_as_decimal(mantissa: int, scale: int, target: int) -> int:
    """The same as a decimal is rounded (scaledValue): one more than the integer nearer to zero, negatives too.

    So that -1.1 becomes 0, which is Kubernetes' fault, and seen by nobody where negative quantities are refused.
    """
    if mantissa >= 0 or scale >= target:
        return rounded_up(mantissa, scale, target)
    quotient, rest = divmod(-mantissa, ten_to(target - scale))
    return bool(rest) - quotient


def rounded_down(mantissa: int, scale: int, target: int) -> int:
    """`mantissa * 10**scale` in units of `10**target`, rounded to the lower integer."""
    if scale >= target:
        return mantissa * ten_to(scale - target)
    return mantissa // ten_to(target - scale)
