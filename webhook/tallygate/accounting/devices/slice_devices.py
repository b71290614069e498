"""The devices of one ResourceSlice: those that an expression matches, and the least amounts that a request can get.

A device with an undecided expression may match. A shared device counts with the least that a request consumes of it
(calculateConsumedCapacity in k8s.io/dynamic-resource-allocation/structured/internal/experimental, v1.37).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec

from tallygate.accounting.cel.loops import MAX_COST
from tallygate.accounting.cel.syntax import ExpressionError
from tallygate.accounting.devices.consumed_capacity import ConsumptionRules, PublishedCapacity, read_capacity
from tallygate.accounting.devices.device_meter import DeviceId, DeviceMeter
from tallygate.accounting.devices.device_values import AttributeValue, Device
from tallygate.accounting.devices.expression import CompiledSelector, UndecidedMatchError, compile_selector
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError

EVALUATION = 5
"""The work of an evaluation besides its cost."""
_RULES = [ConsumptionRules(has_fractions=has_fractions) for has_fractions in (False, True)]
"""The rules by which schedulers round fractions."""
_MAX_LENGTH = 2048  # of an expression: the compiled form of a longer one takes much time and memory


class PublishedSlice(Protocol):
    """One ResourceSlice: nodes reach all of its devices or none, unless it `selects_per_device`."""

    @property
    def name(self) -> str:
        """The name of the slice."""
        ...

    @property
    def driver(self) -> str:
        """The driver of the pool."""
        ...

    @property
    def pool(self) -> str:
        """The name of the pool."""
        ...

    @property
    def devices(self) -> Mapping[str, bytes]:
        """The JSON of each device by name."""
        ...

    @property
    def selects_per_device(self) -> bool:
        """Whether nodes are selected for each device, not for the slice."""
        ...


class WorkLimitError(Exception):
    """A review needs more work than is allowed."""


class Work:
    """The work that a review may still do, in the costs of expressions."""

    def __init__(self, limit: int) -> None:
        self.remaining = limit

    def spend(self, amount: int) -> None:
        """Reduce the remaining work.

        Raises:
            WorkLimitError: if nothing remains.
        """
        self.remaining -= amount
        if self.remaining < 0:
            raise WorkLimitError


class SliceMatches(NamedTuple):
    """The devices of a slice that an expression matches, and those that it may match, as bits in their order.

    `allocatable` are those of them that kube-scheduler can allocate: on the others its evaluation fails too.
    """

    published: PublishedSlice
    sure: int
    possible: int
    allocatable: int


class SliceAmounts(NamedTuple):
    """The least amounts of the devices of a slice in their order, and the least of them.

    `skippable` are, as bits, the devices that mode `All` may leave out.
    """

    published: PublishedSlice
    least: int
    amounts: tuple[int, ...]
    skippable: int


def evaluate_slice(text: str, published: PublishedSlice, work: Work) -> SliceMatches:
    """Return the devices of a slice that an expression matches.

    Raises:
        WorkLimitError: if that is more work than is allowed.
    """
    selector = _compile(text)
    sure = possible = failed = 0
    for index, content in enumerate(published.devices.values()):
        match = _Match.UNKNOWN if selector is None else _evaluate(selector, published.driver, content, work)
        sure |= (match is _Match.YES) << index
        possible |= (match is not _Match.NO) << index
        failed |= (match is _Match.FAILED) << index
    return SliceMatches(published, sure, possible, possible & ~failed)


class _Match(Enum):
    """Whether an expression matches a device: its evaluation may fail, or be unknown here."""

    YES = auto()
    NO = auto()
    FAILED = auto()
    UNKNOWN = auto()


@lru_cache(maxsize=64)
def _compile(text: str) -> CompiledSelector | None:
    """Return a compiled expression; None if it is long, or this package cannot compile it."""
    if len(text) > _MAX_LENGTH:
        return None
    try:
        return compile_selector(text)
    except ExpressionError:
        return None


def _evaluate(selector: CompiledSelector, driver: str, content: bytes, work: Work) -> _Match:
    device = read_device(driver, content, work)
    if device is None:
        return _Match.UNKNOWN
    try:
        is_match, cost = selector.evaluate(device, min(work.remaining, MAX_COST))
    except UndecidedMatchError as error:
        work.spend(error.cost)
        return _Match.UNKNOWN if error.is_unsupported else _Match.FAILED
    work.spend(cost)
    return _Match.YES if is_match else _Match.NO


def read_device(driver: str, content: bytes, work: Work) -> Device | None:
    """Return a device as expressions read it; None if its JSON has another form.

    Raises:
        WorkLimitError: if no more work is allowed.
    """
    work.spend(EVALUATION)
    decoded = _decode(content)
    if decoded is None:
        return None
    return Device(driver, decoded.attributes, decoded.capacity, decoded.allow_multiple_allocations)


def measure_slice(
    published: PublishedSlice, meter: DeviceMeter, requested: Mapping[str, bytes], work: Work
) -> SliceAmounts:
    """Return the least amounts of the devices of a slice, for a request of these quantities by capacity.

    Raises:
        WorkLimitError: if that is more work than is allowed.
    """
    work.spend(2 * EVALUATION * len(published.devices))
    amounts, skippable = [], 0
    names = meter.list_capacity_names(published.driver)
    for index, (name, content) in enumerate(published.devices.items()):
        device = _decode(content)
        amount = (
            0 if device is None else meter.compute_certain(DeviceId(published.driver, published.pool, name), content)
        )
        if device is not None and device.allow_multiple_allocations:
            amount = min(amount, _compute_consumption(device, names, requested, amount))
        if device is None or requested or _may_be_skipped(device):
            skippable |= 1 << index
        amounts.append(amount)
    return SliceAmounts(published, min(amounts, default=0), tuple(amounts), skippable)


class _DeviceContent(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a device in a slice that decide a match and the least amount."""

    attributes: dict[str, AttributeValue] = {}
    capacity: dict[str, PublishedCapacity] = {}
    allow_multiple_allocations: bool | None = None
    consumes_counters: tuple[msgspec.Raw, ...] = ()
    binding_conditions: tuple[str, ...] = ()


_DECODER = msgspec.json.Decoder(_DeviceContent)


def _decode(content: bytes) -> _DeviceContent | None:
    """Return the fields of a device; None if its JSON has another form."""
    try:
        return _DECODER.decode(content)
    except msgspec.MsgspecError:
        return None


def _may_be_skipped(device: _DeviceContent) -> bool:
    """Return whether schedulers with other features leave the device out, or allocate a part of it."""
    return bool(device.allow_multiple_allocations or device.consumes_counters or device.binding_conditions)


def _compute_consumption(
    device: _DeviceContent, names: tuple[str, ...], requested: Mapping[str, bytes], whole: int
) -> int:
    """Return the least that a request consumes of the first of these capacities that a shared device has.

    `whole` is the amount of the device, which counts without such a capacity.
    """
    name = next((name for name in names if name in device.capacity), None)
    if name is None:
        return whole
    try:
        capacity, raw = read_capacity(device.capacity[name]), requested.get(name)
        amount = None if raw is None else Quantity.from_json(raw)
        return min(rules.compute_amount(name, amount, capacity) for rules in _RULES).value()
    except QuantityError:
        return 0
