"""The loss of the leader, one of two replicas, while clients create pods."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from e2e.command_output import run_kubectl
from e2e.installation.installed_checks import WITHIN, list_gate_pods, read_checks, read_logs
from e2e.kind.cluster import KindCluster
from e2e.load import Answer, Clients, until_more
from e2e.pods import Pod, pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.waiting import until

_OWN = "--namespace=tallygate-system"
_MEANWHILE = 100  # pods that are created before the next step
_GATE = "tallygate"  # the gate's container in its pod
_SERVES = "tallygate serve"  # the gate's process in it


@dataclass(frozen=True, slots=True)
class ClientAnswers:
    """The answers to clients: until two replicas are ready again, and after that."""

    during: list[Answer]
    after: list[Answer]


def until_replicas_ready(cluster: Cluster) -> None:
    """Wait until two replicas are ready, and one of them is the leader.

    Raises:
        ClusterError: if it takes too long; the text has what the gate's pods say.
    """
    whole = [False, True]
    until("one of two is the leader", lambda: sorted(_leaders(cluster)) == whole, WITHIN, partial(read_logs, cluster))


def record_answers_during(site: Site, namespace: str, go: Callable[[str], object]) -> ClientAnswers:
    """Record the answers to clients while `go` ends the leader, until two are ready again, and some time longer.

    Raises:
        ClusterError: if two are not ready again in time.
    """
    cluster = site.cluster
    until_replicas_ready(cluster)
    leader = _leader(cluster)
    with Clients(cluster, namespace) as clients, clients.creating(partial(_pod, site)) as answers:
        until_more(answers, _MEANWHILE)
        go(leader)
        until_more(answers, _MEANWHILE)
        until_replicas_ready(cluster)
        begun = len(answers)
        until_more(answers, _MEANWHILE)
    return ClientAnswers(answers[:begun], answers[begun:])


def delete_pod(cluster: Cluster, *how: str) -> Callable[[str], object]:
    """Return a function that deletes a pod by its name; `how` are further arguments of `kubectl delete`."""
    return lambda name: run_kubectl(cluster, "delete", "pod", name, _OWN, "--wait=false", *how)


def kill_process(cluster: Cluster) -> Callable[[str], object]:
    """Return a function that kills the gate's process in a pod, and waits until the pod is ready again.

    Raises:
        NotHereError: if its node is out of reach.
    """
    return partial(_kill_process, _require_kind(cluster))


def freeze_process(cluster: Cluster) -> Callable[[str], object]:
    """Return a function that freezes the gate's process in a pod until the kubelet has noticed.

    The API server's timeout is shorter: a probe must have failed twice.

    Raises:
        NotHereError: if its node is out of reach.
    """
    return partial(_freeze_process, _require_kind(cluster))


def _require_kind(cluster: Cluster) -> KindCluster:
    if not isinstance(cluster, KindCluster):
        raise NotHereError("the gate's processes run on a node out of the suite's reach")
    return cluster


def _freeze_process(cluster: KindCluster, name: str) -> None:
    found = _read(cluster, name)
    with cluster.node(found["spec"]["nodeName"]).freeze(found["metadata"]["uid"], _SERVES):
        _until_ready(cluster, name, "False")
    _until_ready(cluster, name, "True")


def _until_ready(cluster: Cluster, name: str, so: str) -> None:
    run_kubectl(cluster, "wait", f"--for=condition=Ready={so}", f"pod/{name}", _OWN, "--timeout=240s")


def _kill_process(cluster: KindCluster, name: str) -> None:
    before = _read(cluster, name)
    cluster.node(before["spec"]["nodeName"]).kill(before["metadata"]["uid"], _SERVES)

    def is_restarted() -> bool:
        return _restarts(_read(cluster, name)) > _restarts(before)

    until("its container is started again", is_restarted, WITHIN, partial(read_logs, cluster))
    _until_ready(cluster, name, "True")


def _leaders(cluster: Cluster) -> list[bool]:
    """Return whether each ready replica is the leader, as it reports itself: a Lease outlives a process."""
    checks = (read_checks(cluster, name) for name in list_gate_pods(cluster))
    return [each["leader-election"]["leader"] for each in checks if each]


def _leader(cluster: Cluster) -> str:
    """Return the pod of the leader."""
    (name,) = (name for name in list_gate_pods(cluster) if read_checks(cluster, name)["leader-election"]["leader"])
    return name


def _pod(site: Site, _: int) -> Pod:
    return pod(site, f"p-{uuid4().hex}", "0")


def _read(cluster: Cluster, name: str) -> Pod:
    found: Pod = json.loads(run_kubectl(cluster, "get", "pod", name, _OWN, "--output=json"))
    return found


def _restarts(found: Pod) -> int:
    (gate,) = (each for each in found["status"]["containerStatuses"] if each["name"] == _GATE)
    number: int = gate["restartCount"]
    return number
