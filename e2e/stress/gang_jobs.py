"""Jobs of eight pods that start together, by many clients under one cap that admits them as a whole."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from e2e.errors import ClusterError
from e2e.stress.clients import Attempt, Request, RequestLoad, send_requests
from e2e.stress.environment import StressEnvironment
from e2e.stress.faults import KILLED
from e2e.stress.filling import complete_outcome
from e2e.stress.objects import GPU, cap, pod
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.pod_usage import Limit, PodUsage
from e2e.stress.watcher import Watcher

_BOUND = 8.0  # seconds
_HARD, _GANG, _CLIENTS, _ROUNDS, _JOBS = 20, 8, 16, 4, 32
_QUIET_SECONDS = 150.0  # the longest time until the rest of a reservation that no pod takes over is free, and a round
_PAUSE = 0.5


def admit_gangs(environment: StressEnvironment) -> Outcome:
    """Create more Jobs than a cap allows, kill a gate meanwhile, and delete some; no half gang remains.

    Raises:
        ClusterError: if something takes too long.
    """
    document = cap("gangs", {GPU: str(_HARD)}, ["stress-*"], admit="whole")
    unmet: list[str] = []
    attempts: list[Attempt] = []
    with environment.gates(3, [document], "kubernetes", _BOUND) as replicas, environment.namespaces() as (namespace,):
        usage = PodUsage(Limit(_HARD, GPU, lambda at, _: at))
        with Watcher(environment.access, [usage]) as watcher:
            for number in range(_ROUNDS):
                requests = [_create(namespace, f"gang-{number}-{index}") for index in range(_JOBS)]
                with RequestLoad(environment.access, _CLIENTS, requests) as load:
                    load.until_final(_CLIENTS)
                    if number == 1:
                        KILLED.happens(environment, replicas)
                attempts += load.attempts
                unmet += _await_whole_gangs(environment, namespace, number)
                found = _count_pods(environment, namespace)
                if sum(found.values()) != _HARD // _GANG * _GANG:
                    unmet.append(f"round {number}: {dict(found)} in place of {_HARD // _GANG} whole gangs")
                _delete_jobs(environment, namespace)
                watcher.until_current()
            title = f"{_ROUNDS * _JOBS} Jobs of {_GANG} pods by {_CLIENTS} clients, {KILLED.title}"
            outcome = compute_outcome(title, attempts, usage)
            outcome.stored = sum(each.is_done for each in attempts)
            begun = time.monotonic()
            _fill(environment, namespace)
            room = f"{time.monotonic() - begun:.1f} s (two whole gangs)"
            watcher.until_current()
    outcome = complete_outcome(outcome, usage, room)
    outcome.unmet += unmet
    return outcome


def _create(namespace: str, name: str) -> Request:
    template = pod(name, {GPU: "1"})
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": _GANG,
            "completions": _GANG,
            "template": {"spec": {**template["spec"], "restartPolicy": "Never"}},
        },
    }
    return Request(name, "POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", json.dumps(body).encode())


def _list_jobs(environment: StressEnvironment, namespace: str) -> list[dict[str, Any]]:
    listed = json.loads(environment.kubectl("get", "jobs", f"--namespace={namespace}", "--output=json"))
    jobs: list[dict[str, Any]] = listed["items"]
    return jobs


def _count_pods(environment: StressEnvironment, namespace: str) -> Mapping[str, int]:
    """Return the number of pods of each Job that is stored, also of one without any."""
    listed = json.loads(environment.kubectl("get", "pods", f"--namespace={namespace}", "--output=json"))
    labels = (each["metadata"].get("labels", {}) for each in listed["items"])
    found = Counter(each.get("batch.kubernetes.io/job-name", "") for each in labels)
    return {job["metadata"]["name"]: found[job["metadata"]["name"]] for job in _list_jobs(environment, namespace)}


def _await_whole_gangs(environment: StressEnvironment, namespace: str, number: int) -> list[str]:
    """Return the half gangs that remain once nothing changes any more; none if all are whole before that."""
    deadline = time.monotonic() + _QUIET_SECONDS
    while halves := {name: count for name, count in _count_pods(environment, namespace).items() if count != _GANG}:
        if time.monotonic() > deadline:
            return [f"round {number}: {name} has {count} of {_GANG} pods" for name, count in halves.items()]
        time.sleep(_PAUSE)
    return []


def _delete_jobs(environment: StressEnvironment, namespace: str) -> None:
    """Delete all Jobs with their pods."""
    environment.kubectl("delete", "jobs", "--all", "--cascade=foreground", f"--namespace={namespace}", "--timeout=120s")
    environment.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", f"--namespace={namespace}")


def _fill(environment: StressEnvironment, namespace: str) -> None:
    """Create Jobs until two whole gangs are stored again.

    Raises:
        ClusterError: if that takes too long.
    """
    begun, number = time.monotonic(), 0
    while sum(_count_pods(environment, namespace).values()) < _HARD // _GANG * _GANG:
        if time.monotonic() > begun + _QUIET_SECONDS:
            raise ClusterError(f"no two whole gangs after {_QUIET_SECONDS:.0f} s")
        if len(_list_jobs(environment, namespace)) < _HARD // _GANG:
            send_requests(environment.access, 1, [_create(namespace, f"rest-{number}")])
            number += 1
        time.sleep(_PAUSE)
