"""Controllers that retry under a full cap: the number of calls about ledgers that it costs the API server."""

import re
import time
from collections import Counter
from contextlib import closing

from e2e.bench.client import Client
from e2e.stress.environment import StressEnvironment
from e2e.stress.filling import track_namespace
from e2e.stress.objects import GPU, cap, pod
from e2e.stress.outcome import Outcome
from e2e.stress.pod_usage import Usage
from e2e.stress.watcher import Watcher
from e2e.waiting import until

_HARD, _SETS, _EACH, _SECONDS, _WITHIN = 10, 30, 10, 20.0, 60.0
_COUNTED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)


def retry_replica_sets(environment: StressEnvironment) -> Outcome:
    """Run ReplicaSets that want thirty times what a cap allows, for twenty seconds.

    Raises:
        ClusterError: if something takes too long.
    """
    with (
        environment.gates(3, [cap("gpus", {GPU: str(_HARD)}, ["stress-*"])], "kubernetes", 8.0),
        environment.namespaces() as (namespace,),
        closing(Client(environment.access)) as client,
    ):
        usage = track_namespace(namespace, _HARD)
        with Watcher(environment.access, [usage]) as watcher:
            before, begun = count_requests(client), time.monotonic()
            environment.apply([_replica_set(namespace, f"set-{number}") for number in range(_SETS)])
            until("the cap is full", lambda: usage.now(namespace) == _HARD, _WITHIN)
            time.sleep(_SECONDS)
            calls, seconds = count_requests(client) - before, time.monotonic() - begun
            watcher.until_current()
            stored = len(usage.list_uids())
    title = f"{_SETS} ReplicaSets of {_EACH} pods each under a full cap"
    found, ledgers = compute_retries(title, calls, "pods", seconds, stored, usage)
    if ledgers > 2 * (found.refused + stored):
        found.unmet.append(f"{ledgers} calls about ledgers for {stored} pods stored and {found.refused} refused")
    return found


def compute_retries(  # noqa: PLR0913, PLR0917  # the figures of one test
    title: str, calls: Counter[tuple[str, str, str]], resource: str, seconds: float, stored: int, usage: Usage
) -> tuple[Outcome, int]:
    """Return the outcome of a controller that creates one resource, and the number of calls about ledgers."""
    ledgers = sum(times for (each, _, _), times in calls.items() if each == "capledgers")
    outcome = Outcome(
        f"{title}: {ledgers} calls about ledgers",
        seconds=seconds,
        stored=stored,
        refused=calls[resource, "POST", "403"],
        busy=calls[resource, "POST", "429"],
        errors=Counter({"500": times} if (times := calls[resource, "POST", "500"]) else {}),
        peak=usage.peak,
        hard=usage.limit.hard,
    )
    return outcome, ledgers


def count_requests(client: Client) -> Counter[tuple[str, str, str]]:
    """Return the number of requests that the API server has answered, by resource, verb and status."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for labels, times in _COUNTED.findall(client.read("/metrics")):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        counted[named["resource"], named["verb"], named["code"]] += int(float(times))
    return counted


def _replica_set(namespace: str, name: str) -> dict[str, object]:
    labels = {"app": name}
    made = pod(name, {GPU: "1"}, labels)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": _EACH,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": made["spec"]},
        },
    }
