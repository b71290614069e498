"""What a Service does for its pods: new connections go to those that are ready; who ends keeps those that he has."""

from collections.abc import Sequence
from http.client import HTTPException
from threading import Event, Thread
from types import TracebackType
from typing import Self

from e2e.errors import ClusterError
from e2e.forwarder import Forwarder
from e2e.gates.process import GateProcess

_PAUSE = 0.1  # seconds between two looks; a cluster's own way of hearing that a pod ends is no slower as a rule


class Service(Forwarder):
    """Passes each connection on to the next of the gates that is ready."""

    def __init__(self, gates: Sequence[GateProcess]) -> None:
        super().__init__(*(gate.port for gate in gates))
        self._gates = gates
        self._ready: frozenset[int] = frozenset()
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        super().__exit__(kind, error, trace)

    def _watch(self) -> None:
        while not self._over.wait(_PAUSE):
            self._ready = frozenset(gate.port for gate in self._gates if gate.runs and _is_ready(gate))

    def _turn(self) -> list[int]:
        return [port for port in super()._turn() if port in self._ready]


def _is_ready(gate: GateProcess) -> bool:
    try:
        return all(check["ready"] for check in gate.readiness()["checks"].values())
    except (ClusterError, OSError, HTTPException, ValueError, KeyError):  # it begins, or ends within its answer
        return False
