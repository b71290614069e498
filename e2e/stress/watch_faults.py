"""Gates with failing watches: their watches are cut again and again and stalled, or stand silent."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from e2e.errors import ClusterError
from e2e.stress.clients import RequestLoad, send_requests
from e2e.stress.environment import StressEnvironment
from e2e.stress.filling import SLACK, complete_outcome, delete_pods, fill_namespace, track_namespace
from e2e.stress.objects import GPU, cap, creates
from e2e.stress.outcome import Outcome, compute_outcome, find_unfounded
from e2e.stress.overload import Size
from e2e.stress.watcher import Watcher
from e2e.tcp_proxy import TcpProxy

_BOUND = 8.0  # seconds
_GATES = 3
_VISITS = 3.0  # seconds, for the leader to reconcile
_QUIET = 0.5  # seconds in which a client of ledgers sends something under load, and a watch does not
_EACH, _STALL_SECONDS = 0.4, 3.0  # seconds between two cuts, and for which nothing comes
_CUTS = 4  # for each time that they are stalled
_UNHEARD = 20.0 + SLACK  # seconds in which a refused request has a silent watch replaced (cluster.usage_lister)
_KNOWN = 10.0  # seconds in which a watch has reported all that was created before


def cut_watches(environment: StressEnvironment, size: Size) -> Outcome:
    """Create pods while watches are cut again and again, and stalled between.

    Raises:
        ClusterError: if something takes too long.
    """
    with (
        environment.byway() as (proxy, kubeconfig),
        environment.gates(_GATES, [_cap(size.hard)], "kubernetes", _BOUND, kubeconfig),
        environment.namespaces() as (namespace,),
    ):
        usage = track_namespace(namespace, size.hard)
        with Watcher(environment.access, [usage]) as watcher:
            requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
            with _disturb_watches(proxy) as cuts, RequestLoad(environment.access, size.clients, requests) as load:
                pass
            watcher.until_current()
            title = f"{size.pods:,} creates by {size.clients} clients, {_GATES} replicas, ledgers in the cluster"
            found = compute_outcome(
                f"{title}, their watches cut {sum(cuts)} times and stalled between", load.attempts, usage
            )
            if unfounded := find_unfounded(load.attempts, size.hard, _BOUND + _STALL_SECONDS + _VISITS):
                found.unmet.append(
                    f"{len(unfounded)} rejected though the cap was not exhausted, the first: {unfounded[0].message}"
                )
            reservation_seconds = fill_namespace(environment, namespace, usage, _BOUND + SLACK)
            delete_pods(environment, namespace, usage, size.hard // 10)
            deletion_seconds = fill_namespace(environment, namespace, usage, SLACK)
            watcher.until_current()
    return complete_outcome(found, usage, f"{reservation_seconds:.1f} s (reserved), {deletion_seconds:.1f} s (deleted)")


def silence_watches(environment: StressEnvironment) -> Outcome:
    """Stall each watch, as when the machine at its other end has disappeared, and delete pods.

    Raises:
        ClusterError: if something takes too long.
    """
    size = Size(pods=200, hard=100, clients=16)
    with (
        environment.byway() as (proxy, kubeconfig),
        environment.gates(_GATES, [_cap(size.hard)], "kubernetes", _BOUND, kubeconfig),
        environment.namespaces() as (namespace,),
    ):
        usage = track_namespace(namespace, size.hard)
        with Watcher(environment.access, [usage]) as watcher:
            fill_namespace(environment, namespace, usage, SLACK)
            time.sleep(_KNOWN)
            with proxy.stall(_QUIET) as silent:
                delete_pods(environment, namespace, usage, size.hard // 2)
                requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
                attempts = send_requests(environment.access, size.clients, requests)
                watcher.until_current()
                found = compute_outcome(
                    f"{size.pods} creates by {size.clients} clients after deletions that no watch has reported",
                    attempts,
                    usage,
                )
                room = fill_namespace(environment, namespace, usage, _UNHEARD)
            if not silent:
                found.unmet.append("there was no watch to stall")
            watcher.until_current()
    return complete_outcome(found, usage, f"{room:.1f} s (deleted)")


def _cap(hard: int) -> dict[str, object]:
    return cap("gpus", {GPU: str(hard)}, ["stress-*"])


@contextmanager
def _disturb_watches(proxy: TcpProxy) -> Iterator[list[int]]:
    """Cut watches, and stall them, for as long as the block runs; yield the number of each time, as it grows.

    Raises:
        ClusterError: if there was no watch to cut.
    """
    cuts, over = list[int](), Event()

    def run() -> None:
        while not over.wait(_EACH):
            cuts.append(proxy.cut(_QUIET))
            if len(cuts) % _CUTS == 0:
                over.wait(_QUIET)
                with proxy.stall(_QUIET):
                    over.wait(_STALL_SECONDS)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield cuts
    finally:
        over.set()
        thread.join()
    if not any(cuts):
        raise ClusterError("there was no watch to cut")
