"""Everything in turn: what must be looked at now and then, spread evenly over the time.

The thread that visits ledgers: soon after something changed under them, and while they promise.

The thread that renews this replica's leases, and says when it begins and ceases to keep ledgers.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from threading import Event, Lock, Thread
from typing import Final

from webhook.admission.cap_index import ActiveCap, CapIndex
from webhook.errors import TallygateError
from webhook.gate.leader_election import RETRY_PERIOD_SECONDS, LeaderElector
from webhook.gate.ledger_reconciler import LedgerReconciler
from webhook.server.controllers.informers import GateInformers
from webhook.server.interfaces import ReadinessStatus
from webhook.server.telemetry.controller_metrics import LedgerControllerMetrics
from webhook.server.telemetry.json_log import Logger
from webhook.state.ports import LedgerKey


class ReconcileSchedule:
    """Takes everything in turn, evenly, so that each has its turn once in so many seconds."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._remaining: list[tuple[LedgerKey, ActiveCap]] = []
        self._started_at = -math.inf
        self._total = 0

    def take_due(
        self, now: float, list_all: Callable[[], Iterable[tuple[LedgerKey, ActiveCap]]]
    ) -> Sequence[tuple[LedgerKey, ActiveCap]]:
        """Those whose turn has come by `now`; `every` is asked when a round begins."""
        if now - self._started_at >= self._period and not self._remaining:
            self._remaining, self._started_at = list(list_all()), now
            self._total = len(self._remaining)
        elapsed_share = min((now - self._started_at) / self._period, 1.0)
        due_count = len(self._remaining) - math.floor(self._total * (1.0 - elapsed_share))
        return [self._remaining.pop() for _ in range(max(due_count, 0))]


_BATCH_SECONDS: Final = 0.2  # what changes within that is one visit
_RETRY_SECONDS: Final = 1.0  # for ledgers that promise, or that could not be visited
_FULL_PERIOD_SECONDS: Final = 300.0  # in which every ledger is visited once, whatever this process knows of it
_LEDGER_JOIN_SECONDS: Final = 5.0


class LedgerController:
    """Calls a keeper. `caps` are those in force: others than before are reason to visit every ledger."""

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
        self._log = log
        self._metrics = metrics
        self._lock = Lock()
        self._changed_namespaces: set[str] = set()
        self._all_changed = True
        self._last_leadership = (False, 0)  # whether this replica led when it last looked, and how many others had gone
        self._last_caps: CapIndex | None = None
        self._wake, self._stop = Event(), Event()
        self._schedule = ReconcileSchedule(_FULL_PERIOD_SECONDS)
        self._failure = ""
        self._thread = Thread(target=self._run, name="keep-ledgers", daemon=True)
        informers.pod_store.listen(self._mark_pods_changed)
        informers.namespace_store.listen(self._mark_namespaces_changed)

    def start(self) -> None:
        """Begin; once only."""
        self._thread.start()

    def stop(self) -> None:
        """End after the visit that is under way."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_LEDGER_JOIN_SECONDS)

    def check(self) -> ReadinessStatus:
        """Always ready, since a ledger that cannot be kept promises less, never more; the detail says what is wrong."""
        detail: dict[str, object] = {"unsettled": len(self._reconciler.list_pending())}
        if self._failure:
            detail["failure"] = self._failure
        return ReadinessStatus("ledgers", ready=True, detail=detail)

    def _mark_pods_changed(self, namespace: str | None) -> None:
        with self._lock:
            if namespace is None:
                self._all_changed = True
            else:
                self._changed_namespaces.add(namespace)
        self._wake.set()

    def _mark_namespaces_changed(self, names: frozenset[str]) -> None:
        with self._lock:
            self._changed_namespaces |= names
            # A namespace that leaves a shared cap is in it no more: the cap's ledger is found by the others.
            self._all_changed |= any(active_cap.definition.shared for active_cap in self._caps().list_caps())
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_RETRY_SECONDS)
            self._wake.clear()
            try:
                self._reconcile_due()
            except Exception as crash:  # noqa: BLE001  # a fault of ours must not leave ledgers unkept for good
                self._set_failure(f"{type(crash).__name__}: {crash}")
            self._stop.wait(_BATCH_SECONDS)

    def _reconcile_due(self) -> None:
        failure = ""
        for key, active_cap in self._find_due().items():
            if self._stop.is_set():
                return
            try:
                result = self._reconciler.reconcile(key, active_cap)
            except TallygateError as error:
                failure = f"cap {active_cap.definition.name} {key.namespace}".rstrip() + f": {error}"
                self._mark_pods_changed(key.namespace or None)
                self._metrics.count_reconcile("failed")
            else:
                self._metrics.count_reconcile("written" if result.is_written else "unchanged")
                self._metrics.count_expired(result.expired)
                if result.ledger is not None:
                    self._metrics.record_ledger(key, result.ledger)
        self._set_failure(failure)

    def _find_due(self) -> dict[LedgerKey, ActiveCap]:
        """The ledgers to visit now: those that promise, and those under which something has changed."""
        caps = self._caps()
        active_caps = {active_cap.key: active_cap for active_cap in caps.list_caps()}
        due: dict[LedgerKey, ActiveCap] = {}
        # The promise of a pod that nobody stores changes nothing that is watched: who wrote it is the one to know.
        for key in {*self._reconciler.list_pending(), *self._metrics.list_pending()}:
            if key.cap in active_caps:
                due[key] = active_caps[key.cap]
            else:
                self._reconciler.drop(key)
        due |= self._reconciler.list_ledgers(self._take_changed_namespaces(caps))
        # A replica that died may have left promises where nothing changes: nobody else knows of them.
        return due | dict(
            self._schedule.take_due(time.monotonic(), lambda: self._reconciler.list_ledgers(self._list_namespaces()))
        )

    def _take_changed_namespaces(self, caps: CapIndex) -> list[str]:
        """The namespaces in which something has changed since the last time.

        All of them, for who begins to keep ledgers, and when a replica has gone that may have promised something.
        """
        previous, self._last_leadership = (
            self._last_leadership,
            (self._reconciler.is_leader(), self._reconciler.count_lost_replicas()),
        )
        with self._lock:
            is_full = (
                self._all_changed
                or caps is not self._last_caps
                or (self._last_leadership[0] and self._last_leadership != previous)
            )
            changed, self._changed_namespaces, self._all_changed, self._last_caps = (
                self._changed_namespaces,
                set(),
                False,
                caps,
            )
        return self._list_namespaces() if is_full else sorted(changed)

    def _list_namespaces(self) -> list[str]:
        return [namespace.name for namespace in self._informers.namespace_store.rows()]

    def _set_failure(self, failure: str) -> None:
        """Remember a failure, or that there is none any more; log it when it is another than before."""
        if failure and failure != self._failure:
            self._log.error("ledgers-not-kept", message=failure)
        self._failure = failure


_LEASE_JOIN_SECONDS: Final = 6.0  # a call under way takes five


class LeaseController:
    """Calls `Leading`, and lets go of its leases in the end."""

    def __init__(self, elector: LeaderElector, log: Logger) -> None:
        self._elector = elector
        self._log = log
        self._stop = Event()
        self._was_leader = False
        self._failure = ""
        self._thread = Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> None:
        """Begin; once only."""
        self._thread.start()

    def stop(self) -> None:
        """End, so that another may begin at once."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_LEASE_JOIN_SECONDS)

    def check(self) -> ReadinessStatus:
        """Always ready: without leases every replica keeps ledgers, and each thing is done more than once."""
        detail: dict[str, object] = {"keeps": self._elector.is_leader()}
        if self._failure:
            detail["failure"] = self._failure
        return ReadinessStatus("leases", ready=True, detail=detail)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._elector.run_once()
            except TallygateError as error:
                self._set_failure(str(error))
            except Exception as crash:  # noqa: BLE001  # a fault of ours must not leave leases unrenewed for good
                self._set_failure(f"{type(crash).__name__}: {crash}")
            else:
                self._set_failure("")
            self._log_leadership()
            self._stop.wait(RETRY_PERIOD_SECONDS)
        try:
            self._elector.release()
        except TallygateError as error:
            self._log.info("leases-kept", message=str(error))

    def _log_leadership(self) -> None:
        is_leader = self._elector.is_leader()
        if is_leader != self._was_leader:
            self._log.info("keeps-ledgers" if is_leader else "keeps-ledgers-no-more")
        self._was_leader = is_leader

    def _set_failure(self, failure: str) -> None:
        """Remember a failure, or that there is none any more; log it when it is another than before."""
        if failure and failure != self._failure:
            self._log.error("leases-not-renewed", message=failure)
        self._failure = failure
