"""The details of predictions: for each, the closest nodes, the remedies and, on request, a line for each node."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.node_fit import Shortfall, UnhealthyDevices
from tallygate.accounting.scheduling.assumed_devices import CopyClaims
from tallygate.accounting.scheduling.device_shortfalls import DeviceInspector, NodePool
from tallygate.accounting.scheduling.diagnosis import Diagnosis
from tallygate.accounting.scheduling.evictions import EvictionOption, find_eviction_options
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.new_nodes import NewNodeFit
from tallygate.accounting.scheduling.node_diagnosis import (
    NodeDiagnosis,
    ScatteredAmount,
    diagnose_node,
    find_scattered_amounts,
    list_unhealthy_devices,
)
from tallygate.accounting.scheduling.placement import PlacementSession
from tallygate.accounting.scheduling.plugins.dynamic_resources import CANNOT_ALLOCATE, NOT_AVAILABLE
from tallygate.accounting.scheduling.plugins.node_resources_fit import is_device_backed, sort_by_shortfall
from tallygate.accounting.scheduling.prediction import (
    Feasibility,
    Prediction,
    find_unresolvable_nodes,
    predict_copies,
    predict_daemon_set,
    with_daemon_tolerations,
)
from tallygate.accounting.scheduling.remedies import Remedy, find_remedies
from tallygate.accounting.scheduling.scoring import Scoring, score_allocation, score_balance
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.review_pods import Rejection
from tallygate.policy.suggest import suggest_resource

_PODS = "pods"
_MAX_CLOSEST_NODES = 3
_MAX_INSPECTED_NODES = 1000  # each of their devices is compared with each request


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node for the pods to place: its diagnosis, its two scores, and the number of copies that are placed on it.

    `tightest` is the requested resource with the highest utilization of the node if the pod ran there. `pools` are the
    pools of devices that the node can reach, if the pod needs devices.
    """

    diagnosis: NodeDiagnosis
    allocation_score: int
    balance_score: int
    tightest: Shortfall
    copies: int = 0
    pools: tuple[NodePool, ...] = ()


@dataclass(frozen=True, slots=True)
class PredictionDetails:
    """The prediction for one object, and the details that only the command shows.

    If a copy cannot run, the other fields describe the first such copy: `closest_nodes` are the nodes with the smallest
    shortfalls among those where evictions help, and those that lack the fewest devices. `evictions` and `remedies` are
    the changes that would help, `preemption` is the choice of the scheduler's preemption, `suggestions` are probable
    names for resources that no node advertises, `unhealthy` the unhealthy devices of its resources, `scattered` the
    resources of which no single node has enough free, and all together have. `node_lines` are
    the nodes one by one, if requested: before the first copy if all can run, else before the first copy that cannot.
    `claims_by_copy` has the devices of each placed copy. `new_nodes` are the nodes that would come for the copies
    without a node, for each shape by itself. `rejection` has the pods that are not stored, since a rule, a cap or a
    quota rejects them.
    """

    pods: PodsToPlace
    prediction: Prediction
    closest_nodes: tuple[NodeDiagnosis, ...] = ()
    evictions: tuple[EvictionOption, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    preemption: EvictionOption | None = None
    suggestions: Mapping[str, str] = field(default_factory=dict)
    unhealthy: tuple[UnhealthyDevices, ...] = ()
    node_lines: tuple[NodeLine, ...] = ()
    claims_by_copy: tuple[CopyClaims, ...] = ()
    new_nodes: tuple[NewNodeFit, ...] = ()
    scattered: tuple[ScatteredAmount, ...] = ()
    rejection: Rejection | None = None

    @property
    def feasibility(self) -> Feasibility:
        """Whether all copies can run: none does that is rejected."""
        if self.rejection is None:
            return self.prediction.feasibility
        if self.rejection.count is None or self.rejection.has_happened:
            return Feasibility.REJECTED
        return Feasibility.NOT_NOW if self.prediction.feasibility is Feasibility.NOW else self.prediction.feasibility

    @property
    def count(self) -> int:
        """The number of copies, with those that are rejected."""
        return self.prediction.count + ((self.rejection.count or 0) if self.rejection is not None else 0)

    @property
    def feasible_count(self) -> int:
        """The number of nodes that were feasible before the first copy was placed."""
        return len(self.prediction.diagnosis.feasible)

    @property
    def copies_by_node(self) -> Mapping[str, int]:
        """The number of copies on each node, the highest first."""
        return dict(Counter(self.prediction.nodes).most_common())


def predict_pods(  # noqa: PLR0913  # the pods, where they are placed, and what is returned
    pods: PodsToPlace,
    cluster: Cluster,
    session: PlacementSession,
    scoring: Scoring,
    *,
    with_node_lines: bool,
    in_group_cycle: bool = False,
) -> PredictionDetails:
    """Place the pods of one object in a session and return the details of the prediction.

    With `in_group_cycle` they are pods of a PodGroup, and the caller decides whether they keep their nodes.

    Raises:
        TallygateError: if the pod is not one that an API server would store.
    """
    pod = pods.pod if pods.count is not None else with_daemon_tolerations(pods.pod)
    incoming = IncomingPod.from_pod(pod, cluster.priority_classes)
    diagnosis = run_filters(incoming, cluster)
    lines: tuple[NodeLine, ...] = ()
    if with_node_lines:
        unresolvable = find_unresolvable_nodes(incoming, cluster, diagnosis.nodes)
        lines = _create_node_lines(incoming, cluster, diagnosis, unresolvable, scoring)
    earlier = len(session.devices.by_copy)
    if pods.count is None:
        prediction = predict_daemon_set(incoming, cluster, diagnosis, session)
    else:
        prediction = predict_copies(incoming, cluster, session, pods.count, diagnosis, in_group_cycle=in_group_cycle)
    details = PredictionDetails(
        pods, _add_unmodelled(prediction, pods.unmodelled), claims_by_copy=tuple(session.devices.by_copy[earlier:])
    )
    next_diagnosis = prediction.next_result.diagnosis if prediction.next_result else None
    if next_diagnosis is not None:
        if with_node_lines and next_diagnosis is not diagnosis:
            lines = _create_node_lines(incoming, cluster, next_diagnosis, prediction.unresolvable, scoring)
        details = _add_explanation(details, incoming, cluster, session, next_diagnosis)
    return replace(details, node_lines=_count_copies(lines, prediction))


def _add_unmodelled(prediction: Prediction, unmodelled: tuple[str, ...]) -> Prediction:
    if not unmodelled:
        return prediction
    feasibility = Feasibility.UNKNOWN if prediction.feasibility is Feasibility.NOW else prediction.feasibility
    return replace(prediction, feasibility=feasibility, unmodelled=(*prediction.unmodelled, *unmodelled))


def _add_explanation(
    details: PredictionDetails, pod: IncomingPod, cluster: Cluster, session: PlacementSession, diagnosis: Diagnosis
) -> PredictionDetails:
    """Return the details with the reasons and the remedies for the first copy that has no node."""
    prediction, chosen = details.prediction, details.prediction.candidate
    nodes = [node_index for node_index in diagnosis.resolvable.tolist() if node_index not in prediction.unresolvable]
    sorted_nodes = sort_by_shortfall(pod, cluster, nodes)
    nodes_by_devices = _rank_nodes_by_devices(pod, cluster, diagnosis, prediction.unresolvable)
    return replace(
        details,
        closest_nodes=(
            *_find_closest_nodes(pod, cluster, diagnosis, sorted_nodes),
            *_select_nodes_with_devices(nodes_by_devices),
        ),
        evictions=find_eviction_options(
            pod,
            cluster,
            [*_list_waiting_nodes(cluster, diagnosis, nodes_by_devices, prediction.unresolvable), *sorted_nodes],
            {info.uid for info in session.placed_pods},
        ),
        remedies=find_remedies(pod, cluster, diagnosis.nodes[diagnosis.rejected]),
        preemption=EvictionOption(cluster.nodes.get_name(chosen.node_index), chosen.victims) if chosen else None,
        suggestions=dict(_suggest_resources(prediction, cluster)),
        unhealthy=list_unhealthy_devices(pod, cluster),
        scattered=tuple(find_scattered_amounts(pod, cluster)),
    )


def _suggest_resources(prediction: Prediction, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield each requested name that no node advertises, with a similar name that nodes advertise."""
    missing = [name for name, maximum in prediction.largest_amounts.items() if not maximum]
    advertised_resources = (
        [name for name in cluster.nodes.list_advertised_resources() if name != _PODS] if missing else []
    )
    for name in missing:
        suggestion = suggest_resource(name, advertised_resources)
        if suggestion is not None:
            yield name, suggestion


def _find_closest_nodes(
    pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, nodes: Iterable[int]
) -> Iterator[NodeDiagnosis]:
    """Return the first nodes with shortfalls, of these nodes that could run the pod after evictions."""
    inspector = DeviceInspector(pod, cluster)
    diagnoses = (diagnose_node(inspector, diagnosis, node_index, can_ever_run=True) for node_index in nodes)
    return islice((diagnose for diagnose in diagnoses if diagnose.shortfalls), _MAX_CLOSEST_NODES)


def _rank_nodes_by_devices(
    pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, unresolvable: Collection[int]
) -> list[NodeDiagnosis]:
    """Return the nodes that only lack devices: those that can run the pod later first, then by missing devices."""
    inspector, rejected = DeviceInspector(pod, cluster), _list_rejected(diagnosis, CANNOT_ALLOCATE)
    diagnoses = [
        diagnose_node(inspector, diagnosis, index, can_ever_run=index not in unresolvable)
        for index in sorted(rejected, key=lambda each: each in unresolvable)[:_MAX_INSPECTED_NODES]
    ]
    return sorted(diagnoses, key=_rank_by_devices)


def _list_rejected(diagnosis: Diagnosis, reason: str) -> list[int]:
    return [
        node_index
        for status in diagnosis.statuses
        if status.reason == reason
        for node_index in diagnosis.nodes[status.rejected].tolist()
    ]


def _select_nodes_with_devices(diagnoses: Sequence[NodeDiagnosis]) -> Sequence[NodeDiagnosis]:
    with_pools = [diagnose for diagnose in diagnoses if any(request.pools for request in diagnose.device_shortfalls)]
    known = with_pools or [diagnose for diagnose in diagnoses if diagnose.device_shortfalls]
    return known[:_MAX_CLOSEST_NODES]


def _list_waiting_nodes(
    cluster: Cluster, diagnosis: Diagnosis, by_devices: Iterable[NodeDiagnosis], unresolvable: Collection[int]
) -> Iterator[int]:
    """Yield the nodes that can run the pod once others give devices back: those that lack the fewest first."""
    for device in by_devices:
        node_index = cluster.nodes.find_index(device.name) if device.can_ever_run else None
        if node_index is not None:
            yield node_index
    yield from (index for index in _list_rejected(diagnosis, NOT_AVAILABLE) if index not in unresolvable)


def _rank_by_devices(diagnosis: NodeDiagnosis) -> tuple[bool, int, int, str]:
    shortfalls = diagnosis.device_shortfalls
    published = sum(pool.devices for shortfall in shortfalls for pool in shortfall.pools if not pool.is_foreign)
    return not diagnosis.can_ever_run, sum(shortfall.missing for shortfall in shortfalls), -published, diagnosis.name


def _count_copies(lines: tuple[NodeLine, ...], prediction: Prediction) -> tuple[NodeLine, ...]:
    copies = Counter(prediction.nodes)
    return tuple(replace(line, copies=copies[line.diagnosis.name]) for line in lines)


def _create_node_lines(
    pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, unresolvable: Collection[int], scoring: Scoring
) -> tuple[NodeLine, ...]:
    """Return a line for each diagnosed node, ordered by name."""
    nodes, inspector = diagnosis.nodes, DeviceInspector(pod, cluster)
    lines = [
        NodeLine(
            diagnose_node(inspector, diagnosis, node_index, can_ever_run=node_index not in unresolvable),
            allocation_score,
            balance_score,
            _find_tightest(pod, cluster, node_index),
            pools=inspector.list_pools(node_index),
        )
        for node_index, allocation_score, balance_score in zip(
            nodes.tolist(),
            score_allocation(pod, cluster, nodes, scoring).tolist(),
            score_balance(pod, cluster, nodes).tolist(),
            strict=True,
        )
    ]
    return tuple(sorted(lines, key=lambda line: line.diagnosis.name))


def _find_tightest(pod: IncomingPod, cluster: Cluster, node_index: int) -> Shortfall:
    """Return the resource of the node with the highest utilization if the pod ran there; devices are none of these."""
    nodes = cluster.nodes
    allocatable, used = nodes.get_allocatable(node_index), {**nodes.get_used(node_index), _PODS: nodes.pods[node_index]}
    shortfalls = [
        Shortfall(
            name, amount, used.get(name, 0), allocatable.get(name, 0), unresolvable=amount > allocatable.get(name, 0)
        )
        for name, amount in {_PODS: 1, **pod.requests}.items()
        if not is_device_backed(cluster, node_index, name)
    ]
    return max(shortfalls, key=_compute_fullness)


def _compute_fullness(shortfall: Shortfall) -> tuple[bool, float]:
    """Return whether the node has no allocatable amount, and the utilization with the pod."""
    return shortfall.allocatable <= 0, (shortfall.used + shortfall.requested) / max(shortfall.allocatable, 1)
