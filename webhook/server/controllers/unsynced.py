"""No nodes and pods beside the gate: what is not judged then, and how the log says so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock

from webhook.gate.scheduling_snapshot import ClusterSnapshot
from webhook.server.telemetry.json_log import Logger


class NoSnapshotProvider:
    """No cluster is followed: nothing is said of pods by it, and the log says so once."""

    def __init__(self, log: Logger) -> None:
        self._unsynced_log = create_schedulability_log(log)

    def is_available(self) -> bool:
        """Never."""
        self._unsynced_log.update("no cluster is followed: name one by --cluster")
        return False

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:  # noqa: ARG002  # a port's argument, by name
        """Nothing."""
        yield None


class UnsyncedLog:
    """Logs that there is no verdict when that begins, and when it ends; `what` is what would be judged."""

    def __init__(self, log_unsynced: Callable[..., object], log_synced: Callable[..., object], subject: str) -> None:
        self._log_unsynced, self._log_synced, self._subject = log_unsynced, log_synced, subject
        self._lock = Lock()
        self._reason = ""

    def update(self, reason: str) -> None:
        """The cluster is not known, and why; it is, where that is empty."""
        with self._lock:
            has_changed, self._reason = bool(reason) != bool(self._reason), reason
        if has_changed and reason:
            self._log_unsynced(message=f"{self._subject} not judged: {reason}")
        elif has_changed:
            self._log_synced(message=f"{self._subject} judged again")


def create_schedulability_log(log: Logger) -> UnsyncedLog:
    """What is said where rules ask whether there is a node for a pod."""
    log_unsynced, log_synced = partial(log.warning, "placing-not-judged"), partial(log.info, "placing-judged")
    return UnsyncedLog(log_unsynced, log_synced, "advertised and schedulable are")
