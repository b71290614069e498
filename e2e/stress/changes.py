"""Changes under existing pods: of the policy, their size, their labels, and the ledger itself."""

import itertools
import random
import time
from collections.abc import Callable

from e2e.errors import ClusterError
from e2e.stress.clients import Request, RequestLoad, send_requests
from e2e.stress.environment import StressEnvironment, policies
from e2e.stress.filling import SLACK, complete_outcome, delete_pods, fill_namespace, track_namespace
from e2e.stress.objects import GPU, cap, create, creates, patch, pod
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.pod_usage import Limit, PodUsage
from e2e.stress.watcher import Watcher

_BOUND = 8.0  # seconds
_CLIENTS = 16
_SEED = 1
_PAUSE = 0.25  # seconds between two tries
_CPU = 1000  # thousandths
_SMALL = 100  # thousandths of a processor
_BATCH = {"tier": "batch"}
_HARD = 200
_BY_HAND = cap("gpus", {GPU: str(_HARD)}, ["stress-*"])


def lower_cap(environment: StressEnvironment) -> Outcome:
    """Lower the cap below the used amount, during the load: from then on nothing more is admitted.

    Raises:
        ClusterError: if something takes too long.
    """
    high, low, pods = 300, 50, 600
    with (
        environment.gates(3, [cap("gpus", {GPU: str(high)}, ["stress-*"])], "kubernetes", _BOUND) as replicas,
        environment.namespaces() as (namespace,),
    ):
        usage = track_namespace(namespace, high)
        with Watcher(environment.access, [usage]) as watcher:
            with RequestLoad(
                environment.access, _CLIENTS, creates(namespace, (f"pod-{number}" for number in range(pods)))
            ) as load:
                load.until_final(2 * low)
                replicas.write_policies(policies([cap("gpus", {GPU: str(low)}, ["stress-*"])]))
                since = time.monotonic()
            watcher.until_current()
            title = f"{pods} creates by {_CLIENTS} clients, cap lowered from {high} to {low} during the load"
            found = compute_outcome(title, load.attempts, usage)
            late = [each for each in load.attempts if each.is_done and each.begun > since]
            if late:
                found.unmet.append(f"{len(late)} pods admitted after the cap was lowered below the used amount")
            usage.limit = track_namespace(namespace, low).limit
            delete_pods(environment, namespace, usage, int(usage.now(namespace)) - low + low // 5)
            deletion_seconds = fill_namespace(environment, namespace, usage, _BOUND + SLACK)
            watcher.until_current()
    return complete_outcome(found, usage, f"{deletion_seconds:.1f} s (deleted)")


def put_cap_back(environment: StressEnvironment) -> Outcome:
    """Remove a cap from the policies and restore it, during the load; another one stays beside it.

    Raises:
        ClusterError: if something takes too long.
    """
    outer, inner, pods = 300, 50, 600
    outside, inside = (cap(name, {GPU: str(hard)}, ["stress-*"]) for name, hard in (("outer", outer), ("inner", inner)))
    with (
        environment.gates(3, [outside, inside], "kubernetes", _BOUND) as replicas,
        environment.namespaces() as (namespace,),
    ):
        usage = track_namespace(namespace, outer)
        with Watcher(environment.access, [usage]) as watcher:
            send_requests(
                environment.access, _CLIENTS, creates(namespace, (f"first-{number}" for number in range(inner // 2)))
            )
            replicas.write_policies(policies([outside]))
            with RequestLoad(
                environment.access, _CLIENTS, creates(namespace, (f"pod-{number}" for number in range(pods)))
            ) as load:
                load.until_final(2 * inner)
                replicas.write_policies(policies([outside, inside]))
                since = time.monotonic()
            watcher.until_current()
            title = (
                f"{pods} creates by {_CLIENTS} clients, a cap of {inner} taken out before and put back during the load"
            )
            found = compute_outcome(f"{title}, beside one of {outer}", load.attempts, usage)
            late = [each for each in load.attempts if each.is_done and each.begun > since]
            if late:
                found.unmet.append(f"{len(late)} pods admitted after an exhausted cap was put back")
            usage.limit = track_namespace(namespace, inner).limit
            delete_pods(environment, namespace, usage, int(usage.now(namespace)) - inner + inner // 5)
            deletion_seconds = fill_namespace(environment, namespace, usage, _BOUND + SLACK)
            watcher.until_current()
    return complete_outcome(found, usage, f"{deletion_seconds:.1f} s (deleted)")


def resize_pods(environment: StressEnvironment) -> Outcome:
    """Make pods larger and smaller at once, under a cap that does not suffice for all.

    Raises:
        ClusterError: if something takes too long.
    """
    hard, pods, resizes = 5, 20, 600
    chance = random.Random(_SEED)  # noqa: S311  # it only has to be the same each time
    with (
        environment.gates(3, [cap("processors", {"requests.cpu": str(hard)}, ["stress-*"])], "kubernetes", _BOUND),
        environment.namespaces() as (namespace,),
    ):
        usage = PodUsage(Limit(hard, "cpu", lambda where, _: where if where == namespace else None))
        with Watcher(environment.access, [usage]) as watcher:
            send_requests(
                environment.access, 1, [_processors(namespace, f"pod-{number}", _SMALL) for number in range(pods)]
            )
            requests = [
                _resize(namespace, f"pod-{chance.randrange(pods)}", _SMALL * chance.randint(1, 8))
                for _ in range(resizes)
            ]
            with RequestLoad(environment.access, _CLIENTS, requests) as load:
                pass
            watcher.until_current()
            found = compute_outcome(f"{resizes} resizes of {pods} pods by {_CLIENTS} clients", load.attempts, usage)
            begun = time.monotonic()
            send_requests(
                environment.access, _CLIENTS, [_resize(namespace, f"pod-{number}", _SMALL) for number in range(pods)]
            )
            rest = hard * _CPU - pods * _SMALL
            _until_done(environment, lambda number: _processors(namespace, f"rest-{number}", rest))
            room = time.monotonic() - begun
            if any(
                each.is_done for each in send_requests(environment.access, 1, [_processors(namespace, "more", _SMALL)])
            ):
                raise ClusterError("a full cap takes more")
            watcher.until_current()
    return complete_outcome(found, usage, f"{room:.1f} s (made smaller)")


def relabel_pods(environment: StressEnvironment) -> Outcome:
    """Edit labels that bring pods under a cap and out of it again.

    Raises:
        ClusterError: if something takes too long.
    """
    hard, pods, edits = 20, 60, 600
    chance = random.Random(_SEED)  # noqa: S311  # it only has to be the same each time
    of_batch = {"objectSelector": {"matchLabels": _BATCH}}
    with (
        environment.gates(3, [cap("batch", {GPU: str(hard)}, ["stress-*"], pods=of_batch)], "kubernetes", _BOUND),
        environment.namespaces() as (namespace,),
    ):
        usage = PodUsage(
            Limit(
                hard,
                GPU,
                lambda where, labels: where if where == namespace and _BATCH.items() <= labels.items() else None,
            )
        )
        with Watcher(environment.access, [usage]) as watcher:
            send_requests(environment.access, 1, creates(namespace, (f"pod-{number}" for number in range(pods))))
            requests = [
                _label(namespace, chance.randrange(pods), is_in=chance.choice((True, False))) for _ in range(edits)
            ]
            attempts = send_requests(environment.access, _CLIENTS, requests)
            watcher.until_current()
            title = f"{edits} label edits of {pods} pods by {_CLIENTS} clients, into a cap's filter and out of it"
            found = compute_outcome(title, attempts, usage)
            begun = time.monotonic()
            while usage.now(namespace) < hard:
                if time.monotonic() > begun + _BOUND + SLACK:
                    raise ClusterError(f"{usage.now(namespace):g} of {hard} are used in the end")
                send_requests(
                    environment.access, _CLIENTS, [_label(namespace, number, is_in=True) for number in range(pods)]
                )
                time.sleep(_PAUSE)
            room = time.monotonic() - begun
            watcher.until_current()
    return complete_outcome(found, usage, f"{room:.1f} s (taken out)")


def delete_ledger(environment: StressEnvironment) -> Outcome:
    """Delete the ledger by hand during the load: nothing is reserved until it is recounted.

    The namespace is older than the gates, so they do not take its ledger for one without a past.

    Raises:
        ClusterError: if something takes too long.
    """
    with environment.namespaces() as (namespace,), environment.gates(3, [_BY_HAND], "kubernetes", _BOUND):
        return _delete_ledger_during(environment, namespace, "ledger deleted by hand during the load")


def delete_young_ledger(environment: StressEnvironment) -> Outcome:
    """Delete the ledger of a namespace that the gates have just seen created, whose ledger had no past at first.

    Raises:
        ClusterError: if something takes too long.
    """
    with environment.gates(3, [_BY_HAND], "kubernetes", _BOUND), environment.namespaces() as (namespace,):
        return _delete_ledger_during(
            environment, namespace, "ledger of a namespace made just now deleted by hand during the load"
        )


def _delete_ledger_during(environment: StressEnvironment, namespace: str, title: str) -> Outcome:
    pods = 4 * _HARD
    usage = track_namespace(namespace, _HARD)
    with Watcher(environment.access, [usage]) as watcher:
        send_requests(environment.access, 1, creates(namespace, ["first"]))
        with RequestLoad(
            environment.access, _CLIENTS, creates(namespace, (f"pod-{number}" for number in range(pods)))
        ) as load:
            load.until_final(pods // 10)
            environment.delete_ledgers(namespace)
        watcher.until_current()
        found = compute_outcome(f"{pods} creates by {_CLIENTS} clients, {title}", load.attempts, usage)
        if not found.busy:
            found.unmet.append("no request was answered with 429, though a ledger was lost")
        reservation_seconds = fill_namespace(environment, namespace, usage, _BOUND + SLACK)
        watcher.until_current()
    return complete_outcome(found, usage, f"{reservation_seconds:.1f} s (reserved)")


def _until_done(environment: StressEnvironment, request: Callable[[int], Request]) -> None:
    """Send requests, each time another one, until one is carried out.

    Raises:
        ClusterError: if they are rejected for too long.
    """
    deadline = time.monotonic() + _BOUND + SLACK
    for number in itertools.count():
        (*_, last) = send_requests(environment.access, 1, [request(number)])
        if last.is_done:
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"still refused: {last.message}")
        time.sleep(_PAUSE)


def _processors(namespace: str, name: str, thousandths: int) -> Request:
    """Return a request for a pod that can be resized before it has a node."""
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
