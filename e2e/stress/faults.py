"""Faults during the load, of the gates and of their surroundings."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from e2e.local.component import Component
from e2e.stress.environment import StressEnvironment
from e2e.stress.replicas import Replicas

_STALL_SECONDS = 10.0  # an abandoned request may reach a gate so much later
_SUCCESSION_SECONDS = 5.0  # after the bound, until another replica expires what a killed leader observed


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, in words and in fact; reservations may expire `late` seconds later than without it."""

    title: str
    happens: Callable[[StressEnvironment, Replicas], None]
    late: float = 0.0


def _kill(_: StressEnvironment, replicas: Replicas) -> None:
    replicas.each[0].kill()
    replicas.each[0].start()


def _api_server(environment: StressEnvironment, _: Replicas) -> None:
    environment.cluster.restart_api_server()


def _etcd_stopped(environment: StressEnvironment, _: Replicas) -> None:
    etcd = _etcd(environment)
    etcd.signal(signal.SIGSTOP)
    time.sleep(_STALL_SECONDS)
    etcd.signal(signal.SIGCONT)


def _etcd_killed(environment: StressEnvironment, _: Replicas) -> None:
    etcd = _etcd(environment)
    etcd.signal(signal.SIGKILL)
    etcd.stop()
    etcd.start()


def _etcd(environment: StressEnvironment) -> Component:
    (etcd,) = (each for each in environment.cluster.components if each.name == "etcd")
    return etcd


def freeze(seconds: float) -> Fault:
    """Return the fault of one replica that freezes for a while; connections to it are still accepted."""

    def happens(_: StressEnvironment, replicas: Replicas) -> None:
        with replicas.each[0].freeze():
            time.sleep(seconds)

    return Fault(f"one frozen for {seconds:g} s", happens, late=seconds)


KILLED = Fault("one killed and started again", _kill, late=_SUCCESSION_SECONDS)
API_SERVER = Fault("API server restarted", _api_server)
ETCD_KILLED = Fault("etcd killed and started again", _etcd_killed)
ETCD_STOPPED = Fault(f"etcd stopped for {_STALL_SECONDS:g} s", _etcd_stopped, late=_STALL_SECONDS)
