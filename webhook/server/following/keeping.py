"""The thread that visits ledgers: soon after something changed under them, and while they promise."""

import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Final

from webhook.admission.capping import CapIndex, Counted
from webhook.errors import TallygateError
from webhook.gate.ledger_reconciler import LedgerReconciler
from webhook.server.following.cluster import Cluster
from webhook.server.following.figures import Figures
from webhook.server.following.round import Round
from webhook.server.ports import Check
from webhook.server.reporting.logs import Logger
from webhook.state.ports import LedgerKey

_TOGETHER_SECONDS: Final = 0.2  # what changes within that is one visit
_AGAIN_SECONDS: Final = 1.0  # for ledgers that promise, or that could not be visited
_ROUND_SECONDS: Final = 300.0  # in which every ledger is visited once, whatever this process knows of it
_JOIN_SECONDS: Final = 5.0


class LedgerKeeping:
    """Calls a keeper. `caps` are those in force: others than before are reason to visit every ledger."""

    def __init__(
        self, cluster: Cluster, keeper: LedgerReconciler, caps: Callable[[], CapIndex], log: Logger, figures: Figures
    ) -> None:
        self._cluster = cluster
        self._keeper = keeper
        self._caps = caps
        self._log = log
        self._figures = figures
        self._lock = Lock()
        self._touched: set[str] = set()
        self._every = True
        self._kept = (False, 0)  # whether this replica led when it last looked, and how many others had gone
        self._seen_caps: CapIndex | None = None
        self._wake, self._stop = Event(), Event()
        self._round = Round(_ROUND_SECONDS)
        self._failure = ""
        self._thread = Thread(target=self._run, name="keep-ledgers", daemon=True)
        cluster.pods.listen(self._pods_changed)
        cluster.namespaces.listen(self._namespaces_changed)

    def start(self) -> None:
        """Begin; once only."""
        self._thread.start()

    def stop(self) -> None:
        """End after the visit that is under way."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def check(self) -> Check:
        """Always ready, since a ledger that cannot be kept promises less, never more; the detail says what is wrong."""
        detail: dict[str, object] = {"unsettled": len(self._keeper.list_pending())}
        if self._failure:
            detail["failure"] = self._failure
        return Check("ledgers", ready=True, detail=detail)

    def _pods_changed(self, namespace: str | None) -> None:
        with self._lock:
            if namespace is None:
                self._every = True
            else:
                self._touched.add(namespace)
        self._wake.set()

    def _namespaces_changed(self, names: frozenset[str]) -> None:
        with self._lock:
            self._touched |= names
            # A namespace that leaves a shared cap is in it no more: the cap's ledger is found by the others.
            self._every |= any(counted.cap.shared for counted in self._caps().all())
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_AGAIN_SECONDS)
            self._wake.clear()
            try:
                self._visit_all()
            except Exception as crash:  # noqa: BLE001  # a fault of ours must not leave ledgers unkept for good
                self._note(f"{type(crash).__name__}: {crash}")
            self._stop.wait(_TOGETHER_SECONDS)

    def _visit_all(self) -> None:
        failure = ""
        for key, counted in self._due().items():
            if self._stop.is_set():
                return
            try:
                kept = self._keeper.reconcile(key, counted)
            except TallygateError as error:
                failure = f"cap {counted.cap.name} {key.namespace}".rstrip() + f": {error}"
                self._pods_changed(key.namespace or None)
                self._figures.visited("failed")
            else:
                self._figures.visited("written" if kept.is_written else "unchanged")
                self._figures.expired(kept.expired)
                if kept.ledger is not None:
                    self._figures.saw(key, kept.ledger)
        self._note(failure)

    def _due(self) -> dict[LedgerKey, Counted]:
        """The ledgers to visit now: those that promise, and those under which something has changed."""
        caps = self._caps()
        in_force = {counted.key: counted for counted in caps.all()}
        due: dict[LedgerKey, Counted] = {}
        # The promise of a pod that nobody stores changes nothing that is watched: who wrote it is the one to know.
        for key in {*self._keeper.list_pending(), *self._figures.unsettled()}:
            if key.cap in in_force:
                due[key] = in_force[key.cap]
            else:
                self._keeper.drop(key)
        due |= self._keeper.list_ledgers(self._changed(caps))
        # A replica that died may have left promises where nothing changes: nobody else knows of them.
        return due | dict(self._round.turn(time.monotonic(), lambda: self._keeper.list_ledgers(self._namespaces())))

    def _changed(self, caps: CapIndex) -> list[str]:
        """The namespaces in which something has changed since the last time.

        All of them, for who begins to keep ledgers, and when a replica has gone that may have promised something.
        """
        kept, self._kept = self._kept, (self._keeper.is_leader(), self._keeper.count_lost_replicas())
        with self._lock:
            every = self._every or caps is not self._seen_caps or (self._kept[0] and self._kept != kept)
            touched, self._touched, self._every, self._seen_caps = self._touched, set(), False, caps
        return self._namespaces() if every else sorted(touched)

    def _namespaces(self) -> list[str]:
        return [row.name for row in self._cluster.namespaces.rows()]

    def _note(self, failure: str) -> None:
        """Remember a failure, or that there is none any more; log it when it is another than before."""
        if failure and failure != self._failure:
            self._log.error("ledgers-not-kept", message=failure)
        self._failure = failure
