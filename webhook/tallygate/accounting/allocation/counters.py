"""The counters that partitions of devices share: what is left of them, and what a search consumes."""

from __future__ import annotations

from collections.abc import Callable

from tallygate.accounting.allocation.pools import Pool, PoolId, list_devices
from tallygate.accounting.allocation.published_devices import AllocatableDevice
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.quantity import Quantity

_ZERO = Quantity.from_int(0)

Counter = tuple[str, str]
"""The counter set and the counter."""


class CounterUse:
    """The counters of all pools during one search on one node.

    `is_allocated` returns whether a device belongs to a claim already, whole or in part. Before the switch
    SEPARATES_COUNTERS_OF_DRIVERS, of two pools of one name the one that is asked first defines the counters of both.
    """

    def __init__(self, is_allocated: Callable[[DeviceId], bool], version: KubernetesVersion) -> None:
        self._is_allocated = is_allocated
        self._has_drivers = version.has(Switch.SEPARATES_COUNTERS_OF_DRIVERS)
        self._available: dict[PoolId, dict[Counter, Quantity]] = {}
        self._consumed: dict[PoolId, dict[Counter, Quantity]] = {}

    def reserve(self, pool: Pool, device: AllocatableDevice) -> bool:
        """Consume the counters of a device, and return whether that is possible; if not, nothing is consumed."""
        key = self._get_key(pool)
        available = self._available.get(key)
        if available is None:
            available = self._available[key] = self._compute_available(pool)
        consumed = self._consumed.setdefault(key, {})
        _add(consumed, device, sign=1)
        if any(consumed.get(counter, _ZERO) > amount for counter, amount in available.items()):
            _add(consumed, device, sign=-1)
            return False
        return True

    def release(self, pool: Pool, device: AllocatableDevice) -> None:
        """Give the counters of a device back."""
        _add(self._consumed[self._get_key(pool)], device, sign=-1)

    def _get_key(self, pool: Pool) -> PoolId:
        return pool.id if self._has_drivers else PoolId("", pool.id.pool)

    def _compute_available(self, pool: Pool) -> dict[Counter, Quantity]:
        """Return what allocated devices leave; an overdrawn counter is negative."""
        available = {
            (set_name, name): value
            for set_name, counters in pool.counter_sets.items()
            for name, value in counters.items()
        }
        for device in list_devices((*pool.slices, *pool.other_slices)):
            if device.content.consumed_counters and self._is_allocated(device.id):
                for set_name, counters in device.content.consumed_counters:
                    for name, value in counters.items():
                        if (set_name, name) in available:
                            available[set_name, name] -= value
        return available


def _add(consumed: dict[Counter, Quantity], device: AllocatableDevice, *, sign: int) -> None:
    for set_name, counters in device.content.consumed_counters:
        for name, value in counters.items():
            consumed[set_name, name] = consumed.get((set_name, name), _ZERO) + (value if sign > 0 else -value)
