"""Of two replicas the one that keeps the ledgers goes, one way or another, while clients create pods."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from e2e.installation.tried import WITHIN, logged, pods, readiness
from e2e.kind.cluster import KindCluster
from e2e.load import Answer, Clients, until_more
from e2e.pods import Pod, pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.said import said
from e2e.waiting import until

_OWN = "--namespace=tallygate-system"
_MEANWHILE = 100  # pods that are created before the next step
_GATE = "tallygate"  # the gate's container in its pod
_SERVES = "tallygate serve"  # the gate's process in it


@dataclass(frozen=True, slots=True)
class Heard:
    """What clients hear: until two are ready again, and from then on."""

    meanwhile: list[Answer]
    afterwards: list[Answer]


def until_whole(cluster: Cluster) -> None:
    """Wait until two replicas are ready, and one of them keeps the ledgers.

    Raises:
        ClusterError: it is not so in time; the text has what the gate's pods say.
    """
    whole = [False, True]
    until("one of two keeps", lambda: sorted(_leaders(cluster)) == whole, WITHIN, partial(logged, cluster))


def while_the_leader_goes(site: Site, namespace: str, go: Callable[[str], object]) -> Heard:
    """What clients hear while `go` ends it, by its name, until two are ready again, and some time longer.

    Raises:
        ClusterError: two are not ready again in time.
    """
    cluster = site.cluster
    until_whole(cluster)
    leader = _leader(cluster)
    with Clients(cluster, namespace) as clients, clients.creating(partial(_pod, site)) as answers:
        until_more(answers, _MEANWHILE)
        go(leader)
        until_more(answers, _MEANWHILE)
        until_whole(cluster)
        begun = len(answers)
        until_more(answers, _MEANWHILE)
    return Heard(answers[:begun], answers[begun:])


def delete(cluster: Cluster, *how: str) -> Callable[[str], object]:
    """Lets go of a pod by its name; `how` are more arguments of `kubectl delete`."""
    return lambda name: said(cluster, "delete", "pod", name, _OWN, "--wait=false", *how)


def kill(cluster: Cluster) -> Callable[[str], object]:
    """Kills the gate's process in a pod, by the pod's name, and waits until another runs there and the pod is ready.

    Raises:
        NotHereError: its node is out of reach.
    """
    return partial(_kill, _within_reach(cluster))


def hold_up(cluster: Cluster) -> Callable[[str], object]:
    """Holds the gate's process in a pod up until the kubelet has seen that it hangs; then the pod is ready again.

    The API server waits for an answer for less long: a probe must have failed twice.

    Raises:
        NotHereError: its node is out of reach.
    """
    return partial(_hold_up, _within_reach(cluster))


def _within_reach(cluster: Cluster) -> KindCluster:
    if not isinstance(cluster, KindCluster):
        raise NotHereError("the gate's processes run on a node out of the suite's reach")
    return cluster


def _hold_up(cluster: KindCluster, name: str) -> None:
    found = _read(cluster, name)
    with cluster.node(found["spec"]["nodeName"]).frozen(found["metadata"]["uid"], _SERVES):
        _until_ready(cluster, name, "False")
    _until_ready(cluster, name, "True")


def _until_ready(cluster: Cluster, name: str, so: str) -> None:
    said(cluster, "wait", f"--for=condition=Ready={so}", f"pod/{name}", _OWN, "--timeout=240s")


def _kill(cluster: KindCluster, name: str) -> None:
    before = _read(cluster, name)
    cluster.node(before["spec"]["nodeName"]).kill(before["metadata"]["uid"], _SERVES)

    def is_restarted() -> bool:
        return _restarts(_read(cluster, name)) > _restarts(before)

    until("its container is started again", is_restarted, WITHIN, partial(logged, cluster))
    _until_ready(cluster, name, "True")


def _leaders(cluster: Cluster) -> list[bool]:
    """Of each replica that is ready, whether it keeps the ledgers, as it says itself: a Lease outlives a process."""
    checks = (readiness(cluster, name) for name in pods(cluster))
    return [each["leader-election"]["leader"] for each in checks if each]


def _leader(cluster: Cluster) -> str:
    """The pod that keeps the ledgers."""
    (name,) = (name for name in pods(cluster) if readiness(cluster, name)["leader-election"]["leader"])
    return name


def _pod(site: Site, _: int) -> Pod:
    return pod(site, f"p-{uuid4().hex}", "0")


def _read(cluster: Cluster, name: str) -> Pod:
    found: Pod = json.loads(said(cluster, "get", "pod", name, _OWN, "--output=json"))
    return found


def _restarts(found: Pod) -> int:
    (gate,) = (each for each in found["status"]["containerStatuses"] if each["name"] == _GATE)
    number: int = gate["restartCount"]
    return number
