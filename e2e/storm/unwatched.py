"""Gates that do not see: their watches are cut again and again and held up, or stand and say nothing any more."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from e2e.errors import ClusterError
from e2e.forwarder import Forwarder
from e2e.storm.clients import Storm, ask
from e2e.storm.crowds import Size
from e2e.storm.filling import SLACK, closed, emptied, filled_up, in_namespace
from e2e.storm.ground import Ground
from e2e.storm.objects import GPU, cap, creates
from e2e.storm.outcome import Outcome, outcome, unfounded
from e2e.storm.watcher import Watcher

_BOUND = 8.0  # seconds
_GATES = 3
_VISITS = 3.0  # seconds, for the leaders to come by
_QUIET = 0.5  # seconds in which who writes and reads ledgers under a storm says something, and who watches does not
_EACH, _HELD_UP = 0.4, 3.0  # seconds between two cuts, and for which nothing comes
_CUTS = 4  # for each time that they are held up
_UNHEARD = 20.0 + SLACK  # seconds in which a refused request has a silent watch replaced (webhook/gate/usage_lister.py)
_KNOWN = 10.0  # seconds in which a watch has told of all that was created before


def watch_cut(ground: Ground, size: Size) -> Outcome:
    """Creates while watches are cut again and again, and held up between.

    Raises:
        ClusterError: something does not come about in time.
    """
    with (
        ground.byway() as (forwarder, kubeconfig),
        ground.gates(_GATES, [_cap(size.hard)], "kubernetes", _BOUND, kubeconfig),
        ground.namespaces() as (namespace,),
    ):
        holding = in_namespace(namespace, size.hard)
        with Watcher(ground.access, [holding]) as watcher:
            requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
            with _trouble(forwarder) as cuts, Storm(ground.access, size.clients, requests) as storm:
                pass
            watcher.until_current()
            title = f"{size.pods:,} creates by {size.clients} clients, {_GATES} replicas, ledgers in the cluster"
            found = outcome(
                f"{title}, their watches cut {sum(cuts)} times and held up between", storm.attempts, holding
            )
            if false := unfounded(storm.attempts, size.hard, _BOUND + _HELD_UP + _VISITS):
                found.unmet.append(f"{len(false)} refused though there was room, the first: {false[0].message}")
            promises = filled_up(ground, namespace, holding, _BOUND + SLACK)
            emptied(ground, namespace, holding, size.hard // 10)
            deletions = filled_up(ground, namespace, holding, SLACK)
            watcher.until_current()
    return closed(found, holding, f"{promises:.1f} s (promised), {deletions:.1f} s (deleted)")


def watch_silent(ground: Ground) -> Outcome:
    """Each watch stands and says nothing any more, as when the machine at its other end has gone, and pods are deleted.

    Raises:
        ClusterError: something does not come about in time.
    """
    size = Size(pods=200, hard=100, clients=16)
    with (
        ground.byway() as (forwarder, kubeconfig),
        ground.gates(_GATES, [_cap(size.hard)], "kubernetes", _BOUND, kubeconfig),
        ground.namespaces() as (namespace,),
    ):
        holding = in_namespace(namespace, size.hard)
        with Watcher(ground.access, [holding]) as watcher:
            filled_up(ground, namespace, holding, SLACK)
            time.sleep(_KNOWN)
            with forwarder.stalled(_QUIET) as silent:
                emptied(ground, namespace, holding, size.hard // 2)
                requests = creates(namespace, (f"pod-{number}" for number in range(size.pods)))
                attempts = ask(ground.access, size.clients, requests)
                watcher.until_current()
                found = outcome(
                    f"{size.pods} creates by {size.clients} clients after deletions of which no watch has told",
                    attempts,
                    holding,
                )
                room = filled_up(ground, namespace, holding, _UNHEARD)
            if not silent:
                found.unmet.append("no watch was there to be held up")
            watcher.until_current()
    return closed(found, holding, f"{room:.1f} s (deleted)")


def _cap(hard: int) -> dict[str, object]:
    return cap("gpus", {GPU: str(hard)}, ["storm-*"])


@contextmanager
def _trouble(forwarder: Forwarder) -> Iterator[list[int]]:
    """Cut watches, and hold them up, for as long as the block runs; how many each time, as it comes to be.

    Raises:
        ClusterError: none was there to be cut.
    """
    cuts, over = list[int](), Event()

    def run() -> None:
        while not over.wait(_EACH):
            cuts.append(forwarder.cut(_QUIET))
            if len(cuts) % _CUTS == 0:
                over.wait(_QUIET)
                with forwarder.stalled(_QUIET):
                    over.wait(_HELD_UP)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield cuts
    finally:
        over.set()
        thread.join()
    if not any(cuts):
        raise ClusterError("no watch was there to be cut")
