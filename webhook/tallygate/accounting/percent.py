"""Exact shares of an amount: percentages with up to three decimals, as in `12.5%`."""

import re

from tallygate.errors import TallygateError

MAX_PERCENT = 1000
"""The largest percentage: ten times what there is."""

_PERCENT = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,3}))?%", re.ASCII)
_DECIMALS = 3
_UNIT = 1000
"""One percent in thousandths of a percent, as many as three decimals give."""


class PercentError(TallygateError, ValueError):
    """The text is no percentage that is read."""


class Percent(int):
    """A percentage, as the number of its thousandths, from 0 to `MAX_PERCENT`."""

    @classmethod
    def parse(cls, text: str) -> "Percent":
        """Return the percentage of a text such as `25%` or `12.5%`.

        Raises:
            PercentError: with what would pass, for any other text.
        """
        match = _PERCENT.fullmatch(text)
        if match is None:
            raise PercentError(
                "is not a percentage; write a number with up to three decimals and %, as in 25% or 12.5%"
            )
        whole, decimals = match.groups()
        thousandths = cls(int(whole) * _UNIT + int((decimals or "").ljust(_DECIMALS, "0")))
        if thousandths > MAX_PERCENT * _UNIT:
            raise PercentError(f"is more than {MAX_PERCENT}%; write less")
        return thousandths

    def compute_share(self, amount: int, *, rounds_up: bool = False) -> int:
        """Return this share of an amount that is not negative, in the unit of the amount, rounded down or up."""
        share, rest = divmod(amount * int(self), 100 * _UNIT)
        return share + 1 if rest and rounds_up else share

    def __str__(self) -> str:
        whole, decimals = divmod(int(self), _UNIT)
        return f"{whole}.{decimals:03}".rstrip("0").rstrip(".") + "%" if decimals else f"{whole}%"
