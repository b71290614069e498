"""The devices that claims give back when pods end.

A claim gives its devices back when the last pod in `status.reservedFor` has ended. Then the controller deletes the
claims that were made for the pod, from a template or for extended resources, and deallocates others. A claim with
another consumer, and one that no pod has reserved, keep their devices. Source: syncClaim in
pkg/controller/resourceclaim/controller.go, v1.36 and v1.37.

kube-scheduler evicts no pods for devices: its dry runs of preemption free none, since DynamicResources has no
PreFilterExtensions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from msgspec.structs import replace

from tallygate.accounting.allocation.planned_requests import format_name
from tallygate.accounting.allocation.pools import PoolId
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.objects.devices import ClaimConsumer, ResourceClaim
from tallygate.objects.meta import ObjectMeta


class ReleasedClaim(NamedTuple):
    """A claim that gives devices back, and their number by pool."""

    claim: str
    devices: Mapping[str, int]

    def __str__(self) -> str:
        parts = [f"{count} device{'s' * (count != 1)} of pool {pool}" for pool, count in self.devices.items()]
        return f"claim {self.claim} gives back {' and '.join(parts)}"


class ClaimsOfPods:
    """The claims with devices that only pods have reserved; for one thread at a time."""

    def __init__(self, devices: DeviceIndex) -> None:
        self._devices = devices
        self._claims: dict[str, list[ResourceClaim]] = {}
        self._users: dict[DeviceId, set[str]] = {}
        self._ended: set[str] = set()
        for claim in devices.claims.values():
            pods = _list_pods(claim)
            taken = list_taken_devices(claim)
            for device in taken if pods else ():
                self._users.setdefault(device, set()).update(pods)
            for uid in pods if taken else ():
                self._claims.setdefault(uid, []).append(claim)

    def has_devices(self, uid: str) -> bool:
        return uid in self._claims

    def count_devices(self, uid: str) -> int:
        """Return the number of devices of a pod, which may share them."""
        return sum(len(list_taken_devices(claim)) for claim in self._claims.get(uid, ()))

    def list_users(self, devices: Iterable[DeviceId]) -> set[str]:
        """Return the UIDs of the pods that have one of these devices."""
        return set().union(*(self._users.get(device, ()) for device in devices))

    @contextmanager
    def open_trial(self) -> Iterator[None]:
        """Restore all claims at the end."""
        try:
            yield
        finally:
            for uid in tuple(self._ended):
                self.restore(uid)

    def end(self, uid: str) -> None:
        """End a pod: its claims give their devices back, unless another pod that has not ended uses them."""
        self._ended.add(uid)
        for claim in self._claims.get(uid, ()):
            if self._is_released(claim):
                self._release(claim)

    def restore(self, uid: str) -> None:
        """Restore a pod that has ended, and the devices of its claims."""
        for claim in self._claims.get(uid, ()):
            if self._is_released(claim):
                self._devices.put(claim)
        self._ended.remove(uid)

    def list_released(self, uids: Collection[str], pools: Sequence[PoolId]) -> tuple[ReleasedClaim, ...]:
        """Return the claims that give devices of these pools back when these pods end, ordered by name."""
        released: dict[str, Mapping[str, int]] = {}
        for claim in (claim for uid in uids for claim in self._claims.get(uid, ())):
            if _list_pods(claim) <= set(uids):
                used = [PoolId(device.driver, device.pool) for device in list_taken_devices(claim)]
                counts = Counter(str(pool) for pool in used if pool in pools)
                if counts:
                    released[format_name(claim)] = dict(sorted(counts.items()))
        return tuple(ReleasedClaim(name, devices) for name, devices in sorted(released.items()))

    def _is_released(self, claim: ResourceClaim) -> bool:
        return _list_pods(claim) <= self._ended

    def _release(self, claim: ResourceClaim) -> None:
        owners = (claim.metadata or ObjectMeta()).owner_references or ()
        if any(owner.controller and owner.kind == "Pod" for owner in owners):
            self._devices.remove(claim)
        else:
            self._devices.put(replace(claim, status=None))


def list_taken_devices(claim: ResourceClaim) -> Sequence[DeviceId]:
    """Return the devices of a claim, without those that stay free for others."""
    allocation = claim.status.allocation if claim.status else None
    results = (allocation.devices.results if allocation and allocation.devices else None) or ()
    return [DeviceId(result.driver, result.pool, result.device) for result in results if not result.admin_access]


def _list_pods(claim: ResourceClaim) -> frozenset[str]:
    """Return the UIDs of the pods that have reserved a claim; none if it has another consumer, too."""
    consumers: Sequence[ClaimConsumer] = (claim.status.reserved_for if claim.status else None) or ()
    if not all(consumer.resource == "pods" and not consumer.api_group and consumer.uid for consumer in consumers):
        return frozenset()
    return frozenset(consumer.uid for consumer in consumers)
