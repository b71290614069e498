"""Placement of copies of a pod, one after the other, as the scheduler would place them.

Copies without constraints on each other use requested amounts and nothing else, so that the free amounts of each node
give the number of copies. All other copies are placed one by one on the cluster itself, and removed at the end; each
placement evaluates again only the plugins whose result may have changed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.cluster.pod_info import PodInfo, list_scheduling_volumes
from tallygate.accounting.scheduling.assumed_devices import AssumedDevices, DeviceMark, may_fail, shares_claims
from tallygate.accounting.scheduling.device_scores import has_alternatives, normalize_scores, score_alternatives
from tallygate.accounting.scheduling.diagnosis import Diagnosis
from tallygate.accounting.scheduling.filters import (
    INTER_POD_PLUGINS,
    PLUGINS_AFTER_INTER_POD,
    run_filters,
    select_feasible,
)
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_choice import find_bind_errors, find_choices
from tallygate.accounting.scheduling.plugins.node_eligibility import list_named_nodes
from tallygate.accounting.scheduling.plugins.node_resources_fit import is_device_backed, mask_device_backed
from tallygate.accounting.scheduling.plugins.resource_claims import needs_devices
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING, ExactIntegerArray, ScoreLookahead, Scoring

_PODS = "pods"
_COPY = "copy"
_DO_NOT_SCHEDULE = "DoNotSchedule"
_INT64_LIMIT = 1 << 62  # a request may exceed 64 bits where the numbers of the columns do not


@dataclass(frozen=True, slots=True, eq=False)
class PlacementResult:
    """The node index of each placed copy in turn, and the diagnosis of the first copy without a node, None if none."""

    nodes: tuple[int, ...]
    unplaced: Diagnosis | None


def is_independent(pod: IncomingPod) -> bool:
    """Return whether copies of a pod compete only for the resources and ports of a node."""
    affinity, spec = pod.spec.affinity, pod.spec
    has_hard_spread = any(
        constraint.when_unsatisfiable == _DO_NOT_SCHEDULE for constraint in spec.topology_spread_constraints or ()
    )
    has_pod_affinity = affinity is not None and (
        affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
    )
    return not (has_hard_spread or has_pod_affinity or list_scheduling_volumes(spec))


def needs_amounts_only(pod: IncomingPod, cluster: Cluster) -> bool:
    """Return whether `count_max_copies` has the number of copies: they are independent and get no devices."""
    return is_independent(pod) and (cluster.devices is None or not needs_devices(pod, cluster))


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
            pods_of_node
            for pods_of_node in nominated.values()
            if pods_of_node.group.priority >= pod.priority and pods_of_node.uid != pod.uid
        ]
        if len(positions) and nominated_pods:
            copies[positions] = _count_copies_beside_nominated_pods(pod, cluster, node_index, nominated_pods)
    return copies


class SessionMark(NamedTuple):
    """A state of a session: the number of its pods, and that of its devices."""

    pods: int
    devices: DeviceMark


class PlacementSession:
    """Copies of pods that are on a cluster temporarily, on the nodes that `scoring` prefers.

    Sessions that are open on one cluster at a time have different names. `check_time` is called before each copy, and
    may raise to end the session.
    """

    def __init__(
        self,
        cluster: Cluster,
        scoring: Scoring = DEFAULT_SCORING,
        name: str = _COPY,
        check_time: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster, self._scoring, self._name, self.check_time = cluster, scoring, name, check_time
        self.devices = AssumedDevices(cluster)
        self.placed_pods: list[PodInfo] = []

    def place(self, pod: IncomingPod, count: int, diagnosis: Diagnosis) -> PlacementResult:
        """Place up to `count` copies of a pod whose first copy has this diagnosis of all nodes.

        The method is the fastest one with the same result as running every filter on every node for each copy.

        Raises:
            QuantityError: if the size of a claim or volume is invalid.
        """
        if not count or not len(diagnosis.feasible) or diagnosis.error:
            return PlacementResult((), diagnosis if count else None)
        if (not is_independent(pod) and self._needs_all_filters(pod)) or self._depends_on_devices(pod, diagnosis):
            return self._place_one_by_one(pod, count, diagnosis)
        if has_alternatives(pod, self._cluster):
            if not is_independent(pod):
                return self._place_one_by_one(pod, count, diagnosis)
            place = self._place_by_alternatives
        else:
            place = self._place_independent if is_independent(pod) else self._place_interacting
        nodes = tuple(place(pod, count, diagnosis))
        return PlacementResult(nodes, None if len(nodes) == count else run_filters(pod, self._cluster))

    def _place_independent(self, pod: IncomingPod, count: int, diagnosis: Diagnosis) -> Iterator[int]:
        """Place copies that are independent: only the node of the last copy gets a new score."""
        feasible = diagnosis.feasible
        capacity = dict(zip(feasible.tolist(), count_max_copies(pod, self._cluster, feasible).tolist(), strict=True))
        lookahead = self._create_lookahead(pod)
        node_scores = lookahead.score(feasible).tolist()
        heap = [
            (-score, self._cluster.nodes.get_name(node_index), node_index)
            for node_index, score in zip(capacity, node_scores, strict=True)
        ]
        heapify(heap)
        for _ in range(count):
            while heap and not self.assume(pod, heap[0][2]):
                heappop(heap)
            if not heap:
                return
            _, name, node_index = heap[0]
            yield node_index
            capacity[node_index] -= 1
            if capacity[node_index]:
                heapreplace(heap, (-lookahead.score_next(node_index), name, node_index))
            else:
                heappop(heap)

    def _place_by_alternatives(self, pod: IncomingPod, count: int, diagnosis: Diagnosis) -> Iterator[int]:
        """Place copies that are independent, and whose devices score: these change on the node of the last copy only.

        If pools have the devices of several nodes, they may change on all.
        """
        remaining = self._sort_by_name(diagnosis.feasible)
        capacity, lookahead = count_max_copies(pod, self._cluster, remaining), self._create_lookahead(pod)
        resource_scores = lookahead.score(remaining)
        device_scores = score_alternatives(pod, self._cluster, remaining)
        is_local = self._cluster.devices is not None and self._cluster.devices.has_node_pools_only()
        for _ in range(count):
            is_open = (capacity > 0) & (device_scores >= 0)
            if not is_open.any():
                return
            positions = np.flatnonzero(is_open)
            node_scores = resource_scores[positions] + normalize_scores(device_scores[positions])
            position = int(positions[node_scores.argmax()])
            node_index = int(remaining[position])
            self.assume(pod, node_index)
            yield node_index
            capacity[position] -= 1
            resource_scores[position] = lookahead.score_next(node_index)
            changed = np.array([position]) if is_local else positions
            device_scores[changed] = score_alternatives(pod, self._cluster, remaining[changed])

    def _place_interacting(self, pod: IncomingPod, count: int, diagnosis: Diagnosis) -> Iterator[int]:
        """Place copies that constrain each other: only the inter-pod plugins run again for each copy."""
        remaining = self._find_remaining_nodes(pod, diagnosis)
        capacity, lookahead = count_max_copies(pod, self._cluster, remaining), self._create_lookahead(pod)
        node_scores = lookahead.score(remaining)
        placed = 0
        while placed < count:
            feasible = np.flatnonzero(
                np.isin(remaining, select_feasible(pod, self._cluster, remaining, INTER_POD_PLUGINS))
            )
            if not len(feasible):
                return
            position = int(feasible[node_scores[feasible].argmax()])
            node_index = int(remaining[position])
            if self.assume(pod, node_index):
                yield node_index
                placed += 1
                capacity[position] -= 1
                node_scores[position] = lookahead.score_next(node_index)
            else:
                capacity[position] = 0
            if not capacity[position]:
                remaining, capacity, node_scores = (
                    np.delete(values, position) for values in (remaining, capacity, node_scores)
                )

    def _find_remaining_nodes(self, pod: IncomingPod, diagnosis: Diagnosis) -> NodeIndices:
        """Return the nodes that pass all filters but those of the inter-pod plugins, ordered by name."""
        is_blocked = np.zeros(len(diagnosis.nodes), dtype=np.bool_)
        for status in diagnosis.statuses:
            if status.plugin in INTER_POD_PLUGINS:
                is_blocked |= status.rejected
        blocked = select_feasible(pod, self._cluster, diagnosis.nodes[is_blocked], PLUGINS_AFTER_INTER_POD)
        return self._sort_by_name(np.concatenate([diagnosis.feasible, blocked]))

    def _sort_by_name(self, nodes: NodeIndices) -> NodeIndices:
        node_names = [self._cluster.nodes.get_name(node_index) for node_index in nodes.tolist()]
        return nodes[np.argsort(node_names, kind="stable")]

    def _place_one_by_one(self, pod: IncomingPod, count: int, diagnosis: Diagnosis) -> PlacementResult:
        """Place copies by running every filter on every node for each copy."""
        nodes: list[int] = []
        while len(nodes) < count:
            feasible = diagnosis.feasible
            if not len(feasible) or diagnosis.error:
                return PlacementResult(tuple(nodes), diagnosis)
            choices = find_choices(pod, self._cluster, feasible, self._scoring)
            bind_errors = find_bind_errors(pod, self._cluster, choices)
            node_index = next((choice for choice in choices.tolist() if choice not in bind_errors), None)
            if node_index is None:
                return PlacementResult(tuple(nodes), diagnosis)
            nodes.append(node_index)
            self.assume(pod, node_index)
            if len(nodes) < count:
                diagnosis = run_filters(pod, self._cluster)
        return PlacementResult(tuple(nodes), None)

    def _depends_on_devices(self, pod: IncomingPod, diagnosis: Diagnosis) -> bool:
        """Return whether copies share a claim without devices, or their attempts or bindings may fail."""
        is_shared = shares_claims(pod, self._cluster) or may_fail(pod, self._cluster)
        return is_shared or bool(find_bind_errors(pod, self._cluster, diagnosis.feasible))

    def _needs_all_filters(self, pod: IncomingPod) -> bool:
        """Return whether further filters may change their result: for volumes, named nodes or nominated pods."""
        return (
            bool(list_scheduling_volumes(pod.spec) or self._cluster.get_nominated_pods())
            or list_named_nodes(pod) is not None
        )

    def _create_lookahead(self, pod: IncomingPod) -> ScoreLookahead:
        return ScoreLookahead(pod, self._cluster.groups.intern(pod.pod), self._cluster, self._scoring)

    def assume(self, pod: IncomingPod, node_index: int) -> bool:
        """Put one copy on a node, and return whether the devices there suffice; if not, nothing changes."""
        self.check_time()
        if not self.devices.take(pod, node_index):
            return False
        copy = PodInfo(
            f"{self._name} {len(self.placed_pods)}",
            pod.name,
            self._cluster.groups.intern(pod.pod),
            self._cluster.nodes.get_name(node_index),
            volumes=list_scheduling_volumes(pod.spec),
        )
        self.placed_pods.append(copy)
        self._cluster.put_pod(copy)
        return True

    def mark(self) -> SessionMark:
        """Return the present state of the session, to which `return_to` returns."""
        return SessionMark(len(self.placed_pods), self.devices.mark())

    def return_to(self, mark: SessionMark) -> None:
        """Remove the copies that were placed since a mark, and free their devices."""
        for copy in self.placed_pods[mark.pods :]:
            self._cluster.remove_pod(copy.uid)
        del self.placed_pods[mark.pods :]
        self.devices.return_to(mark.devices)


_START = SessionMark(0, DeviceMark(0, 0, 0))


@contextmanager
def open_placement_session(
    cluster: Cluster,
    scoring: Scoring = DEFAULT_SCORING,
    name: str = _COPY,
    check_time: Callable[[], None] = lambda: None,
) -> Iterator[PlacementSession]:
    """Yield a session and remove every pod that it placed on exit."""
    session = PlacementSession(cluster, scoring, name, check_time)
    try:
        yield session
    finally:
        session.return_to(_START)


def count_max_pods(cluster: Cluster) -> int:
    """Return the number of pods that all nodes together can take."""
    return int(np.maximum(get_free_amounts(cluster, cluster.nodes.get_indices(), _PODS), 0).sum())


def get_free_amounts(cluster: Cluster, nodes: NodeIndices, resource: str) -> ExactIntegerArray:
    allocatable = cluster.nodes.find_allocatable_column(resource)
    used = cluster.nodes.pods if resource == _PODS else cluster.nodes.find_used_column(resource)
    free: ExactIntegerArray = np.zeros(len(nodes), dtype=np.int64) if allocatable is None else allocatable.array[nodes]
    return free if used is None else free - used.array[nodes]


def _count_copies_beside_nominated_pods(
    pod: IncomingPod, cluster: Cluster, node_index: int, nominated_pods: list[PodInfo]
) -> int:
    nodes = np.array([node_index])
    copies = int(get_free_amounts(cluster, nodes, _PODS)[0]) - len(nominated_pods)
    for name, requested in pod.requests.items():
        if is_device_backed(cluster, node_index, name):
            continue
        nominated_amount = sum(info.group.requests.get(name, 0) for info in nominated_pods)
        copies = min(copies, (int(get_free_amounts(cluster, nodes, name)[0]) - nominated_amount) // requested)
    return min(copies, 1) if pod.ports else copies
