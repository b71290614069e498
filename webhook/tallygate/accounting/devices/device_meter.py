"""The amounts of allocated devices under the names that a cap defines by their attributes and capacities.

A device that the selector matches counts once, or with its amount of one capacity: the part that a result consumed of a
shared device, else the capacity of the device, else the counters that it consumes as a partition of another one. A name
without a domain is in the domain of the driver, as in expressions. Amounts are rounded up to whole units.

A device may be unknown, and an expression may be undecided. At admission that is an error, and the request is tried
again. For a count, a device keeps its last known amount; without one, it counts as if the selector matched it. So a
count is never too low. Only the capacity of an unknown device has no such bound: its amount is then None.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from tallygate.accounting.devices.device_values import AttributeValue, CapacityValue, Device
from tallygate.accounting.devices.expression import UndecidedMatchError, compile_selector
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.errors import TallygateError
from tallygate.objects.devices import ResourceClaim

_MAX_DEVICES = 100_000


class UndecidedDeviceError(TallygateError):
    """The amount of a device is not known yet: no slice publishes it, or an expression cannot be evaluated on it."""


class DeviceId(NamedTuple):
    """The name of a device, which is unique in a pool of a driver."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class AllocatedDevice(NamedTuple):
    """A device of a claim.

    `consumed` are the names and quantities that the claim consumes of a shared device; it may consume none.
    """

    id: DeviceId
    consumed: tuple[tuple[str, str], ...] = ()
    is_shared: bool = False


class KnownDevice(NamedTuple):
    """A device as a slice publishes it, or published it before: JSON."""

    content: bytes
    is_published: bool


DeviceFinder = Callable[[DeviceId], KnownDevice | None]
"""Returns a device that was published at some time, or None."""


def list_allocated_devices(claim: ResourceClaim | None) -> tuple[AllocatedDevice, ...]:
    """Return the devices that are allocated to a claim, without those with admin access."""
    allocation = claim.status.allocation if claim is not None and claim.status else None
    results = (allocation.devices.results if allocation and allocation.devices else None) or ()
    return tuple(
        AllocatedDevice(
            DeviceId(result.driver, result.pool, result.device),
            tuple(sorted((result.consumed_capacity or {}).items())),
            result.share_id is not None,
        )
        for result in results
        if not result.admin_access
    )


class _CounterSet(msgspec.Struct, frozen=True):
    """The counters that a device consumes of one set."""

    counters: dict[str, CapacityValue] = {}


class _DeviceContent(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a device in a slice that decide an amount."""

    attributes: dict[str, AttributeValue] = {}
    capacity: dict[str, CapacityValue] = {}
    allow_multiple_allocations: bool | None = None
    consumes_counters: tuple[_CounterSet, ...] = ()


class _Measured(NamedTuple):
    """The amount of a whole device, None if it is unreadable; `problem` is the reason if it is not certain."""

    content: bytes
    is_selected: bool
    amount: int | None
    problem: str = ""


class DeviceMeter:
    """The definition of a name: an expression that selects devices, empty for all, and a capacity, empty to count them.

    `identity` is a hash of the definition: two with the same one count the same. Any thread may use a meter.
    """

    def __init__(self, selector: str, capacity: str) -> None:
        """Compile the definition.

        Raises:
            ExpressionError: if the expression is invalid.
        """
        self._selector = compile_selector(selector) if selector else None
        self._capacity = capacity
        self.identity = hashlib.sha256(f"{capacity} {selector}".encode()).hexdigest()[:10]
        self._measured: dict[DeviceId, _Measured] = {}

    def compute_amount(self, device: AllocatedDevice, known: KnownDevice | None) -> int | None:
        """Return the amount of an allocated device for a count; None if it cannot be known."""
        measured = None if known is None else self._measure(device.id, known.content)
        if measured is not None and not measured.is_selected:
            return 0
        if not self._capacity:
            return 1
        consumed = self._find_consumed(device)
        if consumed is not None:
            return consumed
        return None if measured is None else measured.amount

    def require_amount(self, device: AllocatedDevice, known: KnownDevice | None) -> int:
        """Return the amount of a device that is about to be allocated.

        Raises:
            UndecidedDeviceError: if no slice publishes the device, or its amount is not certain.
        """
        if known is None or not known.is_published:
            raise UndecidedDeviceError(f"no ResourceSlice that this replica has seen publishes device {device.id}")
        problem, amount = self.find_problem(device, known), self.compute_amount(device, known)
        if problem or amount is None:
            raise UndecidedDeviceError(f"device {device.id} is undecided: {problem}")
        return amount

    def compute_certain(self, device_id: DeviceId, content: bytes) -> int:
        """Return the amount of a whole published device; 0 if it is not certain."""
        measured = self._measure(device_id, content)
        return 0 if measured.problem or not measured.is_selected else measured.amount or 0

    def list_capacity_names(self, driver: str) -> tuple[str, ...]:
        """Return the names of the capacity in a slice of a driver; none if the meter counts devices."""
        return _list_spellings(self._capacity, driver) if self._capacity else ()

    def find_problem(self, device: AllocatedDevice, known: KnownDevice) -> str:
        """Return why the amount of a known device is not certain, or an empty text."""
        return self._measure(device.id, known.content).problem

    @property
    def is_sum(self) -> bool:
        """Whether a capacity is summed: the amount of an unknown device has no bound then, else it is at most 1."""
        return bool(self._capacity)

    def _measure(self, device_id: DeviceId, content: bytes) -> _Measured:
        """Return the whole device under this definition; an undecided one keeps the former result."""
        before = self._measured.get(device_id)
        if before is not None and before.content == content:
            return before
        try:
            measured = self._evaluate(device_id, content)
        except (UndecidedMatchError, QuantityError, msgspec.MsgspecError) as error:
            known = before or _Measured(content, is_selected=True, amount=None)
            measured = known._replace(content=content, problem=str(error))
        if before is None and len(self._measured) >= _MAX_DEVICES:
            self._measured.clear()
        self._measured[device_id] = measured
        return measured

    def _evaluate(self, device_id: DeviceId, content: bytes) -> _Measured:
        """Return the whole device under this definition.

        Raises:
            UndecidedMatchError: if the expression cannot be evaluated.
            QuantityError: if a quantity is invalid.
            msgspec.MsgspecError: if the device is no JSON of a device.
        """
        decoded = _DECODER.decode(content)
        device = Device(device_id.driver, decoded.attributes, decoded.capacity, decoded.allow_multiple_allocations)
        is_selected = self._selector is None or self._selector.matches(device)
        return _Measured(content, is_selected, self._sum_capacity(device_id.driver, decoded))

    def _sum_capacity(self, driver: str, device: _DeviceContent) -> int:
        if not self._capacity:
            return 1
        names = _list_spellings(self._capacity, driver)
        for name in names:
            if name in device.capacity:
                return Quantity.from_json(device.capacity[name].value).value()
        counters = [
            counter.counters[name] for counter in device.consumes_counters for name in names if name in counter.counters
        ]
        return sum(Quantity.from_json(counter.value).value() for counter in counters)

    def _find_consumed(self, device: AllocatedDevice) -> int | None:
        """Return the amount that the claim consumes of a shared device; None if its result has none."""
        if not device.consumed:
            return None
        consumed = dict(device.consumed)
        for name in _list_spellings(self._capacity, device.id.driver):
            if name in consumed:
                try:
                    return Quantity.parse(consumed[name]).value()
                except QuantityError:
                    return None
        return None


def _list_spellings(name: str, driver: str) -> tuple[str, ...]:
    """Return the names of one capacity in a slice of a driver: with the domain of the driver, and without it."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        return name, f"{driver}/{name}"
    return (name, identifier) if domain == driver else (name,)


_DECODER = msgspec.json.Decoder(_DeviceContent)


@lru_cache(maxsize=1024)
def create_meter(selector: str, capacity: str) -> DeviceMeter:
    """Return the meter of a definition: the same one for the same definition, with the amounts that it has measured.

    Raises:
        ExpressionError: if the expression is invalid.
    """
    return DeviceMeter(selector, capacity)


class AllocatedAmounts(NamedTuple):
    """The amounts of the devices of a claim by name, also zero; `unknown` are the names without a known amount."""

    amounts: dict[str, int]
    unknown: frozenset[str]
    is_published: bool


def count_devices(
    devices: tuple[AllocatedDevice, ...],
    meters: Mapping[str, DeviceMeter],
    find_device: DeviceFinder,
    kept: Mapping[str, int],
) -> AllocatedAmounts:
    """Return the amounts of the devices of a claim; `kept` are its amounts by name if a device is unknown."""
    found = [(device, find_device(device.id)) for device in devices]
    has_unknown = any(known is None for _, known in found)
    amounts, unknown = {}, set()
    for name, meter in meters.items():
        if has_unknown and name in kept:
            amounts[name] = kept[name]
            continue
        total = _sum_known(meter.compute_amount(*arguments) for arguments in found)
        if total is None:
            unknown.add(name)
        else:
            amounts[name] = total
    is_published = all(known is not None and known.is_published for _, known in found)
    return AllocatedAmounts(amounts, frozenset(unknown), is_published)


def _sum_known(parts: Iterator[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total
