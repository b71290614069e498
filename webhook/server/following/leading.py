"""The thread that renews this replica's leases, and says when it begins and ceases to keep ledgers."""

from threading import Event, Thread
from typing import Final

from webhook.errors import TallygateError
from webhook.gate.leader_election import RETRY_PERIOD_SECONDS, LeaderElector
from webhook.server.ports import Check
from webhook.server.reporting.logs import Logger

_JOIN_SECONDS: Final = 6.0  # a call under way takes five


class LedgerLeading:
    """Calls `Leading`, and lets go of its leases in the end."""

    def __init__(self, leading: LeaderElector, log: Logger) -> None:
        self._leading = leading
        self._log = log
        self._stop = Event()
        self._leads = False
        self._failure = ""
        self._thread = Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> None:
        """Begin; once only."""
        self._thread.start()

    def stop(self) -> None:
        """End, so that another may begin at once."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def check(self) -> Check:
        """Always ready: without leases every replica keeps ledgers, and each thing is done more than once."""
        detail: dict[str, object] = {"keeps": self._leading.is_leader()}
        if self._failure:
            detail["failure"] = self._failure
        return Check("leases", ready=True, detail=detail)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._leading.run_once()
            except TallygateError as error:
                self._note(str(error))
            except Exception as crash:  # noqa: BLE001  # a fault of ours must not leave leases unrenewed for good
                self._note(f"{type(crash).__name__}: {crash}")
            else:
                self._note("")
            self._tell()
            self._stop.wait(RETRY_PERIOD_SECONDS)
        try:
            self._leading.release()
        except TallygateError as error:
            self._log.info("leases-kept", message=str(error))

    def _tell(self) -> None:
        leads = self._leading.is_leader()
        if leads != self._leads:
            self._log.info("keeps-ledgers" if leads else "keeps-ledgers-no-more")
        self._leads = leads

    def _note(self, failure: str) -> None:
        """Remember a failure, or that there is none any more; log it when it is another than before."""
        if failure and failure != self._failure:
            self._log.error("leases-not-renewed", message=failure)
        self._failure = failure
