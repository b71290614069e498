"""The thread that renews this replica's leases, and says when it begins and ceases to keep ledgers."""

from threading import Event, Thread
from typing import Final

from webhook.errors import TallygateError
from webhook.gate.leader_election import RETRY_PERIOD_SECONDS, LeaderElector
from webhook.server.ports import ReadinessStatus
from webhook.server.reporting.logs import Logger

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
