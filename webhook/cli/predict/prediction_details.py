"""The details of predictions: for each, the closest nodes, the remedies and, on request, a line for each node."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.node_fit import Shortfall
from webhook.accounting.scheduling.filters import Diagnosis, run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod, with_resolved_priority
from webhook.accounting.scheduling.placement import PlacementSession
from webhook.accounting.scheduling.plugins.node_resources_fit import measure_shortfall
from webhook.accounting.scheduling.prediction import (
    Feasibility,
    NodeDiagnosis,
    Prediction,
    diagnose_node,
    predict_copies,
    predict_daemon_set,
    with_daemon_tolerations,
)
from webhook.accounting.scheduling.remedies import EvictionOption, Remedy, find_eviction_options, find_remedies
from webhook.accounting.scheduling.scoring import Scoring, score_allocation, score_balance
from webhook.cli.predict.pods_to_place import PodsToPlace
from webhook.policy.suggest import suggest_resource

_PODS = "pods"
_MAX_CLOSEST_NODES = 3


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node for the pods to place: its diagnosis, its two scores, and the number of copies that are placed on it.

    `tightest` is the requested resource with the highest utilization of the node if the pod ran there.
    """

    diagnosis: NodeDiagnosis
    allocation_score: int
    balance_score: int
    tightest: Shortfall
    copies: int = 0


@dataclass(frozen=True, slots=True)
class PredictionDetails:
    """The prediction for one object, and the number of nodes that were feasible before the first copy was placed.

    If a copy cannot run, the other fields describe the first such copy: `closest_nodes` are the nodes with the smallest
    shortfalls among those where evictions help, `evictions` and `remedies` the changes that would help, `preemption`
    the choice of the scheduler's preemption, `suggestions` the probable names for resources that no node advertises.
    `node_lines` are the nodes one by one, if requested: before the first copy if all can run, else before the first
    copy that cannot.
    """

    pods: PodsToPlace
    prediction: Prediction
    feasible_count: int
    closest_nodes: tuple[NodeDiagnosis, ...] = ()
    evictions: tuple[EvictionOption, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    preemption: EvictionOption | None = None
    suggestions: Mapping[str, str] = field(default_factory=dict)
    node_lines: tuple[NodeLine, ...] = ()

    @property
    def copies_by_node(self) -> Mapping[str, int]:
        """The number of copies on each node, the highest first."""
        return dict(Counter(self.prediction.nodes).most_common())


def predict_pods(
    pods: PodsToPlace, cluster: Cluster, session: PlacementSession, scoring: Scoring, *, with_node_lines: bool
) -> PredictionDetails:
    """Place the pods of one object in a session and return the details of the prediction.

    Raises:
        TallygateError: if the pod is not one that an API server would store.
    """
    pod = pods.pod if pods.count is not None else with_daemon_tolerations(pods.pod)
    incoming = IncomingPod.from_pod(with_resolved_priority(pod, cluster.priority_classes))
    first_diagnosis = run_filters(incoming, cluster)
    lines = tuple(_create_node_lines(incoming, cluster, first_diagnosis, scoring)) if with_node_lines else ()
    if pods.count is None:
        prediction = predict_daemon_set(pods.pod, cluster, session)
    else:
        prediction = predict_copies(pods.pod, cluster, session, pods.count)
    prediction = _add_unmodelled(prediction, pods.unmodelled)
    details = PredictionDetails(
        pods, prediction, len(first_diagnosis.feasible), node_lines=_count_copies(lines, prediction)
    )
    diagnosis = prediction.schedule_result.diagnosis if prediction.schedule_result else None
    if diagnosis is None:
        return details
    lines = tuple(_create_node_lines(incoming, cluster, diagnosis, scoring)) if with_node_lines else ()
    return replace(
        _add_explanation(details, incoming, cluster, session, diagnosis), node_lines=_count_copies(lines, prediction)
    )


def _add_unmodelled(prediction: Prediction, unmodelled: tuple[str, ...]) -> Prediction:
    if not unmodelled:
        return prediction
    feasibility = Feasibility.UNKNOWN if prediction.feasibility is Feasibility.NOW else prediction.feasibility
    return replace(prediction, feasibility=feasibility, unmodelled=(*prediction.unmodelled, *unmodelled))


def _add_explanation(
    details: PredictionDetails, pod: IncomingPod, cluster: Cluster, session: PlacementSession, diagnosis: Diagnosis
) -> PredictionDetails:
    """Return the details with the reasons and the remedies for the first copy that has no node."""
    preemption = details.prediction.schedule_result.preemption if details.prediction.schedule_result else None
    chosen = preemption.selected if preemption else None
    return replace(
        details,
        closest_nodes=tuple(_find_closest_nodes(pod, cluster, diagnosis)),
        evictions=find_eviction_options(pod, cluster, diagnosis, {each.uid for each in session.placed_pods}),
        remedies=find_remedies(pod, cluster, diagnosis.nodes),
        preemption=EvictionOption(cluster.nodes.get_name(chosen.place), chosen.victims) if chosen else None,
        suggestions=dict(_suggest_resources(details.prediction, cluster)),
    )


def _suggest_resources(prediction: Prediction, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield each requested name that no node advertises, with a similar name that nodes advertise."""
    missing = [name for name, maximum in prediction.largest_allocatable.items() if not maximum]
    advertised_resources = (
        [name for name in cluster.nodes.list_advertised_resources() if name != _PODS] if missing else []
    )
    for name in missing:
        suggestion = suggest_resource(name, advertised_resources)
        if suggestion is not None:
            yield name, suggestion


def _find_closest_nodes(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> Iterator[NodeDiagnosis]:
    """Yield the nodes with the smallest shortfalls, of those that could run the pod after evictions."""
    resolvable = sorted(
        diagnosis.resolvable.tolist(),
        key=lambda node_index: (measure_shortfall(pod, cluster, node_index), cluster.nodes.get_name(node_index)),
    )
    node_diagnoses = (diagnose_node(pod, cluster, diagnosis, node_index) for node_index in resolvable)
    for _, node_diagnosis in zip(
        range(_MAX_CLOSEST_NODES),
        (
            node_diagnosis
            for node_diagnosis in node_diagnoses
            if node_diagnosis.can_ever_run and node_diagnosis.shortfalls
        ),
        strict=False,
    ):
        yield node_diagnosis


def _count_copies(lines: tuple[NodeLine, ...], prediction: Prediction) -> tuple[NodeLine, ...]:
    copies = Counter(prediction.nodes)
    return tuple(replace(line, copies=copies[line.diagnosis.name]) for line in lines)


def _create_node_lines(
    pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, scoring: Scoring
) -> Iterator[NodeLine]:
    """Return a line for each diagnosed node, ordered by name."""
    nodes = diagnosis.nodes
    allocation_scores = score_allocation(pod, cluster, nodes, scoring).tolist()
    balance_scores = score_balance(pod, cluster, nodes).tolist()
    lines = [
        NodeLine(
            diagnose_node(pod, cluster, diagnosis, node_index),
            allocation_score,
            balance_score,
            _find_tightest(pod, cluster, node_index),
        )
        for node_index, allocation_score, balance_score in zip(
            nodes.tolist(), allocation_scores, balance_scores, strict=True
        )
    ]
    return iter(sorted(lines, key=lambda line: line.diagnosis.name))


def _find_tightest(pod: IncomingPod, cluster: Cluster, node_index: int) -> Shortfall:
    """Return the resource with the highest utilization of the node if the pod ran there."""
    nodes = cluster.nodes
    allocatable, used = nodes.get_allocatable(node_index), {**nodes.get_used(node_index), _PODS: nodes.pods[node_index]}
    shortfalls = [
        Shortfall(
            name, amount, used.get(name, 0), allocatable.get(name, 0), unresolvable=amount > allocatable.get(name, 0)
        )
        for name, amount in {_PODS: 1, **pod.requests}.items()
    ]
    return max(shortfalls, key=_compute_fullness)


def _compute_fullness(shortfall: Shortfall) -> tuple[bool, float]:
    """Return whether the node has no allocatable amount, and the utilization with the pod."""
    return shortfall.allocatable <= 0, (shortfall.used + shortfall.requested) / max(shortfall.allocatable, 1)
