"""The thread that audits: at once where this replica begins to keep ledgers, and then every so often."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final

from webhook.admission.selection import RuleIndex
from webhook.audit.audit import Audit, Outcome, Scope, World, listed
from webhook.audit.nodes import nodes
from webhook.audit.pages import Pages
from webhook.audit.reports import NONE_INSTALLED, Reports, Written
from webhook.errors import TallygateError
from webhook.policy.model import PolicySet
from webhook.server.auditing.figures import AuditFigures, Last, log
from webhook.server.following.cluster import Cluster
from webhook.server.ports import Check
from webhook.server.reporting.logs import Logger
from webhook.state.watch.connect import Connection
from webhook.state.watch.pool import PooledTransport

_PAGE: Final = 50  # objects: what is decoded at once holds up whoever answers, for a millisecond or two
_RESTS: Final = 9.0  # times as long as it has worked
_AT_ONCE_SECONDS: Final = 0.001  # so long whoever answers one request at a time may wait for it
_BETWEEN_WRITES_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 5.0
_SPARED: Final = "kube-system"


class _OverError(Exception):
    """This replica ends, or leads no more: what was begun is left to who leads now."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is audited: every how many seconds, by which policies; `leads` says whether by this replica.

    `own_namespace` is the gate's, in which it is not asked.
    """

    every: float
    policies: Callable[[], PolicySet]
    leads: Callable[[], bool]
    own_namespace: str


class Audits:
    """Audits a cluster that is followed: pods and namespaces as they are seen, all else in small pages."""

    def __init__(self, access: Connection, cluster: Cluster, order: Order, log: Logger, figures: AuditFigures) -> None:
        self._cluster = cluster
        self._order = order
        self._log = log
        self._figures = figures
        self._transport = PooledTransport(access)
        self._pages = Pages(self._transport, access.server, _PAGE, self._wait)
        self._reports = Reports(access, time.time, self._wait, _BETWEEN_WRITES_SECONDS)
        self._worked = 0.0
        self._troubles: dict[str, str] = {}
        self._stop = Event()
        self._thread = Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Begin; once only."""
        self._thread.start()

    def stop(self) -> None:
        """End at once: an audit changes nothing that could be left half done."""
        self._stop.set()
        self._transport.close()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def check(self) -> Check:
        """Always ready: reviews are answered without it. The detail says when it was done last, and what is wrong."""
        last = self._figures.last
        detail: dict[str, object] = {"audits": self._order.leads()}
        if last is not None:
            detail["endedAt"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(last.ended))
        return Check("audit", ready=True, detail=detail | self._troubles)

    def _run(self) -> None:
        due = -math.inf
        while not self._stop.wait(_LOOK_SECONDS):
            if not self._order.leads():
                due = -math.inf
            elif time.monotonic() >= due and self._cluster.check().ready:
                due = time.monotonic() + self._order.every
                self._figures.ended(self._round())

    def _round(self) -> str:
        """Audit once; how that ended."""
        try:
            self._audit()
        except _OverError:
            return "broken-off"
        except TallygateError as error:
            return self._failed(str(error))
        except Exception as crash:  # noqa: BLE001  # a fault of ours must not end audits for good
            return self._failed(f"{type(crash).__name__}: {crash}")
        self._trouble("failure", "", "audit-failed")
        return "whole"

    def _failed(self, why: str) -> str:
        if self._stop.is_set():
            return "broken-off"
        self._trouble("failure", why, "audit-failed")
        return "failed"

    def _audit(self) -> None:
        begun = time.monotonic()
        self._worked = time.thread_time()
        outcome = self._judged()
        last = Last(outcome, time.time(), time.monotonic() - begun)
        written = self._reported(outcome)
        outcome.kept.forget()
        self._figures.last = last
        log(self._log, last, written)

    def _judged(self) -> Outcome:
        cluster, policies = self._cluster, self._order.policies()
        placing = nodes(self._pages) if RuleIndex(policies).places else None
        world = World(cluster.pods, cluster.namespaces, cluster.sight, placing)
        scope = Scope(frozenset({_SPARED, self._order.own_namespace}))
        audit = Audit(policies, world, scope, self._pace)
        return audit.run(listed(self._pages, scope))

    def _reported(self, outcome: Outcome) -> Written | None:
        """Write what was found into the cluster, if that has reports; findings are told all the same if it has not."""
        try:
            api = self._reports.installed()
            if api is None:
                self._trouble("reports", NONE_INSTALLED, "audit-reports-not-written")
                return None
            written = self._reports.bring(api, outcome.kept, None)
        except TallygateError as error:
            self._trouble("reports", str(error), "audit-reports-not-written")
            return None
        self._figures.reported(written)
        self._trouble("reports", "; ".join(written.failures), "audit-reports-not-written")
        return written

    def _pace(self, _: int) -> None:
        """Rest after a millisecond of work, so long that this thread works for a tenth of the time at most."""
        worked = time.thread_time() - self._worked
        if worked >= _AT_ONCE_SECONDS:
            self._wait(_RESTS * worked)
            self._worked = time.thread_time()

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds) or not self._order.leads():
            raise _OverError

    def _trouble(self, what: str, why: str, event: str) -> None:
        """Remember what is wrong, or that nothing is; log it when it is another than before."""
        before = self._troubles.get(what, "")
        if why:
            self._troubles = {**self._troubles, what: why}
        else:
            self._troubles = {name: text for name, text in self._troubles.items() if name != what}
        if why and why != before:
            self._log.warning(event, message=why)
