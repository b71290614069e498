"""The capacity that a request consumes of a device (consumable_capacity.go).

A request names amounts of capacities, or gets the default of the policy, or all. The amount is rounded up to one that
the policy allows. Two requests may share a device as long as the sum fits, if the device allows several allocations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tallygate.webhook.accounting.allocation.published_devices import (
    Capacity,
    DeviceContent,
    RequestPolicy,
    ValidRange,
)
from tallygate.webhook.accounting.quantity import Quantity
from tallygate.webhook.accounting.quantity_parser import INT64_MAX, Format
from tallygate.webhook.errors import TallygateError

_MILLI_SCALE: Final = -3
_NONE: Final[Mapping[str, Quantity]] = {}

Amounts = Mapping[str, Quantity]
"""Amounts of capacities by name."""


class CapacityRequestError(TallygateError):
    """A request that ends the allocation on every node (v1.37)."""


class ConsumptionRules:
    """The rules of one version.

    `has_fractions` is the feature DRAFractionalCapacityRange of 1.37, which is off by default; since 1.37 a request
    whose amount int64 cannot represent ends the allocation (`rejects_unreadable`).
    """

    def __init__(self, *, has_fractions: bool, rejects_unreadable: bool) -> None:
        self._has_fractions = has_fractions
        self._rejects_unreadable = rejects_unreadable

    def compute_consumed(self, device: DeviceContent, requested: Amounts) -> dict[str, Quantity]:
        """Return what a request consumes of a device, by capacity.

        Raises:
            CapacityRequestError: if the amount cannot be represented.
        """
        consumed = {}
        for name, capacity in device.capacities.items():
            amount = self._compute_amount(name, requested.get(name), capacity)
            if self._rejects_unreadable and amount.sign < 0:
                raise CapacityRequestError(f'capacity "{name}": capacity value is negative')
            consumed[name] = amount
        return consumed

    def fits(
        self, device: DeviceContent, requested: Amounts, allocated: Amounts = _NONE, allocating: Amounts = _NONE
    ) -> bool:
        """Return whether a device has room for a request, beside what is allocated and being allocated of it.

        Raises:
            CapacityRequestError: as `compute_consumed`.
        """
        if not device.capacities:
            return not requested
        if any(name not in device.capacities for name in requested):
            return False
        consumed = self.compute_consumed(device, requested)
        for name, capacity in device.capacities.items():
            amount = consumed[name]
            if self._violates(amount, capacity.policy):
                return False
            total = amount
            for other in (allocated.get(name), allocating.get(name)):
                total = total if other is None else total + other
            if total > capacity.value:
                return False
        return True

    def _compute_amount(self, name: str, requested: Quantity | None, capacity: Capacity) -> Quantity:
        policy = capacity.policy
        if requested is None:
            return policy.default if policy is not None and policy.default is not None else capacity.value
        if policy is None:
            return requested
        if policy.valid_range is not None and policy.valid_range.low is not None:
            return self._round_up(name, requested, policy.valid_range.low, policy.valid_range)
        return next((each for each in policy.valid_values if requested <= each), requested)

    def _round_up(self, name: str, requested: Quantity, low: Quantity, valid: ValidRange) -> Quantity:
        """Return the next step that is not below a request."""
        if requested < low:
            return low
        if valid.step is None:
            return requested
        is_milli = self._counts_thousandths(valid)
        if is_milli and self._rejects_unreadable and not _is_whole_milli(requested):
            raise _create_error(name, f"request {requested} is not a representable milli value")
        if not is_milli and self._rejects_unreadable and requested > Quantity.from_int(INT64_MAX):
            raise _create_error(name, f"request {requested} exceeds MaxInt64")
        step, start, amount = (_read(each, is_milli=is_milli) for each in (valid.step, low, requested))
        total = start + step * -((start - amount) // step)
        if self._rejects_unreadable and total > INT64_MAX and (is_milli or start >= 0):
            limit = "the milli-value range" if is_milli else "MaxInt64"
            raise _create_error(name, f"rounding request {requested} up to the next step passes {limit}")
        form = valid.step.format if self._rejects_unreadable else Format.BINARY_SI
        return Quantity(total, _MILLI_SCALE if is_milli else 0, form)

    def _violates(self, amount: Quantity, policy: RequestPolicy | None) -> bool:
        if policy is None or (policy.default is not None and _is_same(amount, policy.default)):
            return False
        if policy.valid_range is not None:
            return self._violates_range(amount, policy.valid_range)
        return bool(policy.valid_values) and not any(amount == each for each in policy.valid_values)

    def _violates_range(self, amount: Quantity, valid: ValidRange) -> bool:
        if valid.high is not None and amount > valid.high:
            return True
        if valid.step is None:
            return False
        is_milli = self._counts_thousandths(valid)
        if is_milli and not _is_whole_milli(amount):
            return True
        start = _read(valid.low or Quantity.from_int(0), is_milli=is_milli)
        return (_read(amount, is_milli=is_milli) - start) % _read(valid.step, is_milli=is_milli) != 0

    def _counts_thousandths(self, valid: ValidRange) -> bool:
        """Return whether a range is exact in thousandths, which is then its unit (useMilli)."""
        if not self._has_fractions:
            return False
        given = [each for each in valid if each is not None]
        return all(map(_is_whole_milli, given)) and (valid.step is None or valid.step.milli() >= 1)


def sum_amounts(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sums by capacity."""
    total: dict[str, Quantity] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _create_error(name: str, reason: str) -> CapacityRequestError:
    known = "capacity request cannot be represented in the device's range arithmetic"
    return CapacityRequestError(f'capacity "{name}": {known}: {reason}')


def _read(quantity: Quantity, *, is_milli: bool) -> int:
    return quantity.milli() if is_milli else quantity.value()


def _is_whole_milli(quantity: Quantity) -> bool:
    return Quantity(quantity.milli(), _MILLI_SCALE) == quantity and quantity.milli() <= INT64_MAX


def _is_same(left: Quantity, right: Quantity) -> bool:
    """Return whether two quantities are one value of Go: the same number, written in the same way."""
    return left == right and (left.format, left.original_text) == (right.format, right.original_text)
