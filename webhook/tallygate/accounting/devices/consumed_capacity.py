"""The capacity that a request consumes of a device (consumable_capacity.go).

A request names amounts of capacities, or gets the default of the policy, or all. The amount is rounded up to one that
the policy allows. Two requests may share a device as long as the sum fits, if the device allows several allocations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from tallygate.accounting.devices.device_values import CapacityValue
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import INT64_MAX, Format, QuantityError
from tallygate.errors import TallygateError

_MILLI_SCALE: Final = -3
_NONE: Final[Mapping[str, Quantity]] = {}

Amounts = Mapping[str, Quantity]
"""Amounts of capacities by name."""

Capacities = Mapping[str, "Capacity"]
"""The capacities of a device by name."""


class ValidRange(NamedTuple):
    """The amounts that a request may consume of a capacity: from `low` to `high`, in steps."""

    low: Quantity | None
    high: Quantity | None
    step: Quantity | None


class RequestPolicy(NamedTuple):
    """The policy of a capacity that several claims share: the default of a request, and the amounts that are valid."""

    default: Quantity | None
    valid_values: tuple[Quantity, ...]
    valid_range: ValidRange | None


class Capacity(NamedTuple):
    """One capacity of a device."""

    value: Quantity
    policy: RequestPolicy | None


_ABSENT: Final = msgspec.Raw(b"null")


class _Range(msgspec.Struct, frozen=True):
    min: msgspec.Raw = _ABSENT
    max: msgspec.Raw = _ABSENT
    step: msgspec.Raw = _ABSENT


class _Policy(msgspec.Struct, frozen=True, rename="camel"):
    default: msgspec.Raw = _ABSENT
    valid_values: list[msgspec.Raw] | None = None
    valid_range: _Range | None = None


class PublishedCapacity(CapacityValue, frozen=True, rename="camel"):
    """One capacity in the JSON of a device."""

    request_policy: _Policy | None = None


class CapacityRequestError(TallygateError):
    """A request that ends the allocation on every node."""


class ConsumptionRules:
    """The rules of one version.

    With `has_fractions` ranges of valid amounts may have fractions, in thousandths. With `rejects_unreadable` a request
    whose amount int64 cannot represent ends the allocation, with `rejects_negative` any negative request. With
    `qualifies_names` a capacity is the same with and without the driver's name before it.
    """

    def __init__(
        self,
        *,
        has_fractions: bool,
        rejects_unreadable: bool = False,
        rejects_negative: bool = False,
        qualifies_names: bool = False,
    ) -> None:
        self._has_fractions = has_fractions
        self._rejects_unreadable = rejects_unreadable
        self._rejects_negative = rejects_negative
        self._qualifies_names = qualifies_names

    def compute_consumed(self, driver: str, capacities: Capacities, requested: Amounts) -> dict[str, Quantity]:
        """Return what a request consumes of a device of a driver, by capacity, as the driver writes its name.

        Raises:
            CapacityRequestError: if the amount cannot be represented, or two requests are for one capacity.
        """
        capacities = self._select_published(driver, capacities)
        requested = self._resolve(driver, capacities, requested) or _NONE
        consumed = {}
        for name, capacity in capacities.items():
            shown = self._list_spellings(driver, name)[0]
            amount = self.compute_amount(shown, requested.get(name), capacity)
            if self._rejects_unreadable and amount.sign < 0:
                raise CapacityRequestError(f'capacity "{shown}": capacity value is negative')
            consumed[name] = amount
        return consumed

    def fits(
        self,
        driver: str,
        capacities: Capacities,
        requested: Amounts,
        allocated: Amounts = _NONE,
        allocating: Amounts = _NONE,
    ) -> bool:
        """Return whether a device of a driver has room for a request, besides what is, and what is being, allocated.

        Raises:
            CapacityRequestError: as `compute_consumed`.
        """
        if not capacities:
            return not requested
        published = self._select_published(driver, capacities)
        if self._resolve(driver, published, requested) is None:
            return False
        consumed = self.compute_consumed(driver, published, requested)
        for name, capacity in published.items():
            amount = consumed[name]
            if self._violates(amount, capacity.policy):
                return False
            total = amount
            for spelling in self._list_spellings(driver, name):
                if spelling != name and spelling in capacities:
                    continue
                for other in (allocated.get(spelling), allocating.get(spelling)):
                    total = total if other is None else total + other
            if total > capacity.value:
                return False
        return True

    def _list_spellings(self, driver: str, name: str) -> tuple[str, ...]:
        return _list_spellings(driver, name) if self._qualifies_names else (name,)

    def _select_published(self, driver: str, capacities: Capacities) -> Capacities:
        """Return the capacities without those that the driver publishes with its name before them, too."""
        if not self._qualifies_names or all("/" not in name for name in capacities):
            return capacities
        return {name: each for name, each in capacities.items() if "/" in name or f"{driver}/{name}" not in capacities}

    def _resolve(self, driver: str, capacities: Capacities, requested: Amounts) -> Amounts | None:
        """Return the request by the names of the capacities; None if the device lacks one of them."""
        resolved: dict[str, Quantity] = {}
        for name, amount in requested.items():
            found = next((each for each in self._list_spellings(driver, name) if each in capacities), None)
            if found is None:
                return None
            if found in resolved:
                qualified, identifier = self._list_spellings(driver, name)
                raise CapacityRequestError(
                    f'capacity "{identifier}" requested both as "{name}" and as '
                    f'"{identifier if name == qualified else qualified}"'
                )
            resolved[found] = amount
        return resolved

    def compute_amount(self, name: str, requested: Quantity | None, capacity: Capacity) -> Quantity:
        """Return what a request consumes of one capacity; it may name no amount.

        Raises:
            CapacityRequestError: if the amount cannot be represented.
        """
        policy = capacity.policy
        if requested is None:
            return policy.default if policy is not None and policy.default is not None else capacity.value
        if self._rejects_negative and requested.sign < 0:
            raise CapacityRequestError(f'capacity "{name}": capacity value is negative: request {requested.text}')
        if policy is None:
            return requested
        if policy.valid_range is not None and policy.valid_range.low is not None:
            return self._round_up(name, requested, policy.valid_range.low, policy.valid_range)
        return next((value for value in policy.valid_values if requested <= value), requested)

    def _round_up(self, name: str, requested: Quantity, low: Quantity, valid: ValidRange) -> Quantity:
        """Return the next step that is not below a request."""
        if requested < low:
            return low
        if valid.step is None:
            return requested
        is_milli = self._counts_thousandths(valid)
        if is_milli and self._rejects_unreadable and not _is_whole_milli(requested):
            raise _create_error(name, f"request {requested.text} is not a representable milli value")
        if not is_milli and self._rejects_unreadable and requested > Quantity.from_int(INT64_MAX):
            raise _create_error(name, f"request {requested.text} exceeds MaxInt64")
        step, start, amount = (_read(quantity, is_milli=is_milli) for quantity in (valid.step, low, requested))
        total = start + step * -((start - amount) // step)
        if self._rejects_unreadable and total > INT64_MAX and (is_milli or start >= 0):
            limit = "the milli-value range" if is_milli else "MaxInt64"
            raise _create_error(name, f"rounding request {requested.text} up to the next step passes {limit}")
        form = valid.step.format if self._rejects_unreadable else Format.BINARY_SI
        return Quantity(total, _MILLI_SCALE if is_milli else 0, form)

    def _violates(self, amount: Quantity, policy: RequestPolicy | None) -> bool:
        if policy is None or (policy.default is not None and _is_same(amount, policy.default)):
            return False
        if policy.valid_range is not None:
            return self._violates_range(amount, policy.valid_range)
        return bool(policy.valid_values) and not any(amount == value for value in policy.valid_values)

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
        given = [value for value in valid if value is not None]
        return all(map(_is_whole_milli, given)) and (valid.step is None or valid.step.milli() >= 1)


@lru_cache(maxsize=1024)
def _list_spellings(driver: str, name: str) -> tuple[str, ...]:
    """Return the names of a capacity: with the driver's name first, and without it; one of another domain has one."""
    identifier = name.removeprefix(f"{driver}/")
    return (name,) if "/" in identifier else (f"{driver}/{identifier}", identifier)


def read_capacity(published: PublishedCapacity) -> Capacity:
    """Return a capacity with exact quantities.

    Raises:
        QuantityError: if a quantity is invalid.
    """
    return Capacity(Quantity.from_json(published.value), _read_policy(published.request_policy))


def _read_policy(policy: _Policy | None) -> RequestPolicy | None:
    if policy is None:
        return None
    valid = tuple(Quantity.from_json(value) for value in policy.valid_values or ())
    return RequestPolicy(_read_optional(policy.default), valid, _read_range(policy.valid_range))


def _read_range(valid: _Range | None) -> ValidRange | None:
    if valid is None:
        return None
    step = _read_optional(valid.step)
    if step is not None and step.value() < 1:
        raise QuantityError(f"the step of a range of valid amounts is {step}: it must be above 0")
    return ValidRange(_read_optional(valid.min), _read_optional(valid.max), step)


def _read_optional(raw: msgspec.Raw) -> Quantity | None:
    return None if bytes(raw) == b"null" else Quantity.from_json(raw)


def sum_amounts(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sums by capacity."""
    total: dict[str, Quantity] = {}
    for consumed in amounts:
        for name, amount in consumed.items():
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
