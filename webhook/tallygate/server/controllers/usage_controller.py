"""The controller that keeps the usage of each cap in its member namespaces, where tenants can read it.

Only the leader writes: at most once in 10 s for each object, and only if anything but the time has changed. It knows
what it has written, and lists the objects once in 5 minutes, for what others changed. It deletes only objects with its
label: those of namespaces that no cap counts any more, and of caps that were removed.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from tallygate.gate.published_usage import PublishedStatuses, UsageKey
from tallygate.kube.api_errors import ApiError
from tallygate.server.interfaces import ObjectStore
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.kubernetes.cap_usage import PublishedStatus, create_object

_INTERVAL_SECONDS: Final = 10.0
_FULL_PERIOD_SECONDS: Final = 300.0
_REST_SECONDS: Final = 1.0  # between the runs of one pass
_MAX_WRITES: Final = 100  # in a run
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSource:
    """The parts of the gate on which the published usage depends.

    Args:
        list_statuses: returns the statuses of all caps in their namespaces; None while the namespaces are not known.
        is_leader: returns whether this replica writes.
        monotonic: returns seconds.
        now: returns the present time, for people to read.
    """

    list_statuses: Callable[[], PublishedStatuses | None]
    is_leader: Callable[[], bool]
    monotonic: Callable[[], float]
    now: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class _Change:
    """A status to write, or the deletion of an object without one."""

    key: UsageKey
    status: PublishedStatus | None


class UsageController:
    """The worker that keeps the published usage in a cluster.

    A pass compares all objects. It takes several runs if it has many changes, and no other pass begins meanwhile.
    """

    def __init__(self, store: ObjectStore, source: UsageSource, log: Logger) -> None:
        self._store = store
        self._source = source
        self._stored: dict[UsageKey, dict[str, Any]] = {}
        self._owner: dict[str, str] | None = None
        self._changes: deque[_Change] = deque()
        self._started_at = self._listed_at = -math.inf
        self._state = "standby"
        task = WorkerTask(
            name="cap-usages",
            run=self._run_due,
            failure_log=FailureLog(partial(log.warning, "usage-failed"), partial(log.info, "usage-recovered")),
            describe=self._describe,
            interrupt=store.close,
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS, rest=_REST_SECONDS))

    def _describe(self) -> dict[str, object]:
        if self._state != "complete":
            return {"state": self._state}
        return {"state": self._state, "objects": len(self._stored), "left": len(self._changes)}

    def _run_due(self) -> bool:
        """Begin a pass if one is due, and write what it has left.

        Raises:
            TallygateError: if an object could not be read or written; the next pass goes on.
        """
        if not self._source.is_leader():
            self._state, self._listed_at = "standby", -math.inf
            self._changes.clear()
            return True
        now = self._source.monotonic()
        if not self._changes:
            if now < self._started_at + _INTERVAL_SECONDS:
                return False
            statuses = self._source.list_statuses()
            if statuses is None:
                self._state = "waiting"
                return True
            self._started_at = now
            self._list_stored(now)
            self._changes.extend(self._compare(statuses))
        self._write()
        self._state = "complete"
        if self._changes:
            self.worker.wake()
        return True

    def _list_stored(self, now: float) -> None:
        """List the stored objects and read their owner, if that was not done in the last minutes."""
        if now < self._listed_at + _FULL_PERIOD_SECONDS:
            return
        listed = self._store.list_objects()
        self._owner = self._store.read_owner()
        self._stored = {UsageKey(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in listed}
        self._listed_at = now

    def _compare(self, statuses: PublishedStatuses) -> list[_Change]:
        changes = [_Change(key, None) for key in sorted(self._stored.keys() - statuses.keys())]
        for key, status in sorted(statuses.items(), key=lambda item: item[0]):
            if status is not None and not self._is_current(key, status):
                changes.append(_Change(key, status))
        return changes

    def _is_current(self, key: UsageKey, status: PublishedStatus) -> bool:
        """Return whether the stored object has a status, at whatever time it was written, and the owner."""
        stored = self._stored.get(key)
        if stored is None:
            return False
        content = {name: value for name, value in stored["status"].items() if name != "asOf"}
        owners = stored["metadata"].get("ownerReferences") or []
        is_owned = self._owner is None or any(owner.get("uid") == self._owner["uid"] for owner in owners)
        return is_owned and content == msgspec.to_builtins(status)

    def _write(self) -> None:
        """Write and delete up to `_MAX_WRITES` objects. One that is refused does not keep others from their write.

        Raises:
            TallygateError: if an object was refused, or the API server does not answer; then the pass ends.
        """
        refused: ApiError | None = None
        for _ in range(min(_MAX_WRITES, len(self._changes))):
            if self.worker.is_stopping:
                return
            change = self._changes.popleft()
            try:
                self._write_one(change)
            except ApiError as error:
                if not 0 < error.status < _SERVER_ERROR:
                    self._changes.clear()
                    raise
                refused = refused or error
        if refused is not None:
            raise refused

    def _write_one(self, change: _Change) -> None:
        if change.status is None:
            self._store.delete(self._stored[change.key])
            del self._stored[change.key]
            return
        status = msgspec.structs.replace(change.status, as_of=self._source.now().replace(microsecond=0))
        stored = self._store.apply(create_object(*change.key, status), self._owner)
        if stored is not None:
            self._stored[change.key] = stored
