"""A Service in front of its pods: new connections go to ready pods; a pod that ends keeps those that it has."""

import random
from collections.abc import Sequence
from http.client import HTTPException
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from e2e.errors import ClusterError
from e2e.gates.process import GateProcess
from e2e.tcp_proxy import TcpProxy

_PAUSE = 0.1  # seconds between two checks; a cluster notices as fast as a rule that a pod ends

KUBELETS_PAUSE: Final = 1.0
"""Seconds until a kubelet has seen a process killed (`genericPlegRelistPeriod`, pkg/kubelet/kubelet.go, v1.36)."""


class Service(TcpProxy):
    """A proxy that passes each connection on to one of the ready gates; it checks every `pause` seconds which are.

    Which one is chance, as kube-proxy has it (pkg/proxy/iptables/proxier.go, `statistic --mode random`, v1.36).
    """

    def __init__(self, gates: Sequence[GateProcess], pause: float = _PAUSE) -> None:
        super().__init__()
        self._gates = gates
        self._pause = pause
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
        while not self._over.wait(self._pause):
            self._ready = frozenset(gate.port for gate in self._gates if gate.runs and _is_ready(gate))

    def _order_servers(self) -> list[int]:
        ready = sorted(self._ready)
        return random.sample(ready, len(ready))


def _is_ready(gate: GateProcess) -> bool:
    try:
        return all(check["ready"] for check in gate.readiness()["checks"].values())
    except (ClusterError, OSError, HTTPException, ValueError, KeyError):  # it begins, or ends within its answer
        return False
