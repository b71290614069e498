"""The controllers that reconcile ledgers and renew leases, each with a worker.

`LedgerController` reconciles a ledger soon after pods, claims or namespaces under it change, and repeatedly while it
has reservations or is initializing. `ReconcileSchedule` spreads a full pass over all ledgers evenly over its period.
`LeaseController` renews this replica's leases, and logs when this replica becomes a leader and when it stops being one.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Lock
from typing import Final

from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.errors import TallygateError
from tallygate.gate.leader_election import RETRY_PERIOD_SECONDS, LeaderElector
from tallygate.gate.ledger_reconciler import LedgerReconciler
from tallygate.policy.limit_annotations import InvalidAnnotation, find_invalid
from tallygate.server.controllers.informers import GateInformers
from tallygate.server.telemetry.controller_metrics import LedgerControllerMetrics
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.ports import LedgerKey


class ReconcileSchedule:
    """A schedule that makes every ledger due once per `period` seconds, spread evenly over the period.

    It has keys only: the limits of a cap may change within the period.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self._remaining: list[LedgerKey] = []
        self._started_at = -math.inf
        self._total = 0

    def take_due(self, now: float, list_all: Callable[[], Iterable[LedgerKey]]) -> Sequence[LedgerKey]:
        """Return the ledgers that are due at the monotonic time `now`; call `list_all` when a new pass begins."""
        if now - self._started_at >= self._period and not self._remaining:
            self._remaining, self._started_at = list(list_all()), now
            self._total = len(self._remaining)
        elapsed_share = min((now - self._started_at) / self._period, 1.0)
        due_count = len(self._remaining) - math.floor(self._total * (1.0 - elapsed_share))
        return [self._remaining.pop() for _ in range(max(due_count, 0))]


_BATCH_SECONDS: Final = 0.2  # changes within this time lead to one reconciliation
_RETRY_SECONDS: Final = 1.0  # for ledgers that are pending, or whose reconciliation failed
_FULL_PERIOD_SECONDS: Final = 300.0  # every ledger is reconciled once in it, even if this process sees no change


class LedgerController:
    """The worker of a `LedgerReconciler`; after a change of the active `caps` it reconciles every ledger.

    If only capacities have changed, it reconciles the ledgers of the caps whose limits differ by that.
    """

    def __init__(
        self,
        informers: GateInformers,
        reconciler: LedgerReconciler,
        caps: Callable[[], CapIndex],
        log: Logger,
        metrics: LedgerControllerMetrics,
    ) -> None:
        self._informers = informers
        self._reconciler = reconciler
        self._caps = caps
        self._metrics = metrics
        self._lock = Lock()
        self._changed_namespaces: set[str] = set()
        self._all_changed = True
        self._last_leadership = (False, 0)  # at the last pass: is leader, number of lost replicas
        self._last_caps: CapIndex | None = None
        self._log = log
        self._invalid_annotations: frozenset[InvalidAnnotation] = frozenset()
        self._schedule = ReconcileSchedule(_FULL_PERIOD_SECONDS)
        # A ledger that is not reconciled reserves less, never more.
        task = WorkerTask(
            name="ledgers",
            run=self._reconcile_due,
            failure_log=FailureLog(partial(log.error, "ledger-reconcile-failed")),
            describe=lambda: {"unsettled": len(reconciler.list_pending())},
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: _RETRY_SECONDS, rest=_BATCH_SECONDS))
        informers.state.pods.add_listener(self._mark_consumers_changed)
        informers.state.claims.add_listener(self._mark_consumers_changed)
        informers.state.devices.add_listener(self._mark_devices_changed)
        informers.state.namespaces.add_listener(self._mark_namespaces_changed)

    def _mark_consumers_changed(self, namespace: str | None) -> None:
        with self._lock:
            if namespace is None:
                self._all_changed = True
            else:
                self._changed_namespaces.add(namespace)
        self.worker.wake()

    def _mark_devices_changed(self, _: frozenset[str]) -> None:
        if any(active_cap.device_meters for active_cap in self._caps().list_caps()):
            self._mark_consumers_changed(None)

    def _mark_namespaces_changed(self, names: frozenset[str]) -> None:
        with self._lock:
            self._changed_namespaces |= names
            # A namespace that left a group no longer leads to the ledger of the group; the other members do.
            self._all_changed |= any(active_cap.definition.shared for active_cap in self._caps().list_caps())
        self.worker.wake()

    def _reconcile_due(self) -> bool:
        failure = ""
        for key, active_cap in self._find_due().items():
            if self.worker.is_stopping:
                return False
            observed_ledgers = self._metrics.observed_ledgers
            started_at = observed_ledgers.read_clock()
            try:
                result = self._reconciler.reconcile(key, active_cap)
            except TallygateError as error:
                failure = (
                    f"cap {active_cap.definition.name} {active_cap.group or key.namespace}".rstrip() + f": {error}"
                )
                self._mark_consumers_changed(key.namespace or None)
                self._metrics.count_reconcile("failed")
            else:
                self._metrics.count_reconcile("written" if result.is_written else "unchanged")
                self._metrics.count_expired(result.expired)
                if result.ledger is not None:
                    # A reservation that was stored meanwhile stays known: that of a pod that is never stored is seen
                    # by no watch.
                    observed_ledgers.record(key, result.ledger, started_at)
        if failure:
            raise TallygateError(failure)
        return True

    def _find_due(self) -> dict[LedgerKey, ActiveCap]:
        """Return the ledgers to reconcile now: pending, changed, or due by the schedule."""
        caps = self._caps()
        due: dict[LedgerKey, ActiveCap] = {}
        # A replica that died may have left reservations where nothing changes: no other replica knows them.
        scheduled = self._schedule.take_due(time.monotonic(), self._list_all_keys)
        # The reservation of a pod that is never stored causes no watch event: only the replica that wrote it knows it.
        for key in {*self._reconciler.list_pending(), *self._metrics.observed_ledgers.list_pending(), *scheduled}:
            active_cap = caps.find_cap(key.cap, key.namespace)
            if active_cap is None:
                self._reconciler.drop(key)
            else:
                due[key] = active_cap
        relimited = None if self._last_caps is None else caps.find_changed_limits(self._last_caps)
        due |= dict(self._reconciler.list_ledgers(self._take_changed_namespaces(caps, is_other=relimited is None)))
        if relimited:
            ledgers = self._reconciler.list_ledgers(self._list_namespaces())
            due |= {key: cap for key, cap in ledgers if cap.policy_key in relimited}
        return due

    def _take_changed_namespaces(self, caps: CapIndex, *, is_other: bool) -> list[str]:
        """Return the names of the namespaces that changed since the last call.

        Return all namespaces after a change of the caps (`is_other`), and, on the leader, when this replica has become
        the leader or another replica was lost: a lost replica may have left reservations.
        """
        previous, self._last_leadership = (
            self._last_leadership,
            (self._reconciler.is_leader(), self._reconciler.count_lost_replicas()),
        )
        with self._lock:
            is_full = self._all_changed or is_other or (self._last_leadership[0] and self._last_leadership != previous)
            changed, self._changed_namespaces, self._all_changed, self._last_caps = (
                self._changed_namespaces,
                set(),
                False,
                caps,
            )
        if is_full:
            self._log_invalid_annotations(caps)
        return self._list_namespaces() if is_full else sorted(changed)

    def _log_invalid_annotations(self, caps: CapIndex) -> None:
        """Log each annotation that sets no limit because it is not valid, once as long as it stays so."""
        annotations = self._informers.state.namespaces.get_limit_annotations()
        invalid = frozenset(
            annotation for cap in caps.list_caps() for annotation in find_invalid(cap.definition, annotations)
        )
        for invalid_annotation in sorted(invalid - self._invalid_annotations):
            self._log.warning(
                "limit-annotation-invalid",
                namespace=invalid_annotation.namespace,
                cap=invalid_annotation.cap,
                message=str(invalid_annotation),
            )
        self._invalid_annotations = invalid

    def _list_all_keys(self) -> list[LedgerKey]:
        return [key for key, _ in self._reconciler.list_ledgers(self._list_namespaces())]

    def _list_namespaces(self) -> list[str]:
        return [namespace.name for namespace in self._informers.state.namespaces.list_records()]


class LeaseController:
    """The worker that runs a `LeaderElector`, and releases the leases at its end: another replica leads at once.

    Without leases every replica reconciles, and work is only repeated.
    """

    def __init__(self, elector: LeaderElector, log: Logger) -> None:
        self._elector = elector
        self._log = log
        self._was_leader = False
        task = WorkerTask(
            name="leader-election",
            run=self._renew,
            failure_log=FailureLog(partial(log.error, "lease-renew-failed")),
            describe=lambda: {"leader": elector.is_leader()},
            finish=self._release,
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: RETRY_PERIOD_SECONDS))
        self.worker.wake()  # the first run is at once

    def _renew(self) -> bool:
        try:
            self._elector.run_once()
        finally:
            is_leader = self._elector.is_leader()
            if is_leader != self._was_leader:
                self._log.info("leading-started" if is_leader else "leading-stopped")
            self._was_leader = is_leader
        return True

    def _release(self) -> None:
        try:
            self._elector.release()
        except TallygateError as error:
            self._log.info("lease-release-failed", message=str(error))
