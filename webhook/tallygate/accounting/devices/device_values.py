"""A device as a ResourceSlice publishes it, and the variable `device` of an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tallygate.accounting.cel.runtime_values import CelMap, EvaluationError, UnsupportedValueError
from tallygate.accounting.cel.semantic_version import SemanticVersion, parse_version
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError

_EMPTY: Final = CelMap({}, is_published=True)


class AttributeValue(msgspec.Struct, frozen=True, rename={"integer": "int", "boolean": "bool", "text": "string"}):
    """One attribute of a device: one of its fields is set (DeviceAttribute of resource.k8s.io/v1)."""

    integer: int | None = None
    boolean: bool | None = None
    text: str | None = None
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityValue(msgspec.Struct, frozen=True):
    """One capacity of a device (DeviceCapacity of resource.k8s.io/v1): the quantity stays raw JSON."""

    value: msgspec.Raw


class Device(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a device that an expression can read; a name without a domain belongs to that of the driver."""

    driver: str
    attributes: Mapping[str, AttributeValue] = {}
    capacity: Mapping[str, CapacityValue] = {}
    allow_multiple_allocations: bool | None = None


def make_variable(device: Device) -> CelMap:
    """Return the value of the variable `device`; a domain that is unknown has an empty map.

    Raises:
        EvaluationError: if an attribute has no value, a version is invalid, or one attribute is named in two ways.
    """
    attributes = CelMap({}, default=_EMPTY, is_published=True)
    for name, attribute in device.attributes.items():
        _put(attributes, device.driver, name, _read_attribute(name, attribute))
    capacity = CelMap({}, default=_EMPTY, is_published=True)
    for name, amount in device.capacity.items():
        _put(capacity, device.driver, name, _read_quantity(name, amount))
    return CelMap(
        {
            "driver": device.driver,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
            "attributes": attributes,
            "capacity": capacity,
        }
    )


def _put(domains: CelMap, driver: str, name: str, value: object) -> None:
    prefix, slash, identifier = name.partition("/")
    domain = prefix if slash else driver
    values = domains.entries.get(domain)
    if values is None:
        values = domains.entries[domain] = CelMap({}, is_published=True)
    assert isinstance(values, CelMap)  # noqa: S101
    key = identifier if slash else name
    if key in values.entries:
        raise UnsupportedValueError(f"{domain}/{key} is there twice, with the domain and without it")
    values.entries[key] = value


def _read_attribute(name: str, attribute: AttributeValue) -> object:
    """Return the value of an attribute (getAttributeValue)."""
    lists: Sequence[Sequence[object] | None] = (attribute.ints, attribute.bools, attribute.strings)
    for values in lists:
        if values is not None:
            return list(values)
    if attribute.versions is not None:
        return [_read_version(name, version) for version in attribute.versions]
    for value in (attribute.integer, attribute.boolean, attribute.text):
        if value is not None:
            return value
    if attribute.version is not None:
        return _read_version(name, attribute.version)
    raise EvaluationError(f"attribute {name}: unsupported attribute value")


def _read_version(name: str, text: str) -> SemanticVersion:
    version = parse_version(text)
    if version is None:
        raise EvaluationError(f"attribute {name}: no semantic version: {text!r}")
    return version


def _read_quantity(name: str, amount: CapacityValue) -> Quantity:
    try:
        return Quantity.from_json(amount.value)
    except QuantityError as error:
        raise EvaluationError(f"capacity {name}: {error}") from error
