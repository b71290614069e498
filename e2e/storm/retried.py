"""Controllers that try again and again under a full cap: what that costs the API server in calls about ledgers."""

import re
import time
from collections import Counter
from contextlib import closing

from e2e.bench.client import Client
from e2e.storm.filling import in_namespace
from e2e.storm.ground import Ground
from e2e.storm.objects import GPU, cap, pod
from e2e.storm.outcome import Outcome
from e2e.storm.watcher import Watcher
from e2e.waiting import until

_HARD, _SETS, _EACH, _SECONDS, _WITHIN = 10, 30, 10, 20.0, 60.0
_COUNTED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_FORBIDDEN = "403"


def retried(ground: Ground) -> Outcome:
    """ReplicaSets want thirty times what a cap has room for, for twenty seconds.

    Raises:
        ClusterError: something does not come about in time.
    """
    with (
        ground.gates(3, [cap("gpus", {GPU: str(_HARD)}, ["storm-*"])], "kubernetes", 8.0),
        ground.namespaces() as (namespace,),
        closing(Client(ground.access)) as client,
    ):
        holding = in_namespace(namespace, _HARD)
        with Watcher(ground.access, [holding]) as watcher:
            before, begun = _requests(client), time.monotonic()
            ground.apply([_replica_set(namespace, f"set-{number}") for number in range(_SETS)])
            until("the cap is full", lambda: holding.now(namespace) == _HARD, _WITHIN)
            time.sleep(_SECONDS)
            calls, seconds = _requests(client) - before, time.monotonic() - begun
            watcher.until_current()
            stored = len(holding.uids())
    refused = calls["pods", "POST", _FORBIDDEN]
    ledgers = sum(times for (resource, _, _), times in calls.items() if resource == "capledgers")
    found = Outcome(
        f"{_SETS} ReplicaSets of {_EACH} pods each under a full cap: {ledgers} calls about ledgers",
        seconds=seconds,
        stored=stored,
        refused=refused,
        busy=calls["pods", "POST", "429"],
        errors=Counter({"500": times} if (times := calls["pods", "POST", "500"]) else {}),
        most=holding.most,
        hard=_HARD,
    )
    if ledgers > 2 * (refused + stored):
        found.unmet.append(f"{ledgers} calls about ledgers for {stored} pods stored and {refused} refused")
    return found


def _requests(client: Client) -> Counter[tuple[str, str, str]]:
    """How many requests the API server has answered, by resource, verb and status."""
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
