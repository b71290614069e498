"""Controllers of pods: Deployments with a ReplicaSet for each revision, other ReplicaSets, StatefulSets, DaemonSets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.gate.simulation.cluster_objects import Owner, Pod

MAX_SURGE = 2
"""The pods that a Deployment creates beyond its size."""
_PLURALS = {
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "LeaderWorkerSet": "leaderworkersets",
}


class Deployment(NamedTuple):
    """A stored Deployment of `size` pods of one GPU. It creates no new pods while it `is_paused`."""

    uid: str
    namespace: str
    name: str
    size: int
    template: int = 1
    is_paused: bool = False

    @property
    def owner(self) -> Owner:
        """The controller in the owner references of its ReplicaSets."""
        return Owner("Deployment", self.name, self.uid)

    @property
    def set_name(self) -> str:
        """The name of the ReplicaSet of its newest revision: the same one for the same template."""
        return f"{self.name}-{self.template}"


class PodSet(NamedTuple):
    """A stored controller of pods, or the LeaderWorkerSet of one; `parent` is its own controller."""

    namespace: str
    owner: Owner
    parent: Owner | None

    def to_object(self) -> dict[str, Any]:
        """Return it as the API server sends it."""
        metadata: dict[str, Any] = {"name": self.owner.name, "namespace": self.namespace, "uid": self.owner.uid}
        if self.parent is not None:
            metadata["ownerReferences"] = [self.parent.to_reference()]
        return {"metadata": metadata}


@dataclass
class RolloutObjects:
    """The stored Deployments by UID, and the stored controllers of pods by plural, namespace and name.

    Deployments may be deleted with their ReplicaSets, and others created under the same names.
    """

    deployments: dict[str, Deployment] = field(default_factory=dict)
    sets: dict[tuple[str, str, str], PodSet] = field(default_factory=dict)
    _workloads: dict[tuple[str, Owner], str] = field(default_factory=dict)

    def put_set(self, pod_set: PodSet) -> None:
        """Store a controller of pods."""
        owner = pod_set.owner
        self.sets[_PLURALS[owner.kind], pod_set.namespace, owner.name] = pod_set
        workload = owner if owner.kind == "DaemonSet" else pod_set.parent
        if workload is not None:
            self._workloads[pod_set.namespace, owner._replace(template="")] = workload.uid

    def find_set(self, kind: str, namespace: str, name: str) -> PodSet | None:
        """Return the stored controller of pods with a kind and a name, or None."""
        return self.sets.get((_PLURALS[kind], namespace, name))

    def delete_deployment(self, uid: str) -> None:
        """Delete a Deployment with its ReplicaSets; its pods remain until users delete them."""
        deployment = self.deployments.pop(uid)
        for key, pod_set in list(self.sets.items()):
            if pod_set.parent == deployment.owner:
                del self.sets[key]

    def delete_namespace(self, namespace: str) -> None:
        """Delete the controllers in a namespace."""
        self.deployments = {uid: each for uid, each in self.deployments.items() if each.namespace != namespace}
        self.sets = {key: each for key, each in self.sets.items() if each.namespace != namespace}

    def find_newest_set(self, deployment: Deployment) -> PodSet | None:
        """Return the ReplicaSet of the newest revision of a Deployment, or None before it is created."""
        return self.find_set("ReplicaSet", deployment.namespace, deployment.set_name)

    def list_pods(self, deployment: Deployment, pods: Mapping[str, Pod]) -> Iterator[Pod]:
        """Yield those of these pods that belong to a Deployment and have not ended."""
        for pod in pods.values():
            if pod.used and pod.namespace == deployment.namespace and self._find_workload(pod) == deployment.uid:
                yield pod

    def _find_workload(self, pod: Pod) -> str:
        """Return the UID of the Deployment, DaemonSet or LeaderWorkerSet of a pod.

        It is empty if its owner reference was never true: name, UID and controller of an object never change.
        """
        return "" if pod.owner is None else self._workloads.get((pod.namespace, pod.owner._replace(template="")), "")

    def may_roll(self, pod: Pod, pods: Mapping[str, Pod]) -> bool:
        """Return whether one of these pods is of another revision of the workload of a pod."""
        workload = self._find_workload(pod)
        if not workload:
            return False
        others = (each for each in pods.values() if each.used and each.namespace == pod.namespace)
        return any(self._find_workload(each) == workload and each.owner != pod.owner for each in others)
