"""What happens in mid-storm to the gates, and to what stands around them."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from e2e.local.component import Component
from e2e.storm.ground import Ground
from e2e.storm.replicas import Replicas

_HELD_UP = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens, in words and in fact; what a client has given up may reach a gate so many seconds `late`."""

    title: str
    happens: Callable[[Ground, Replicas], None]
    late: float = 0.0


def _killed(_: Ground, replicas: Replicas) -> None:
    replicas.each[0].kill()
    replicas.each[0].start()


def _api_server(ground: Ground, _: Replicas) -> None:
    ground.cluster.restart_api_server()


def _etcd_stopped(ground: Ground, _: Replicas) -> None:
    etcd = _etcd(ground)
    etcd.signal(signal.SIGSTOP)
    time.sleep(_HELD_UP)
    etcd.signal(signal.SIGCONT)


def _etcd_killed(ground: Ground, _: Replicas) -> None:
    etcd = _etcd(ground)
    etcd.signal(signal.SIGKILL)
    etcd.stop()
    etcd.start()


def _etcd(ground: Ground) -> Component:
    (etcd,) = (each for each in ground.cluster.components if each.name == "etcd")
    return etcd


def frozen(seconds: float) -> Fault:
    """One replica stands still, and goes on as if nothing had been; connections to it are still taken."""

    def happens(_: Ground, replicas: Replicas) -> None:
        with replicas.each[0].frozen():
            time.sleep(seconds)

    return Fault(f"one frozen for {seconds:g} s", happens, late=seconds)


KILLED = Fault("one killed and started again", _killed)
API_SERVER = Fault("API server restarted", _api_server)
ETCD_KILLED = Fault("etcd killed and started again", _etcd_killed)
ETCD_STOPPED = Fault(f"etcd stopped for {_HELD_UP:g} s", _etcd_stopped, late=_HELD_UP)
