"""The stores and the lister of the product, with a record of the inputs of each count, and pauses in the middle of it.

Other tasks and events come between the parts of a count: the pods, the claims, and the pods of the claims again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.devices.device_meter import DeviceId, KnownDevice
from tallygate.admission.cap_index import ActiveCap
from tallygate.cluster.usage_lister import UsageLister
from tallygate.state.informers.claim_store import ClaimStore, OwnedClaim
from tallygate.state.informers.consumer_store import ChargeableCap, ConsumerName, ConsumerUsage
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.informers.pod_store import ClaimPod, PodStore
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import PodName, UsageSnapshot
from tallygate.state.ports import LedgerKey
from tests.gate.simulation.tasks import Task, Tasks


@dataclass
class Count:
    """The inputs of one count: the revisions of pods, of claims and of the pods of claims, and the known devices.

    `slices_revision` is that of the slices at the last device.
    """

    pods_revision: int = 0
    claims_revision: int = 0
    owners_revision: int = 0
    slices_revision: int = 0
    found: dict[DeviceId, KnownDevice | None] = field(default_factory=dict)


class CountRecorder:
    """The counts of all replicas, by the used amounts that they returned. A task makes one count at a time."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self._current: dict[Task | None, Count] = {}
        self._by_used: dict[int, tuple[Amounts, Count]] = {}

    def find(self, ledger: Ledger) -> Count:
        """Return the count behind a ledger: by its revisions if none is recorded."""
        _, count = self._by_used.get(id(ledger.used), (None, None))
        return count or Count(ledger.pods_revision, ledger.claims_revision, ledger.pods_revision)

    def find_current(self) -> Count:
        """Return the count that the task which runs now is making; one that is not recorded if it makes none."""
        return self._current.get(self.tasks.running) or Count()

    @contextmanager
    def open(self, count: Count) -> Iterator[Count]:
        """Record the reads of the task that runs now in this count."""
        task = self.tasks.running
        before = self._current.get(task)
        self._current[task] = count
        try:
            yield count
        finally:
            if before is None:
                del self._current[task]
            else:
                self._current[task] = before

    def link(self, used: Amounts, count: Count) -> None:
        """Record the count that has returned these used amounts, an object of its own."""
        self._by_used[id(used)] = used, count


class RecordedPods(PodStore):
    """Pods; each count of them is recorded."""

    def __init__(self, recorder: CountRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def compute_usage(
        self,
        cap: ChargeableCap,
        namespaces: Iterable[str],
        uids: Iterable[str] = (),
        names: Iterable[ConsumerName] = (),
        separate: Collection[str] = (),
    ) -> ConsumerUsage:
        """Compute the used amounts, and pause."""
        usage = super().compute_usage(cap, namespaces, uids, names, separate)
        self._recorder.find_current().pods_revision = usage.revision
        self._recorder.tasks.pause("has counted pods")
        return usage

    def find_owned_claims(self, cap: ChargeableCap, owners: Mapping[str, ClaimPod]) -> dict[str, Amounts]:
        """Find the pods of claims, and pause before and after it."""
        if owners:
            self._recorder.tasks.pause("finds the pods of claims")
        claims = super().find_owned_claims(cap, owners)
        self._recorder.find_current().owners_revision = self.revision or 0
        if claims:
            self._recorder.tasks.pause("has found the pods of claims")
        return claims


class RecordedClaims(ClaimStore):
    """Claims; each count of them is recorded."""

    def __init__(self, recorder: CountRecorder, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._recorder = recorder

    def compute_usage_and_owned(
        self, cap: ChargeableCap, namespaces: Iterable[str], uids: Iterable[str], separate: Collection[str] = ()
    ) -> tuple[ConsumerUsage, dict[str, OwnedClaim]]:
        """Compute the used amounts, and pause."""
        usage, owned = super().compute_usage_and_owned(cap, namespaces, uids, separate)
        count = self._recorder.find_current()
        count.claims_revision = usage.revision
        count.found.clear()
        if len(self):
            self._recorder.tasks.pause("has counted claims")
        return usage, owned


class RecordedDevices(DeviceStore):
    """Devices; each one that a count has read is recorded."""

    def __init__(self, recorder: CountRecorder, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._recorder = recorder

    def find_device(self, device_id: DeviceId) -> KnownDevice | None:
        """Return a device."""
        known = super().find_device(device_id)
        count = self._recorder.find_current()
        count.found[device_id], count.slices_revision = known, self.revision or 0
        return known


class RecordedLister(UsageLister):
    """A lister whose snapshots are recorded."""

    def __init__(self, recorder: CountRecorder, *arguments: Any, **stores: Any) -> None:
        super().__init__(*arguments, **stores)
        self._recorder = recorder

    def take_snapshot(
        self, cap: ActiveCap, key: LedgerKey, ledger: Ledger, pod_uid: str = "", created: PodName | None = None
    ) -> UsageSnapshot | None:
        """Return the usage under a ledger."""
        with self._recorder.open(Count()) as count:
            snapshot = super().take_snapshot(cap, key, ledger, pod_uid, created)
        if snapshot is None:
            return None
        used = Amounts(snapshot.used)
        self._recorder.link(used, count)
        return msgspec.structs.replace(snapshot, used=used)

    def _sum_used(self, cap: ActiveCap, namespaces: Iterable[str]) -> Amounts:
        with self._recorder.open(Count()):  # it belongs to no snapshot
            return super()._sum_used(cap, frozenset(namespaces))
