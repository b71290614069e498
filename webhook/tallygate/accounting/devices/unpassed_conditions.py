"""The condition that no published device passes, of the selectors of a class and of a request.

A device passes if kube-scheduler can allocate it by all selectors: each matches, or its result is not known here. A
device on which the evaluation fails is never allocated. The conditions are examined in their order, and each narrows
the devices: the first one without any is the condition, with the values that the devices before it have.

The work is that of the review. Taints, capacities that a request consumes, and other claims are left out: they may
change, and only exclude devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tallygate.accounting.cel.syntax import ExpressionError
from tallygate.accounting.devices.conditions import (
    Comparison,
    DeviceField,
    FieldValue,
    find_comparison,
    split_conditions,
)
from tallygate.accounting.devices.device_values import Device
from tallygate.accounting.devices.least_amounts import LeastAmountsReview
from tallygate.accounting.devices.slice_devices import PublishedSlice, Work, WorkLimitError, read_device
from tallygate.accounting.quantity_parser import QuantityError


class UnpassedCondition(NamedTuple):
    """A condition that no device passes; `selector` is its place among those of the request, None in the class.

    If `is_narrowed`, conditions before it exclude devices. `text` is empty if all conditions together exclude every
    device, or nothing is published. `values` are the different values of the compared field, and `names` those of the
    fields beside it if there are no values. They are some of many unless it `has_all_values`.
    """

    selector: int | None
    text: str = ""
    is_narrowed: bool = False
    comparison: Comparison | None = None
    values: tuple[FieldValue, ...] = ()
    names: tuple[str, ...] = ()
    has_all_values: bool = True


class _Candidates(NamedTuple):
    """The devices of one slice that pass all conditions until now, as bits in their order."""

    published: PublishedSlice
    bits: int


def find_unpassed_condition(
    review: LeastAmountsReview, class_selectors: Sequence[str], own_selectors: Sequence[str]
) -> UnpassedCondition | None:
    """Return the condition that no device passes; None if a device may pass all, or the slices are not known.

    Raises:
        WorkLimitError: if that is more work than a review may do.
    """
    if review.slices is None:
        return None
    candidates = [
        _Candidates(resource_slice, (1 << len(resource_slice.devices)) - 1)
        for resource_slice in review.slices
        if resource_slice.devices
    ]
    selectors = [(text, False) for text in class_selectors] + [(text, True) for text in own_selectors]
    if any(_may_pass(review, candidate, selectors) for candidate in candidates):
        return None
    if not candidates:
        return UnpassedCondition(None)
    return _find_first(review, candidates, class_selectors, own_selectors)


def _may_pass(review: LeastAmountsReview, candidates: _Candidates, selectors: Sequence[tuple[str, bool]]) -> bool:
    """Return whether a device of the slice may pass all selectors."""
    bits, work = candidates.bits, review.get_work(is_own=False)
    for text, is_own in selectors:
        work.spend(1)  # for a known result too
        bits &= review.evaluate(text, candidates.published, is_own=is_own).allocatable
        if not bits:
            return False
    return True


def _find_first(
    review: LeastAmountsReview,
    candidates: Sequence[_Candidates],
    class_selectors: Sequence[str],
    own_selectors: Sequence[str],
) -> UnpassedCondition:
    for is_own, texts in enumerate((class_selectors, own_selectors)):
        is_narrowed = False
        for index, text in enumerate(texts):
            for condition in _split(review, text, is_own=bool(is_own)):
                remaining = list(_narrow(review, candidates, condition, is_own=bool(is_own)))
                if not remaining:
                    found = UnpassedCondition(index if is_own else None, condition, is_narrowed)
                    return _add_values(review, candidates, found)
                is_narrowed = is_narrowed or _count(remaining) < _count(candidates)
                candidates = remaining
    # Each condition alone is decided, and all of them together are not: they cost more than one evaluation may.
    return UnpassedCondition(len(own_selectors) - 1 if own_selectors else None)


def _split(review: LeastAmountsReview, text: str, *, is_own: bool) -> list[str]:
    review.get_work(is_own=is_own).spend(len(text))
    try:
        return split_conditions(text)
    except ExpressionError:
        return [text]


def _narrow(
    review: LeastAmountsReview, candidates: Sequence[_Candidates], condition: str, *, is_own: bool
) -> Iterator[_Candidates]:
    work = review.get_work(is_own=False)
    for candidate in candidates:
        work.spend(1)
        bits = candidate.bits & review.evaluate(condition, candidate.published, is_own=is_own).allocatable
        if bits:
            yield _Candidates(candidate.published, bits)


def _count(candidates: Sequence[_Candidates]) -> int:
    return sum(candidate.bits.bit_count() for candidate in candidates)


def _add_values(
    review: LeastAmountsReview, candidates: Sequence[_Candidates], found: UnpassedCondition
) -> UnpassedCondition:
    try:
        comparison = find_comparison(found.text)
    except ExpressionError:
        comparison = None
    if comparison is None:
        return found
    values: dict[str, FieldValue] = {}
    names: dict[str, None] = {}
    has_all_values = True
    try:
        for device in _list_devices(candidates, review.get_work(is_own=False)):
            for value in _list_values(comparison.field, device):
                values.setdefault(value.text, value)
            names.update(dict.fromkeys(comparison.field.list_names(device)))
    except WorkLimitError:
        has_all_values = False
    return found._replace(
        comparison=comparison,
        values=tuple(values.values()),
        names=() if values else tuple(sorted(names)),
        has_all_values=has_all_values,
    )


def _list_devices(candidates: Sequence[_Candidates], work: Work) -> Iterator[Device]:
    """Yield the devices of the candidates.

    Raises:
        WorkLimitError: if that is more work than is allowed.
    """
    for candidate in candidates:
        for index, content in enumerate(candidate.published.devices.values()):
            device = read_device(candidate.published.driver, content, work) if candidate.bits >> index & 1 else None
            if device is not None:
                yield device


def _list_values(field: DeviceField, device: Device) -> list[FieldValue]:
    try:
        return list(field.list_values(device))
    except QuantityError:
        return []
