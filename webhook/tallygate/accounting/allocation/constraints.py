"""The constraints of a claim on the attributes of its devices (constraint.go, allocator_incubating.go).

A search asks each constraint before it adds a device, and takes the device out of it again when it goes back. Once a
constraint refuses, more devices do not change that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol

from tallygate.accounting.allocation.published_devices import AllocatableDevice
from tallygate.accounting.devices.device_values import AttributeValue
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.objects.devices import DeviceConstraint


class Constraint(Protocol):
    """A constraint during a search."""

    def add(self, request: str, alternative: str, device: AllocatableDevice) -> bool:
        """Add a device of a request, or of its alternative, if the constraint permits that; return whether it does."""
        ...

    def remove(self, request: str, alternative: str) -> None:
        """Remove the device that was added last for a request."""
        ...


def create_constraint(constraint: DeviceConstraint, version: KubernetesVersion) -> Constraint | None:
    """Return a constraint without devices; None if its kind is unknown."""
    names = frozenset(constraint.requests or ())
    if constraint.match_attribute is not None:
        return _SameValue(names, constraint.match_attribute, version)
    if constraint.distinct_attribute is not None:
        create = _DistinctValues if version.has(Switch.COMPARES_EVERY_DISTINCT_VALUE) else _DistinctValuesByRequest
        return create(names, constraint.distinct_attribute, version)
    return None


def find_attribute(device: AllocatableDevice, name: str) -> AttributeValue | None:
    """Return an attribute by its full name; the driver may leave its own domain out."""
    found = device.content.attributes.get(name)
    domain, slash, identifier = name.partition("/")
    if found is None and slash and domain == device.id.driver:
        return device.content.attributes.get(identifier)
    return found


class _Selective:
    """The requests that a constraint is about: all, or some by name."""

    def __init__(self, names: frozenset[str], attribute: str, version: KubernetesVersion) -> None:
        self._names = names
        self._attribute = attribute
        self._ignores_builds = version.has(Switch.IGNORES_BUILDS_OF_VERSIONS)

    def _applies(self, request: str, alternative: str) -> bool:
        return (
            not self._names
            or request in self._names
            or (bool(alternative) and f"{request}/{alternative}" in self._names)
        )

    def _read_value(self, attribute: AttributeValue) -> Hashable | None:
        """Return the type and value of a scalar attribute; None for any other, which no constraint accepts."""
        version = attribute.version
        if version is not None and self._ignores_builds:
            version = version.partition("+")[0]
        for kind, value in (
            ("string", attribute.text),
            ("int", attribute.integer),
            ("bool", attribute.boolean),
            ("version", version),
        ):
            if value is not None:
                return kind, value
        return None

    def _is_distinct(self, attribute: AttributeValue, others: Iterable[Hashable | None]) -> bool:
        """Return whether a value differs from the others; an attribute that is no scalar differs from none."""
        value, known = self._read_value(attribute), list(others)
        return not known or (value is not None and value not in known)


class _SameValue(_Selective):
    """All devices have one value of the attribute; the first device decides which."""

    def __init__(self, names: frozenset[str], attribute: str, version: KubernetesVersion) -> None:
        super().__init__(names, attribute, version)
        self._value: Hashable | None = None
        self._count = 0

    def add(self, request: str, alternative: str, device: AllocatableDevice) -> bool:
        if not self._applies(request, alternative):
            return True
        attribute = find_attribute(device, self._attribute)
        if attribute is None:
            return False
        value = self._read_value(attribute)
        if self._count == 0:
            self._value = value
        elif value is None or value != self._value:
            return False
        self._count += 1
        return True

    def remove(self, request: str, alternative: str) -> None:
        if self._applies(request, alternative):
            self._count -= 1


class _DistinctValues(_Selective):
    """No two devices have the same value of the attribute."""

    def __init__(self, names: frozenset[str], attribute: str, version: KubernetesVersion) -> None:
        super().__init__(names, attribute, version)
        self._values: list[Hashable | None] = []

    def add(self, request: str, alternative: str, device: AllocatableDevice) -> bool:
        if not self._applies(request, alternative):
            return True
        attribute = find_attribute(device, self._attribute)
        if attribute is None or not self._is_distinct(attribute, self._values):
            return False
        self._values.append(self._read_value(attribute))
        return True

    def remove(self, request: str, alternative: str) -> None:
        if self._applies(request, alternative):
            self._values.pop()


class _DistinctValuesByRequest(_Selective):
    """As kube-scheduler 1.36 compares: with the value of the last device of each request only."""

    def __init__(self, names: frozenset[str], attribute: str, version: KubernetesVersion) -> None:
        super().__init__(names, attribute, version)
        self._values: dict[str, Hashable | None] = {}
        self._count = 0

    def add(self, request: str, alternative: str, device: AllocatableDevice) -> bool:
        if not self._applies(request, alternative):
            return True
        attribute = find_attribute(device, self._attribute)
        if attribute is None or (self._count and not self._is_distinct(attribute, self._values.values())):
            return False
        self._values[request] = self._read_value(attribute)
        self._count += 1
        return True

    def remove(self, request: str, alternative: str) -> None:
        if self._applies(request, alternative):
            self._values.pop(request, None)
            self._count -= 1
