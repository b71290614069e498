"""The DeviceTaintRules of a cluster, and the slices of devices with the taints that they add.

Source: applyPatches in dynamic-resource-allocation/resourceslice/tracker/tracker.go, v1.37. The scheduler reads the
rules where the feature gate DRADeviceTaintRules is on, by default since 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakValueDictionary

from msgspec.structs import replace

from tallygate.accounting.allocation.published_devices import (
    AllocatableDevice,
    AllocatableSlice,
    DeviceContent,
    PreventingTaint,
    create_preventing_taint,
)
from tallygate.objects.devices import DeviceTaint, DeviceTaintRule, DeviceTaintSelector

_TAINTED: WeakValueDictionary[tuple[DeviceContent, tuple[PreventingTaint, ...]], DeviceContent] = WeakValueDictionary()
"""The contents with added taints: devices with one content and the same rules have one, as without rules."""


class TaintRules:
    """The rules by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, DeviceTaintRule] = {}

    def replace(self, name: str, rule: DeviceTaintRule | None) -> DeviceTaintRule | None:
        """Put a rule in the place of the known one of this name, None to remove it; return the known one."""
        before = self.by_name.pop(name, None)
        if rule is not None:
            self.by_name[name] = rule
        return before

    def apply(self, published: AllocatableSlice) -> AllocatableSlice:
        """Return a slice with the taints of the rules; the slice itself if no rule adds any."""
        rules = [
            (name, selector, rule.spec.taint)
            for name, rule in self.by_name.items()
            if rule.spec is not None
            and (selector := rule.spec.device_selector) is not None
            and _selects_pool(selector, published)
        ]
        if not rules:
            return published
        devices = tuple(
            AllocatableDevice(device.id, _add_taints(device.content, tuple(_list_taints(device, rules))))
            for device in published.devices
        )
        return published._replace(devices=devices)


def selects_slice(rule: DeviceTaintRule | None, published: AllocatableSlice) -> bool:
    """Return whether a rule may select devices of a slice."""
    selector = rule.spec.device_selector if rule is not None and rule.spec is not None else None
    return selector is not None and _selects_pool(selector, published)


def _selects_pool(selector: DeviceTaintSelector, published: AllocatableSlice) -> bool:
    return selector.driver in (None, published.driver) and selector.pool in (None, published.pool)


def _list_taints(
    device: AllocatableDevice, rules: list[tuple[str, DeviceTaintSelector, DeviceTaint]]
) -> Iterator[PreventingTaint]:
    for name, selector, taint in rules:
        added = create_preventing_taint(taint, name)
        if added is not None and selector.device in (None, device.id.device):
            yield added


def _add_taints(content: DeviceContent, added: tuple[PreventingTaint, ...]) -> DeviceContent:
    if not added:
        return content
    tainted = _TAINTED.get((content, added))
    if tainted is None:
        tainted = _TAINTED[content, added] = replace(content, taints=(*content.taints, *added))
    return tainted
