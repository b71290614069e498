"""The snapshot provider without a cluster, and the log lines about rules that are not evaluated."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock

from webhook.gate.scheduling_snapshot import ClusterSnapshot
from webhook.server.telemetry.json_log import Logger


class NoSnapshotProvider:
    """A `SnapshotProvider` without a cluster: it has no snapshot, and logs that once."""

    def __init__(self, log: Logger) -> None:
        self._unsynced_log = create_schedulability_log(log)

    def is_available(self) -> bool:
        """Return False, and log the reason at the first call."""
        self._unsynced_log.update("no cluster is followed: name one by --cluster")
        return False

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:  # noqa: ARG002  # a port's argument, by name
        """Yield None."""
        yield None


class UnsyncedLog:
    """A log of changes between synced and unsynced; `subject` begins the message and names the skipped checks."""

    def __init__(self, log_unsynced: Callable[..., object], log_synced: Callable[..., object], subject: str) -> None:
        self._log_unsynced, self._log_synced, self._subject = log_unsynced, log_synced, subject
        self._lock = Lock()
        self._reason = ""

    def update(self, reason: str) -> None:
        """Store why the cluster is not known, "" if it is; log a change between the two."""
        with self._lock:
            has_changed, self._reason = bool(reason) != bool(self._reason), reason
        if has_changed and reason:
            self._log_unsynced(message=f"{self._subject} not judged: {reason}")
        elif has_changed:
            self._log_synced(message=f"{self._subject} judged again")


def create_schedulability_log(log: Logger) -> UnsyncedLog:
    """Return the log for rules that ask whether a pod fits on a node."""
    log_unsynced, log_synced = partial(log.warning, "placing-not-evaluated"), partial(log.info, "placing-evaluated")
    return UnsyncedLog(log_unsynced, log_synced, "advertised and schedulable are")
