"""The pods of objects that are read from files, with those of the same objects that the cluster has already."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.pod_view import PodView, ReplicaCount
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import CLAIMS, SLICES
from tallygate.objects.devices import ResourceClaim
from tallygate.review.applied_workload import ForecastWorkload, multiply, sum_pod_sets
from tallygate.review.cap_charge import CapCharge
from tallygate.review.claim_forecast import PodClaims
from tallygate.review.quota_forecast import NO_EXPECTED_CLAIMS, ExpectedClaims
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.pod_records import ChargeGroup


class StoredPods(NamedTuple):
    """The number of the stored pods of one template of an object, and the claims that templates made for them.

    `groups` has the number of those that have not ended, by their amounts.
    """

    pod_count: int = 0
    groups: Mapping[ChargeGroup, int] = MappingProxyType({})
    claims: tuple[ResourceClaim, ...] = ()

    def compute_used(self, cap: ActiveCap, claims: PodClaims) -> Amounts:
        """Return what a cap counts for them; `claims` are those of a further pod.

        If the latter are unknown, the increase is unknown too, so both are without claims.
        """
        pods = (multiply(cap.compute_charge(group.to_pod()).amounts, count) for group, count in self.groups.items())
        owned = NO_AMOUNTS if claims.unknown else PodClaims(self.claims).compute_charge(cap)
        return sum(pods, owned)


class PlannedState:
    """The state of a cluster to which the objects of files are applied.

    `count` is the number of pods of each template, in place of that in the objects.
    """

    def __init__(self, state: ClusterState, count: int | None = None) -> None:
        self.state = state
        self.count = count
        self.has_devices = state.knows(SLICES) and state.knows(CLAIMS)
        self._pods: dict[str, Sequence[tuple[StoredConsumer, Mapping[str, str]]]] = {}
        self._found: tuple[object, StoredPods] = (None, StoredPods())

    def find_pods(self, namespace: str, name: str, view: PodView) -> StoredPods:
        """Return the stored pods of an object: the pod itself, or all pods with the labels of the template."""
        labels = (view.pod.metadata.labels if view.pod.metadata else None) or {}
        key = namespace, frozenset(labels.items()) if view.is_template else name
        if self._found[0] != key:  # several steps of one object ask for the same pods
            pods = [
                pod
                for pod, own in self._list_pods(namespace)
                if (labels and labels.items() <= own.items() if view.is_template else pod.name == name)
            ]
            claims = [claim for pod in pods for claim in self.state.list_template_claims(pod.uid)]
            groups = Counter(pod.group for pod in pods if not pod.has_ended)
            self._found = key, StoredPods(len(pods), groups, tuple(claims))
        return self._found[1]

    def _list_pods(self, namespace: str) -> Sequence[tuple[StoredConsumer, Mapping[str, str]]]:
        """Return the stored pods of a namespace with their labels."""
        if namespace not in self._pods:
            pods = self.state.pods.list_all(namespace)
            self._pods[namespace] = [(pod, self.state.read_labels(pod)) for pod in pods]
        return self._pods[namespace]


@dataclass(frozen=True, slots=True)
class PlannedPods:
    """All pods of an object, those of each template that are stored, and the caps over them.

    `has_room` tells whether no forecast finds too little room for all of them. If they `start_together`, none is
    charged without the others. `claims` are those that are made for a single pod.
    """

    workload: ForecastWorkload
    stored: tuple[StoredPods, ...]
    caps: Sequence[ActiveCap]
    has_room: bool = True
    starts_together: bool = False
    claims: ExpectedClaims = NO_EXPECTED_CLAIMS

    @property
    def stored_counts(self) -> tuple[int, ...]:
        """The number of the pods of each template that are stored."""
        pod_sets = zip(self.stored, self.workload.pod_sets, strict=True)
        return tuple(min(stored.pod_count, pods.replicas.count) for stored, pods in pod_sets)

    def charge(self, workload: ForecastWorkload, cap: ActiveCap) -> CapCharge:
        """Return the charge of these pods of the object with their claims, and what the cap counts for the stored."""
        current = NO_AMOUNTS
        requested: list[tuple[ReplicaCount, Amounts]] = []
        for pods, stored in zip(workload.pod_sets, self.stored, strict=True):
            current += stored.compute_used(cap, pods.claims)
            amounts = cap.compute_charge(pods.template).amounts + pods.claims.compute_charge(cap)
            requested.append((pods.replicas, amounts))
        pods, *others = workload.pod_sets
        is_one_pod = pods.replicas.count == 1 and not (others or pods.kinds_of_claims)
        explained = pods.template if cap.derived and is_one_pod else None
        amounts = sum_pod_sets(requested) + workload.sum_shared(cap)
        return CapCharge(cap, current, amounts, may_exceed=False, pod=explained)
