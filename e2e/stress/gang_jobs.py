"""Jobs and JobSets of eight pods that start together, by many clients under one cap that admits them as a whole."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from e2e.api import api
from e2e.errors import ClusterError
from e2e.registering import CONFIGURATIONS
from e2e.stress.clients import Attempt, Request, RequestLoad, send_requests
from e2e.stress.environment import StressEnvironment
from e2e.stress.faults import KILLED
from e2e.stress.filling import complete_outcome
from e2e.stress.objects import GPU, cap, pod
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.pod_usage import Limit, PodUsage
from e2e.stress.watcher import Watcher
from e2e.workload_kinds.controllers.projects import JOBSET
from e2e.workload_kinds.controllers.running import run_controller
from tallygate.admission.workload_resources import WorkloadResource, select_resources
from tallygate.policy.known_kinds import KNOWN_KINDS

_BOUND = 8.0  # seconds
_HARD, _GANG, _CLIENTS, _ROUNDS, _JOBS = 20, 8, 16, 4, 32
_QUIET_SECONDS = 150.0  # the longest time until the rest of a reservation that no pod takes over is free, and a round
_PAUSE = 0.5
_JOBS_OF_SET = 2


@dataclass(frozen=True)
class _GangKind:
    """A kind of workloads of eight pods: its path, its resource for kubectl, and the label of its pods.

    `create_spec` returns the spec of one, given that of its pods; `registered` are its resources if it is not built in.
    """

    kind: str
    version: str
    resource: str
    label: str
    create_spec: Callable[[dict[str, Any]], dict[str, Any]]
    registered: tuple[WorkloadResource, ...] = ()


def _create_job_spec(pod_spec: dict[str, Any], pods: int = _GANG) -> dict[str, Any]:
    return {"parallelism": pods, "completions": pods, "template": {"spec": {**pod_spec, "restartPolicy": "Never"}}}


def _create_job_set_spec(pod_spec: dict[str, Any]) -> dict[str, Any]:
    job = {"spec": _create_job_spec(pod_spec, _GANG // _JOBS_OF_SET)}
    return {"replicatedJobs": [{"name": "workers", "replicas": _JOBS_OF_SET, "template": job}]}


_KIND_OF_JOBS = _GangKind("Job", "batch/v1", "jobs", "batch.kubernetes.io/job-name", _create_job_spec)
_KIND_OF_JOB_SETS = _GangKind(
    "JobSet",
    "jobset.x-k8s.io/v1alpha2",
    "jobsets",
    "jobset.sigs.k8s.io/jobset-name",
    _create_job_set_spec,
    select_resources(KNOWN_KINDS, {("jobset.x-k8s.io", "v1alpha2", "jobsets"): True}),
)


def admit_job_sets(environment: StressEnvironment) -> Outcome:
    """Do as `admit_gangs` with JobSets of two Jobs of four pods each, and the controller of their project.

    Raises:
        ClusterError: if something takes too long.
    """
    client = api(environment.cluster.kubeconfig)
    with ExitStack() as ends:
        for kind, name in (JOBSET.webhooks.configurations if JOBSET.webhooks is not None else {}).items():
            ends.callback(client.delete, f"{CONFIGURATIONS[kind].rpartition('/')[0]}/{name}")
        run_controller(JOBSET, environment.cluster, ends)
        return admit_gangs(environment, _KIND_OF_JOB_SETS)


def admit_gangs(environment: StressEnvironment, kind: _GangKind = _KIND_OF_JOBS) -> Outcome:
    """Create more workloads than a cap allows, kill a gate meanwhile, and delete some; no half gang remains.

    Raises:
        ClusterError: if something takes too long.
    """
    document = cap("gangs", {GPU: str(_HARD)}, ["stress-*"], admit="whole")
    unmet: list[str] = []
    attempts: list[Attempt] = []
    with (
        environment.gates(3, [document], "kubernetes", _BOUND, workload_resources=kind.registered) as replicas,
        environment.namespaces() as (namespace,),
    ):
        usage = PodUsage(Limit(_HARD, GPU, lambda at, _: at))
        with Watcher(environment.access, [usage]) as watcher:
            for number in range(_ROUNDS):
                requests = [_create(kind, namespace, f"gang-{number}-{index}") for index in range(_JOBS)]
                with RequestLoad(environment.access, _CLIENTS, requests) as load:
                    load.until_final(_CLIENTS)
                    if number == 1:
                        KILLED.happens(environment, replicas)
                attempts += load.attempts
                unmet += _await_whole_gangs(environment, kind, namespace, number)
                found = _count_pods(environment, kind, namespace)
                if sum(found.values()) != _HARD // _GANG * _GANG:
                    unmet.append(f"round {number}: {dict(found)} in place of {_HARD // _GANG} whole gangs")
                _delete_gangs(environment, kind, namespace)
                watcher.until_current()
            title = f"{_ROUNDS * _JOBS} {kind.kind}s of {_GANG} pods by {_CLIENTS} clients, {KILLED.title}"
            outcome = compute_outcome(title, attempts, usage)
            outcome.stored = sum(each.is_done for each in attempts)
            begun = time.monotonic()
            _fill(environment, kind, namespace)
            room = f"{time.monotonic() - begun:.1f} s (two whole gangs)"
            watcher.until_current()
    outcome = complete_outcome(outcome, usage, room)
    outcome.unmet += unmet
    return outcome


def _create(kind: _GangKind, namespace: str, name: str) -> Request:
    body = {
        "apiVersion": kind.version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "spec": kind.create_spec(pod(name, {GPU: "1"})["spec"]),
    }
    path = f"/apis/{kind.version}/namespaces/{namespace}/{kind.resource}"
    return Request(name, "POST", path, json.dumps(body).encode())


def _list_gangs(environment: StressEnvironment, kind: _GangKind, namespace: str) -> list[dict[str, Any]]:
    listed = json.loads(environment.kubectl("get", kind.resource, f"--namespace={namespace}", "--output=json"))
    gangs: list[dict[str, Any]] = listed["items"]
    return gangs


def _count_pods(environment: StressEnvironment, kind: _GangKind, namespace: str) -> Mapping[str, int]:
    """Return the number of pods of each workload that is stored, also of one without any."""
    listed = json.loads(environment.kubectl("get", "pods", f"--namespace={namespace}", "--output=json"))
    labels = (each["metadata"].get("labels", {}) for each in listed["items"])
    found = Counter(each.get(kind.label, "") for each in labels)
    names = [each["metadata"]["name"] for each in _list_gangs(environment, kind, namespace)]
    return {name: found[name] for name in names}


def _await_whole_gangs(environment: StressEnvironment, kind: _GangKind, namespace: str, number: int) -> list[str]:
    """Return the half gangs that remain once nothing changes any more; none if all are whole before that."""
    deadline = time.monotonic() + _QUIET_SECONDS
    while halves := {
        name: count for name, count in _count_pods(environment, kind, namespace).items() if count != _GANG
    }:
        if time.monotonic() > deadline:
            return [f"round {number}: {name} has {count} of {_GANG} pods" for name, count in halves.items()]
        time.sleep(_PAUSE)
    return []


def _delete_gangs(environment: StressEnvironment, kind: _GangKind, namespace: str) -> None:
    """Delete all workloads with their pods."""
    environment.kubectl(
        "delete", kind.resource, "--all", "--cascade=foreground", f"--namespace={namespace}", "--timeout=120s"
    )
    environment.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", f"--namespace={namespace}")


def _fill(environment: StressEnvironment, kind: _GangKind, namespace: str) -> None:
    """Create workloads until two whole gangs are stored again.

    Raises:
        ClusterError: if that takes too long.
    """
    begun, number = time.monotonic(), 0
    while sum(_count_pods(environment, kind, namespace).values()) < _HARD // _GANG * _GANG:
        if time.monotonic() > begun + _QUIET_SECONDS:
            raise ClusterError(f"no two whole gangs after {_QUIET_SECONDS:.0f} s")
        if len(_list_gangs(environment, kind, namespace)) < _HARD // _GANG:
            send_requests(environment.access, 1, [_create(kind, namespace, f"rest-{number}")])
            number += 1
        time.sleep(_PAUSE)
