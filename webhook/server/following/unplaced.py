"""No nodes and pods beside the gate: what is not judged then, and how the log says so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock

from webhook.gate.scheduling_snapshot import ClusterSnapshot
from webhook.server.reporting.logs import Logger


class NoPlacing:
    """No cluster is followed: nothing is said of pods by it, and the log says so once."""

    def __init__(self, log: Logger) -> None:
        self._said = placing_said(log)

    def is_available(self) -> bool:
        """Never."""
        self._said.unknown("no cluster is followed: name one by --cluster")
        return False

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:  # noqa: ARG002  # a port's argument, by name
        """Nothing."""
        yield None


class Said:
    """Logs that there is no verdict when that begins, and when it ends; `what` is what would be judged."""

    def __init__(self, begins: Callable[..., object], ends: Callable[..., object], what: str) -> None:
        self._begins, self._ends, self._what = begins, ends, what
        self._lock = Lock()
        self._why = ""

    def unknown(self, why: str) -> None:
        """The cluster is not known, and why; it is, where that is empty."""
        with self._lock:
            changed, self._why = bool(why) != bool(self._why), why
        if changed and why:
            self._begins(message=f"{self._what} not judged: {why}")
        elif changed:
            self._ends(message=f"{self._what} judged again")


def placing_said(log: Logger) -> Said:
    """What is said where rules ask whether there is a node for a pod."""
    begins, ends = partial(log.warning, "placing-not-judged"), partial(log.info, "placing-judged")
    return Said(begins, ends, "advertised and schedulable are")
