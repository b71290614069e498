"""What changes under pods that are there: the policy, their size, their labels, and the ledger itself."""

import itertools
import random
import time
from collections.abc import Callable

from e2e.errors import ClusterError
from e2e.storm.clients import Request, Storm, ask
from e2e.storm.filling import SLACK, closed, emptied, filled_up, in_namespace
from e2e.storm.ground import Ground, policies
from e2e.storm.holding import Holding, Limit
from e2e.storm.objects import GPU, cap, create, creates, patch, pod
from e2e.storm.outcome import Outcome, outcome
from e2e.storm.watcher import Watcher

_BOUND = 8.0  # seconds
_CLIENTS = 16
_SEED = 1
_PAUSE = 0.25  # seconds between two tries
_CPU = 1000  # thousandths
_SMALL = 100  # thousandths of a processor
_BATCH = {"tier": "batch"}
_HARD = 200
_BY_HAND = cap("gpus", {GPU: str(_HARD)}, ["storm-*"])


def lowered(ground: Ground) -> Outcome:
    """The policy is lowered below what is held, in mid-storm: from then on nothing more is admitted.

    Raises:
        ClusterError: something does not come about in time.
    """
    high, low, pods = 300, 50, 600
    with (
        ground.gates(3, [cap("gpus", {GPU: str(high)}, ["storm-*"])], "kubernetes", _BOUND) as replicas,
        ground.namespaces() as (namespace,),
    ):
        holding = in_namespace(namespace, high)
        with Watcher(ground.access, [holding]) as watcher:
            with Storm(
                ground.access, _CLIENTS, creates(namespace, (f"pod-{number}" for number in range(pods)))
            ) as storm:
                storm.until_final(2 * low)
                replicas.write_policies(policies([cap("gpus", {GPU: str(low)}, ["storm-*"])]))
                since = time.monotonic()
            watcher.until_current()
            title = f"{pods} creates by {_CLIENTS} clients, cap lowered from {high} to {low} in mid-storm"
            found = outcome(title, storm.attempts, holding)
            late = [each for each in storm.attempts if each.is_done and each.begun > since]
            if late:
                found.unmet.append(f"{len(late)} pods admitted after the cap was lowered below what was held")
            holding.limit = in_namespace(namespace, low).limit
            emptied(ground, namespace, holding, int(holding.now(namespace)) - low + low // 5)
            deletions = filled_up(ground, namespace, holding, _BOUND + SLACK)
            watcher.until_current()
    return closed(found, holding, f"{deletions:.1f} s (deleted)")


def put_back(ground: Ground) -> Outcome:
    """A cap is taken out of the policies and put back as it was, in mid-storm; another one stays beside it.

    Raises:
        ClusterError: something does not come about in time.
    """
    outer, inner, pods = 300, 50, 600
    outside, inside = (cap(name, {GPU: str(hard)}, ["storm-*"]) for name, hard in (("outer", outer), ("inner", inner)))
    with (
        ground.gates(3, [outside, inside], "kubernetes", _BOUND) as replicas,
        ground.namespaces() as (namespace,),
    ):
        holding = in_namespace(namespace, outer)
        with Watcher(ground.access, [holding]) as watcher:
            ask(ground.access, _CLIENTS, creates(namespace, (f"first-{number}" for number in range(inner // 2))))
            replicas.write_policies(policies([outside]))
            with Storm(
                ground.access, _CLIENTS, creates(namespace, (f"pod-{number}" for number in range(pods)))
            ) as storm:
                storm.until_final(2 * inner)
                replicas.write_policies(policies([outside, inside]))
                since = time.monotonic()
            watcher.until_current()
            title = f"{pods} creates by {_CLIENTS} clients, a cap of {inner} taken out before and put back in mid-storm"
            found = outcome(f"{title}, beside one of {outer}", storm.attempts, holding)
            late = [each for each in storm.attempts if each.is_done and each.begun > since]
            if late:
                found.unmet.append(f"{len(late)} pods admitted after a cap was put back that had no room")
            holding.limit = in_namespace(namespace, inner).limit
            emptied(ground, namespace, holding, int(holding.now(namespace)) - inner + inner // 5)
            deletions = filled_up(ground, namespace, holding, _BOUND + SLACK)
            watcher.until_current()
    return closed(found, holding, f"{deletions:.1f} s (deleted)")


def resized(ground: Ground) -> Outcome:
    """Pods are made larger and smaller at once, under a cap that has not room for all.

    Raises:
        ClusterError: something does not come about in time.
    """
    hard, pods, resizes = 5, 20, 600
    chance = random.Random(_SEED)  # noqa: S311  # it only has to be the same each time
    with (
        ground.gates(3, [cap("processors", {"requests.cpu": str(hard)}, ["storm-*"])], "kubernetes", _BOUND),
        ground.namespaces() as (namespace,),
    ):
        holding = Holding(Limit(hard, "cpu", lambda where, _: where if where == namespace else None))
        with Watcher(ground.access, [holding]) as watcher:
            ask(ground.access, 1, [_processors(namespace, f"pod-{number}", _SMALL) for number in range(pods)])
            requests = [
                _resize(namespace, f"pod-{chance.randrange(pods)}", _SMALL * chance.randint(1, 8))
                for _ in range(resizes)
            ]
            with Storm(ground.access, _CLIENTS, requests) as storm:
                pass
            watcher.until_current()
            found = outcome(f"{resizes} resizes of {pods} pods by {_CLIENTS} clients", storm.attempts, holding)
            begun = time.monotonic()
            ask(ground.access, _CLIENTS, [_resize(namespace, f"pod-{number}", _SMALL) for number in range(pods)])
            rest = hard * _CPU - pods * _SMALL
            _until_done(ground, lambda number: _processors(namespace, f"rest-{number}", rest))
            room = time.monotonic() - begun
            if any(each.is_done for each in ask(ground.access, 1, [_processors(namespace, "more", _SMALL)])):
                raise ClusterError("a full cap takes more")
            watcher.until_current()
    return closed(found, holding, f"{room:.1f} s (made smaller)")


def relabelled(ground: Ground) -> Outcome:
    """Labels are edited that bring pods under a cap and out of it again.

    Raises:
        ClusterError: something does not come about in time.
    """
    hard, pods, edits = 20, 60, 600
    chance = random.Random(_SEED)  # noqa: S311  # it only has to be the same each time
    of_batch = {"objectSelector": {"matchLabels": _BATCH}}
    with (
        ground.gates(3, [cap("batch", {GPU: str(hard)}, ["storm-*"], pods=of_batch)], "kubernetes", _BOUND),
        ground.namespaces() as (namespace,),
    ):
        holding = Holding(
            Limit(
                hard,
                GPU,
                lambda where, labels: where if where == namespace and _BATCH.items() <= labels.items() else None,
            )
        )
        with Watcher(ground.access, [holding]) as watcher:
            ask(ground.access, 1, creates(namespace, (f"pod-{number}" for number in range(pods))))
            requests = [
                _label(namespace, chance.randrange(pods), is_in=chance.choice((True, False))) for _ in range(edits)
            ]
            attempts = ask(ground.access, _CLIENTS, requests)
            watcher.until_current()
            title = f"{edits} label edits of {pods} pods by {_CLIENTS} clients, into a cap's filter and out of it"
            found = outcome(title, attempts, holding)
            begun = time.monotonic()
            while holding.now(namespace) < hard:
                if time.monotonic() > begun + _BOUND + SLACK:
                    raise ClusterError(f"{holding.now(namespace):g} of {hard} are held in the end")
                ask(ground.access, _CLIENTS, [_label(namespace, number, is_in=True) for number in range(pods)])
                time.sleep(_PAUSE)
            room = time.monotonic() - begun
            watcher.until_current()
    return closed(found, holding, f"{room:.1f} s (taken out)")


def ledger_deleted(ground: Ground) -> Outcome:
    """The ledger is deleted by hand in mid-storm, its finalizer taken off: nothing is promised until it is known anew.

    The namespace is older than the gates, which so do not take its ledger for one that has no past.

    Raises:
        ClusterError: something does not come about in time.
    """
    with ground.namespaces() as (namespace,), ground.gates(3, [_BY_HAND], "kubernetes", _BOUND):
        return _deleted(ground, namespace, "ledger deleted by hand in mid-storm")


def young_ledger_deleted(ground: Ground) -> Outcome:
    """The same, where the gates have just seen the namespace come into being, whose ledger so had no past at first.

    Raises:
        ClusterError: something does not come about in time.
    """
    with ground.gates(3, [_BY_HAND], "kubernetes", _BOUND), ground.namespaces() as (namespace,):
        return _deleted(ground, namespace, "ledger of a namespace made just now deleted by hand in mid-storm")


def _deleted(ground: Ground, namespace: str, title: str) -> Outcome:
    pods = 4 * _HARD
    holding = in_namespace(namespace, _HARD)
    with Watcher(ground.access, [holding]) as watcher:
        ask(ground.access, 1, creates(namespace, ["first"]))
        with Storm(ground.access, _CLIENTS, creates(namespace, (f"pod-{number}" for number in range(pods)))) as storm:
            storm.until_final(pods // 10)
            ground.delete_ledgers(namespace)
        watcher.until_current()
        found = outcome(f"{pods} creates by {_CLIENTS} clients, {title}", storm.attempts, holding)
        if not found.busy:
            found.unmet.append("nobody was told to come again, though a ledger was lost")
        promises = filled_up(ground, namespace, holding, _BOUND + SLACK)
        watcher.until_current()
    return closed(found, holding, f"{promises:.1f} s (promised)")


def _until_done(ground: Ground, request: Callable[[int], Request]) -> None:
    """Ask again and again, each time for another.

    Raises:
        ClusterError: it is refused for too long.
    """
    deadline = time.monotonic() + _BOUND + SLACK
    for number in itertools.count():
        (*_, last) = ask(ground.access, 1, [request(number)])
        if last.is_done:
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"still refused: {last.message}")
        time.sleep(_PAUSE)


def _processors(namespace: str, name: str, thousandths: int) -> Request:
    """Create a pod that can be resized before a node has it."""
    made = pod(name, {"cpu": f"{thousandths}m"})
    made["spec"]["schedulingGates"] = [{"name": "example.com/licence"}]
    return create(namespace, made)


def _resize(namespace: str, name: str, thousandths: int) -> Request:
    cpu = {"cpu": f"{thousandths}m"}
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": cpu, "limits": cpu}}]}}
    return patch(namespace, name, change, "resize")


def _label(namespace: str, number: int, *, is_in: bool) -> Request:
    labels = {name: text if is_in else None for name, text in _BATCH.items()}
    return patch(namespace, f"pod-{number}", {"metadata": {"labels": labels}})
