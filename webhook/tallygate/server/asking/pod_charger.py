"""The charges of stored pods under new caps, computed before someone asks.

A change of a pod corrects the kept sums of a cap. New caps have none: after the start, and after a change of policies,
classes or limits, the first answer would charge all pods of the cluster.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from tallygate.admission.cap_index import CapIndex
from tallygate.answers.usage_report import LedgerChoice, compute_usage_of_caps
from tallygate.errors import TallygateError
from tallygate.policy.model import PolicySet
from tallygate.server.asking.answerer import OpenState
from tallygate.server.asking.ask_error import AskError
from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask

_FIRST_SECONDS: Final = 0.2
_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = 5.0


class PodCharger:
    """The charges under the active caps, one cap at a time, so that asks are answered in between."""

    def __init__(self, open_state: OpenState, get_policies: Callable[[], PolicySet], log: Logger) -> None:
        self._open_state = open_state
        self._get_policies = get_policies
        self._charged: CapIndex | None = None
        failure_log = FailureLog(partial(log.warning, "charges-failed"), partial(log.info, "charges-computed"))
        task = WorkerTask(name="charges", run=self._charge_all, failure_log=failure_log)
        self.worker = Worker(task, WorkerPace(interval=lambda: _FIRST_SECONDS if self._charged is None else _SECONDS))

    def check(self) -> ReadinessStatus:
        """Return a status that is ready once the pods of the first list are charged, as far as they can be."""
        return replace(self.worker.check(), ready=self._charged is not None)

    def _charge_all(self) -> bool:
        """Charge all pods under all caps; return False if that was done, or the state is not known or not free.

        Raises:
            TallygateError: if an object is not as an API server stores it. It is not tried again under the same caps.
        """
        try:
            caps = self._charge(None, "")
            if caps is self._charged:
                return False
            for name in sorted({cap.definition.name for cap in caps.list_caps()}):
                if self._charge(caps, name) is not caps:
                    return True
        except AskError:
            return False
        except TallygateError:
            self._charged = caps
            raise
        self._charged = caps
        return True

    def _charge(self, caps: CapIndex | None, name: str) -> CapIndex:
        """Charge all pods under one cap if `caps` are still the active ones; return those that are."""
        with self._open_state(_WAIT_SECONDS) as opened:
            current = opened.state.index_caps(self._get_policies(), opened.now)
            if current is caps:
                compute_usage_of_caps(opened.state, caps, LedgerChoice(cap=name))
            return current
