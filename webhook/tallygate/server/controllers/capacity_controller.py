"""The controller that measures the capacities of which limits are percentages, settles them, and records them.

It looks each second for changes of nodes, slices and classes, and for a fall that is due: any number of changes costs
one measurement a second. The leader keeps the record from which a replica that starts goes on (rule 8).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Final, Protocol

from tallygate.admission.cap_sources import CapSources
from tallygate.admission.capacity_limits import CapCapacities
from tallygate.cluster.cluster_state import ClusterState
from tallygate.errors import TallygateError
from tallygate.gate.settled_capacities import SettledCapacities
from tallygate.policy.model import PolicySet
from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.ports import CapacityRecord

_INTERVAL_SECONDS: Final = 1.0
_READ_SECONDS: Final = 10.0
"""A replica that starts measures without the record if it could not be read for so long."""
_RECORD_SECONDS: Final = 60.0
_CHANGED_RECORD_SECONDS: Final = 10.0  # nodes that flap change the record each second
_UNREAD: Final = "the recorded capacities are not read yet"


class StoresCapacityRecord(Protocol):
    """The record of capacities in a cluster; each error of it is a `TallygateError`."""

    def read(self) -> CapacityRecord | None:
        """Return the record, None without one."""
        ...

    def write(self, record: CapacityRecord) -> None:
        """Replace the record."""
        ...

    def close(self) -> None:
        """Break a request in progress."""
        ...


class CapacityController:
    """The worker of the capacities of one replica, which is ready once it knows those that its policies need.

    `is_listing` returns whether a kind of objects that decides capacities is not listed yet, and may be in a moment.
    `monotonic` is in seconds, `unix_time` in seconds of the Unix epoch.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        *,
        state: ClusterState,
        policies: Callable[[], PolicySet],
        store: StoresCapacityRecord,
        is_listing: Callable[[], bool],
        monotonic: Callable[[], float],
        unix_time: Callable[[], float],
        log: Logger,
    ) -> None:
        self._state = state
        self._policies = policies
        self._store = store
        self.is_leader: Callable[[], bool] = lambda: False
        """Whether this replica records what it measures."""
        self._is_listing = is_listing
        self._monotonic, self._unix_time = monotonic, unix_time
        self._log = log
        self._lock = Lock()
        self._started_at = monotonic()
        self._settled: SettledCapacities | None = None
        self._measured: PolicySet | None = None
        self._problem = _UNREAD
        self._sources = CapSources()
        self._recorded: CapacityRecord | None = None
        self._recorded_at = -_RECORD_SECONDS
        task = WorkerTask(
            name="capacities",
            run=self.run,
            failure_log=FailureLog(
                partial(log.warning, "capacity-record-failed"), partial(log.info, "capacity-record-recovered")
            ),
            interrupt=store.close,
        )
        self._worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS))
        self._failure_log = task.failure_log

    def start(self) -> None:
        """Start the worker; call once only."""
        self._worker.wake()
        self._worker.start()

    def stop(self) -> None:
        """Stop the worker."""
        self._worker.stop()

    def check(self) -> ReadinessStatus:
        """Return a status that is ready unless limits depend on capacities that are not measured yet."""
        needs_more = self._needs_capacities() and (self._settled is None or self._is_listing())
        texts = {"failure": self._failure_log.failure, "problem": self._problem if self._needs_capacities() else ""}
        return ReadinessStatus("capacities", not needs_more, {name: text for name, text in texts.items() if text})

    def get_cap_sources(self) -> CapSources:
        """Return what caps depend on, with the settled capacities; the same object until it changes.

        Policies that are new are measured at once: a cap whose capacity is not known decides nothing.
        """
        policies = self._policies()
        if policies is not self._measured and self._settled is not None:
            self._measure()
        base, kept = self._state.get_cap_sources(), self._sources
        capacities: CapCapacities = kept.capacities if self._settled is None else self._settled.capacities
        if (
            kept.resources_by_class is not base.resources_by_class
            or kept.annotations is not base.annotations
            or kept.capacities is not capacities
            or kept.capacity_problem is not self._problem
        ):
            kept = base._replace(capacities=capacities, capacity_problem=self._problem)
            self._sources = kept
        return kept

    def run(self) -> bool:
        """Measure, settle and record.

        Raises:
            TallygateError: if the record cannot be read or written; the next run tries again.
        """
        if not self._needs_capacities():
            return False
        if self._settled is None:
            self._start_settling()
        self._measure()
        self._write_record()
        return True

    def _needs_capacities(self) -> bool:
        return any(cap.follows_capacity for cap in self._policies().caps)

    def _start_settling(self) -> None:
        """Begin with what the leader has recorded; without it, if it cannot be read for some seconds."""
        record = None
        try:
            record = self._store.read()
        except TallygateError as error:
            if self._monotonic() < self._started_at + _READ_SECONDS:
                raise
            self._log.warning("capacity-record-unread", message=str(error))
        self._settled = SettledCapacities(self._monotonic, self._unix_time, record)

    def _measure(self) -> None:
        with self._lock:
            if self._settled is None:
                return
            policies = self._policies()
            computed = self._state.capacities.compute(policies, datetime.fromtimestamp(self._unix_time(), UTC))
            self._settled.measure(policies, computed.capacities)
            if computed.problem != self._problem:
                self._problem = computed.problem
            self._measured = policies

    def _write_record(self) -> None:
        """Write the record if this replica leads, and it differs from the last one, or that is a minute old."""
        if self._settled is None or not self.is_leader():
            self._recorded = None
            return
        with self._lock:
            record = self._settled.create_record()
        age = self._monotonic() - self._recorded_at
        is_changed = self._recorded is None or record.caps != self._recorded.caps
        if age >= _RECORD_SECONDS or (is_changed and age >= _CHANGED_RECORD_SECONDS):
            self._recorded, self._recorded_at = None, self._monotonic()  # tried again as a change, unless it is written
            self._store.write(record)
            self._recorded = record
