"""Placement of copies of a pod, one after the other, as the scheduler would place them.

Copies without constraints on each other use requested amounts and nothing else, so that the free amounts of each node
give the number of copies. All other copies are placed one by one on the cluster itself, and removed at the end; each
placement evaluates again only the plugins whose result may have changed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import NodeIndices
from webhook.accounting.cluster.inter_pod_terms import merge_label_keys
from webhook.accounting.cluster.pod_info import PodInfo, list_scheduling_volumes
from webhook.accounting.scheduling.filters import FILTERS, INTER_POD_PLUGINS, Diagnosis, run_filters, select_feasible
from webhook.accounting.scheduling.incoming_pod import IncomingPod, with_resolved_priority
from webhook.accounting.scheduling.plugins.node_affinity import list_named_nodes
from webhook.accounting.scheduling.plugins.node_resources_fit import mask_device_backed
from webhook.accounting.scheduling.scoring import (
    DEFAULT_SCORING,
    ExactIntegerArray,
    ScoreLookahead,
    Scoring,
    score_nodes,
)
from webhook.objects.scheduling import SchedulingPod

_PODS = "pods"
_DO_NOT_SCHEDULE = "DoNotSchedule"
_INT64_LIMIT = 1 << 62  # a request may exceed 64 bits where the numbers of the columns do not


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """The node index of each copy in turn, and the diagnosis of the first copy that fits no node, None without one."""

    nodes: tuple[int, ...]
    diagnosis: Diagnosis | None


def place_copies(pod: SchedulingPod, cluster: Cluster, count: int) -> PlacementResult:
    """Place up to `count` copies of a pod, each on the node with the highest score, and remove them at the end.

    Raises:
        QuantityError: if a request is invalid.
    """
    with open_placement_session(cluster) as session:
        nodes = session.place(pod, count)
        return PlacementResult(nodes, None if len(nodes) == count else run_filters(IncomingPod.from_pod(pod), cluster))


def count_placeable(pod: SchedulingPod, cluster: Cluster) -> int:
    """Return the number of copies of a pod that fit. The cluster is unchanged afterwards.

    Raises:
        QuantityError: if a request is invalid.
    """
    incoming = IncomingPod.from_pod(with_resolved_priority(pod, cluster.priority_classes))
    if is_independent(incoming):
        return int(sum(count_max_copies(incoming, cluster, run_filters(incoming, cluster).feasible)))
    return len(place_copies(pod, cluster, count_max_pods(cluster)).nodes)


def is_independent(pod: IncomingPod) -> bool:
    """Return whether copies of a pod compete only for the resources and ports of a node."""
    affinity, spec = pod.spec.affinity, pod.spec
    has_hard_spread = any(
        each.when_unsatisfiable == _DO_NOT_SCHEDULE for each in spec.topology_spread_constraints or ()
    )
    has_pod_affinity = affinity is not None and (
        affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
    )
    return not (has_hard_spread or has_pod_affinity or list_scheduling_volumes(spec))


def count_max_copies(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> ExactIntegerArray:
    """Return the number of copies that fit on each of these nodes, which must be feasible for one."""
    copies = get_free_amounts(cluster, nodes, _PODS)
    if pod.ports:
        copies = np.minimum(copies, 1)
    for name, requested in pod.requests.items():
        is_limited = ~mask_device_backed(cluster, nodes, name)
        free = get_free_amounts(cluster, nodes, name)
        quotient = free // requested if requested < _INT64_LIMIT else free.astype(object) // requested
        copies = np.where(is_limited, np.minimum(copies, quotient), copies)
    for node_index, nominated in cluster.get_nominated_pods().items():
        positions = np.flatnonzero(nodes == node_index)
        nominated_pods = [
            each for each in nominated.values() if each.group.priority >= pod.priority and each.uid != pod.uid
        ]
        if len(positions) and nominated_pods:
            copies[positions] = _count_copies_beside_nominated_pods(pod, cluster, node_index, nominated_pods)
    return copies


class PlacementSession:
    """Copies of pods that are on a cluster temporarily, on the nodes that `scoring` prefers."""

    def __init__(self, cluster: Cluster, scoring: Scoring = DEFAULT_SCORING) -> None:
        self._cluster, self._scoring = cluster, scoring
        self.placed_pods: list[PodInfo] = []

    def place(self, pod: SchedulingPod, count: int) -> tuple[int, ...]:
        """Place up to `count` copies and return the node index of each.

        Raises:
            QuantityError: if a request is invalid.
            NoPriorityClassError: if the pod names a missing class.
        """
        stored_pod = merge_label_keys(with_resolved_priority(pod, self._cluster.priority_classes))
        incoming = IncomingPod.from_pod(stored_pod)
        return tuple(self._choose_method(incoming)(stored_pod, incoming, count))

    def _choose_method(self, pod: IncomingPod) -> Callable[[SchedulingPod, IncomingPod, int], Iterator[int]]:
        """Return the fastest method with the same result as running every filter on every node for each copy."""
        if is_independent(pod):
            return self._place_independent
        return self._place_one_by_one if self._needs_all_filters(pod) else self._place_interacting

    def _place_independent(self, pod: SchedulingPod, incoming: IncomingPod, count: int) -> Iterator[int]:
        """Place copies that are independent: only the node of the last copy gets a new score."""
        feasible = run_filters(incoming, self._cluster).feasible
        capacity = dict(
            zip(feasible.tolist(), count_max_copies(incoming, self._cluster, feasible).tolist(), strict=True)
        )
        lookahead = self._create_lookahead(pod, incoming)
        node_scores = lookahead.score(feasible).tolist()
        heap = [
            (-score, self._cluster.nodes.get_name(node_index), node_index)
            for node_index, score in zip(capacity, node_scores, strict=True)
        ]
        heapify(heap)
        for _ in range(count):
            if not heap:
                return
            _, name, node_index = heap[0]
            self.assume(pod, node_index)
            yield node_index
            capacity[node_index] -= 1
            if capacity[node_index]:
                heapreplace(heap, (-lookahead.score_next(node_index), name, node_index))
            else:
                heappop(heap)

    def _place_interacting(self, pod: SchedulingPod, incoming: IncomingPod, count: int) -> Iterator[int]:
        """Place copies that constrain each other: only the inter-pod plugins run again for each copy."""
        cluster = self._cluster
        if run_filters(incoming, cluster).pre_filter_status is not None:
            return
        remaining = select_feasible(
            incoming, cluster, cluster.nodes.get_indices(), [each for each in FILTERS if each not in INTER_POD_PLUGINS]
        )
        remaining = remaining[
            np.argsort([cluster.nodes.get_name(node_index) for node_index in remaining.tolist()], kind="stable")
        ]
        capacity, lookahead = count_max_copies(incoming, cluster, remaining), self._create_lookahead(pod, incoming)
        node_scores = lookahead.score(remaining)
        for _ in range(count):
            feasible = np.flatnonzero(
                np.isin(remaining, select_feasible(incoming, cluster, remaining, INTER_POD_PLUGINS))
            )
            if not len(feasible):
                return
            position = int(feasible[node_scores[feasible].argmax()])
            node_index = int(remaining[position])
            self.assume(pod, node_index)
            yield node_index
            capacity[position] -= 1
            node_scores[position] = lookahead.score_next(node_index)
            if not capacity[position]:
                remaining, capacity, node_scores = (
                    np.delete(each, position) for each in (remaining, capacity, node_scores)
                )

    def _place_one_by_one(self, pod: SchedulingPod, incoming: IncomingPod, count: int) -> Iterator[int]:
        """Place copies by running every filter on every node for each copy."""
        for _ in range(count):
            feasible = run_filters(incoming, self._cluster).feasible
            if not len(feasible):
                return
            node_scores = score_nodes(incoming, self._cluster, feasible, self._scoring)
            node_index = min(feasible[node_scores == node_scores.max()].tolist(), key=self._cluster.nodes.get_name)
            self.assume(pod, node_index)
            yield node_index

    def _needs_all_filters(self, pod: IncomingPod) -> bool:
        """Return whether further filters may change their result: for volumes, named nodes or nominated pods."""
        return (
            bool(list_scheduling_volumes(pod.spec) or self._cluster.get_nominated_pods())
            or list_named_nodes(pod) is not None
        )

    def _create_lookahead(self, pod: SchedulingPod, incoming: IncomingPod) -> ScoreLookahead:
        return ScoreLookahead(incoming, self._cluster.groups.intern(pod), self._cluster, self._scoring)

    def assume(self, pod: SchedulingPod, node_index: int) -> None:
        """Put one copy on a node."""
        copy = PodInfo(
            f"copy {len(self.placed_pods)}",
            pod.metadata.name or "" if pod.metadata else "",
            self._cluster.groups.intern(pod),
            self._cluster.nodes.get_name(node_index),
            volumes=list_scheduling_volumes(pod.spec) if pod.spec else (),
        )
        self.placed_pods.append(copy)
        self._cluster.put_pod(copy)


@contextmanager
def open_placement_session(cluster: Cluster, scoring: Scoring = DEFAULT_SCORING) -> Iterator[PlacementSession]:
    """Yield a session and remove every pod that it placed on exit."""
    session = PlacementSession(cluster, scoring)
    try:
        yield session
    finally:
        for copy in session.placed_pods:
            cluster.remove_pod(copy.uid)


def count_max_pods(cluster: Cluster) -> int:
    """Return the number of pods that all nodes together can take."""
    return int(np.maximum(get_free_amounts(cluster, cluster.nodes.get_indices(), _PODS), 0).sum())


def get_free_amounts(cluster: Cluster, nodes: NodeIndices, resource: str) -> ExactIntegerArray:
    """Return the free amount of a resource on each of these nodes."""
    allocatable = cluster.nodes.find_allocatable_column(resource)
    used = cluster.nodes.pods if resource == _PODS else cluster.nodes.find_used_column(resource)
    free: ExactIntegerArray = np.zeros(len(nodes), dtype=np.int64) if allocatable is None else allocatable.array[nodes]
    return free if used is None else free - used.array[nodes]


def _count_copies_beside_nominated_pods(
    pod: IncomingPod, cluster: Cluster, node_index: int, nominated_pods: list[PodInfo]
) -> int:
    """Return the number of copies that one node takes beside its nominated pods."""
    nodes = np.array([node_index])
    copies = int(get_free_amounts(cluster, nodes, _PODS)[0]) - len(nominated_pods)
    for name, requested in pod.requests.items():
        nominated_amount = sum(each.group.requests.get(name, 0) for each in nominated_pods)
        copies = min(copies, (int(get_free_amounts(cluster, nodes, name)[0]) - nominated_amount) // requested)
    return min(copies, 1) if pod.ports else copies
