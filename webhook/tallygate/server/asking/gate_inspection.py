"""Inspections of the gate for its page: certificates, and those checks of `tallygate doctor` that a server can make.

An inspection takes seconds, and reads from the API server and from the gate's pods. So one runs in a thread of its own,
at most once in two minutes, and only if its page is opened: who asks never waits for it.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from tallygate.kube.client import ClientConfig
from tallygate.policy.model import PolicySet
from tallygate.server.asking.answerer import OpenState
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask

KEPT: Final = timedelta(minutes=2)
"""The age from which an inspection is repeated when the page is opened: with 5,000 namespaces one needs 4 s of CPU."""

_INTERVAL_SECONDS: Final = 60.0
_REST_SECONDS: Final = 5.0


class CertificateRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The certificate of a server: names, issuer, end, and whether the published CAs verify it.

    `trusted` is null where that is not known; `problem` says why it is not known, or not trusted.
    """

    server: str
    names: Sequence[str]
    issuer: str | None
    not_after: str | None
    days_left: int | None
    trusted: bool | None
    problem: str | None


class GateCheckRecord(msgspec.Struct, frozen=True):
    """A check of `tallygate doctor`, with its result and the commands that help.

    One that was not run has `NOT RUN`, and what it needs as the reason.
    """

    check: str
    title: str
    result: Literal["PASS", "UNKNOWN", "WARN", "FAIL", "NOT RUN"]
    reason: str
    fix: Sequence[str]


class Inspection(NamedTuple):
    """The findings of an inspection, and its end."""

    ended_at: datetime
    certificates: Sequence[CertificateRecord]
    checks: Sequence[GateCheckRecord]


class InspectionRequest(NamedTuple):
    """The inputs of an inspection: the gate's namespace, the file of the own certificate, and the state of a server."""

    client_config: ClientConfig
    namespace: str
    certificate_file: Path | None
    policies: PolicySet
    open_state: OpenState


Inspect = Callable[[InspectionRequest], Inspection]
"""A function that makes an inspection; it raises a TallygateError if it cannot.

`tallygate.cli.serve.gate_checks.inspect_gate`.
"""


class GateInspector:
    """The latest inspection, and the worker that makes one; for any thread. `now` returns the time."""

    def __init__(self, inspect: Callable[[], Inspection], log: Logger, now: Callable[[], datetime]) -> None:
        self._inspect = inspect
        self._now = now
        self._is_wanted = False
        self._latest: Inspection | None = None
        failure_log = FailureLog(partial(log.warning, "gate-inspection-failed"))
        task = WorkerTask(name="gate-inspection", run=self._run, failure_log=failure_log)
        self.worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS, rest=_REST_SECONDS))

    def get(self) -> Inspection | None:
        """Return the latest inspection, None before the first one; if it is old, the worker makes another."""
        latest = self._latest
        if latest is None or self._now() - latest.ended_at >= KEPT:
            self._is_wanted = True
            self.worker.wake()
        return latest

    def _run(self) -> bool:
        """Make an inspection if one is wanted.

        Raises:
            TallygateError: if it cannot be made; it stays wanted.
        """
        if not self._is_wanted:
            return False
        self._latest = self._inspect()
        self._is_wanted = False
        return True
