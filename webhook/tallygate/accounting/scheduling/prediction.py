"""Predictions for copies of a pod: fits now, not now, never or unknown.

A DaemonSet gets one pod for every eligible node. Source: nodeShouldRunDaemonPod and AddOrUpdateDaemonPodTolerations in
pkg/controller/daemon, v1.36. The controller makes a pod for each node whose taints and labels allow it; the scheduler
then evaluates that node alone.

`predict_copies` is exact, and looks for at least a hundred preemption candidates. `predict_quickly` tries a few nodes,
and is unknown unless these decide.

The scheduler reports for each node only the first plugin that rejects it. To decide between a wait and never, every
permanent obstacle is evaluated here. Features that are not modelled, of devices, volumes and namespace labels, make a
prediction unknown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec
import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.cluster.pod_info import AffinityTerm
from tallygate.accounting.gpu_annotations import list_requested
from tallygate.accounting.scheduling.assumed_devices import shares_claims
from tallygate.accounting.scheduling.diagnosis import Diagnosis, FilterStatus, mark_unresolvable
from tallygate.accounting.scheduling.filters import Filter, run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod, with_default_priority
from tallygate.accounting.scheduling.node_choice import find_bind_errors, find_bind_errors_of_choices
from tallygate.accounting.scheduling.placement import (
    PlacementResult,
    PlacementSession,
    count_max_copies,
    needs_amounts_only,
    open_placement_session,
)
from tallygate.accounting.scheduling.plugins import dynamic_resources, node_eligibility, node_resources_fit
from tallygate.accounting.scheduling.plugins.node_volume_limits import find_migrated_driver, has_migrated_volume
from tallygate.accounting.scheduling.plugins.pod_claims import list_claim_refs
from tallygate.accounting.scheduling.pod_group_cycle import find_group_problem
from tallygate.accounting.scheduling.schedule import ScheduleResult, schedule_one
from tallygate.accounting.scheduling.victims import PreemptionCandidate
from tallygate.objects.meta import NodeSelector, NodeSelectorTerm, SelectorRequirement
from tallygate.objects.scheduling import Affinity, NodeAffinity, SchedulingPod, SchedulingPodSpec, Toleration

_PODS = "pods"
_MAX_DRY_RUNS = 3  # each one removes and restores every pod of a lower priority
_MAX_LISTED = 3
_DEFAULT_SCHEDULER = "default-scheduler"


class Feasibility(StrEnum):
    """Whether all copies can run; a pod that is `REJECTED` is not stored, so that no scheduler sees it."""

    REJECTED = "would be rejected"
    NOW = "fits now"
    NOT_NOW = "not now"
    NEVER = "never on these nodes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The prediction for `count` copies of a pod: `nodes` has the node of each copy that can run.

    `nodes` is empty as well if all copies fit and are counted without a placement. `unmodelled` names the features that
    were not evaluated. `diagnosis` is that of the first copy, `next_result` the scheduler's result for the first copy
    without a node, and `unresolvable` the evaluated nodes on which no copy can ever run. If that is each of them,
    `largest_amounts` has, for each resource that no node has enough of, the largest amount of any node.
    `bind_errors` has the nodes that the scheduler may select for the first copy and then fails to bind it to, with its
    messages; it tries again later.
    """

    feasibility: Feasibility
    count: int
    nodes: tuple[str, ...]
    unmodelled: tuple[str, ...]
    diagnosis: Diagnosis
    next_result: ScheduleResult | None = None
    unresolvable: frozenset[int] = frozenset()
    largest_amounts: Mapping[str, int] = field(default_factory=dict)
    bind_errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def placed_count(self) -> int:
        """The number of copies that can run now."""
        return len(self.nodes)

    @property
    def message(self) -> str:
        """The scheduler's message for the first copy without a node; empty if all fit."""
        return self.next_result.message if self.next_result else ""

    @property
    def candidate(self) -> PreemptionCandidate | None:
        """The node that preemption selects for the first copy without one, and the victims there."""
        preemption = self.next_result.preemption if self.next_result else None
        return preemption.selected if preemption else None


_DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TOLERATION = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def predict_copies(  # noqa: PLR0913  # the pod, where it is placed, and how
    pod: IncomingPod,
    cluster: Cluster,
    session: PlacementSession,
    count: int,
    diagnosis: Diagnosis,
    *,
    in_group_cycle: bool = False,
) -> Prediction:
    """Place copies of a pod until the session ends, and return the prediction; `diagnosis` is that of the first copy.

    With `in_group_cycle` the caller knows the PodGroup of the pod, and decides whether its copies keep their nodes.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
        SelectorError: if a claim has an invalid selector.
    """
    unmodelled = (*find_unmodelled(pod, cluster, in_group_cycle=in_group_cycle), *diagnosis.undecided)
    bind_errors = _find_bind_errors(pod, cluster, diagnosis)
    if pod.spec.scheduling_gates:
        placement = PlacementResult((), diagnosis if count else None)
    else:
        placement = session.place(pod, count, diagnosis)
    node_names = _get_names(cluster, placement.nodes)
    if placement.unplaced is None:
        feasibility = _choose_feasible(unmodelled)
        return Prediction(feasibility, count, node_names, unmodelled, diagnosis, bind_errors=bind_errors)
    result = schedule_one(pod, cluster, placement.unplaced, may_preempt=not in_group_cycle)
    if result.diagnosis is None:
        return Prediction(Feasibility.NOT_NOW, count, node_names, unmodelled, diagnosis, result)
    unresolvable = find_unresolvable_nodes(pod, cluster, diagnosis.nodes)
    is_never = 0 < len(diagnosis.nodes) == len(unresolvable) and diagnosis.pre_filter_status is None
    is_alone = pod.spec.scheduling_group is None or in_group_cycle
    is_unknown = placement.unplaced.undecided or not is_alone
    feasibility = Feasibility.UNKNOWN if is_unknown else Feasibility.NOT_NOW
    feasibility = Feasibility.NEVER if is_never else feasibility
    largest = find_largest_amounts(pod, cluster) if is_never else {}
    return Prediction(feasibility, count, node_names, unmodelled, diagnosis, result, unresolvable, largest)


def _find_bind_errors(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> Mapping[str, str]:
    """Return the nodes of which the scheduler may select one for the first copy, and on which its binding fails."""
    errors = find_bind_errors_of_choices(pod, cluster, diagnosis.feasible)
    return {cluster.nodes.get_name(index): error for index, error in errors.items() if error}


def _get_names(cluster: Cluster, nodes: Iterable[int]) -> tuple[str, ...]:
    return tuple(cluster.nodes.get_name(node_index) for node_index in nodes)


def _choose_feasible(unmodelled: Sequence[str]) -> Feasibility:
    """Return the feasibility of copies that all have a node."""
    return Feasibility.UNKNOWN if unmodelled else Feasibility.NOW


def predict_quickly(pod: IncomingPod, cluster: Cluster, count: int, diagnosis: Diagnosis) -> Prediction:
    """Predict whether copies of a pod fit now, and leave the cluster unchanged; `diagnosis` is that of the first copy.

    The prediction is unknown with unmodelled features, and if a few dry runs do not decide whether preemption helps.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
        SelectorError: if a claim has an invalid selector.
    """
    unmodelled = (*find_unmodelled(pod, cluster), *diagnosis.undecided)
    if unmodelled:
        return Prediction(Feasibility.UNKNOWN, count, (), unmodelled, diagnosis)
    if _has_capacity(pod, cluster, count, diagnosis.feasible):
        return Prediction(Feasibility.NOW, count, (), (), diagnosis)
    with open_placement_session(cluster) as session:
        placement = session.place(pod, count, diagnosis)
        node_names = _get_names(cluster, placement.nodes)
        if placement.unplaced is None:
            return Prediction(Feasibility.NOW, count, node_names, (), diagnosis)
        result = schedule_one(pod, cluster, placement.unplaced, _MAX_DRY_RUNS)
    is_undecided = result.preemption is not None and result.preemption.is_undecided
    feasibility = Feasibility.UNKNOWN if is_undecided else Feasibility.NOT_NOW
    return Prediction(feasibility, count, node_names, (), diagnosis, result)


def _has_capacity(pod: IncomingPod, cluster: Cluster, count: int, feasible: NodeIndices) -> bool:
    """Return whether all copies fit on these nodes, where that is known without a placement."""
    if count == 1:
        return bool(len(feasible)) and not find_bind_errors(pod, cluster, feasible)
    return needs_amounts_only(pod, cluster) and int(count_max_copies(pod, cluster, feasible).sum()) >= count


def predict_daemon_set(
    pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, session: PlacementSession | None = None
) -> Prediction:
    """Predict a pod on each eligible node; `count` is the number of eligible nodes.

    `pod` has the tolerations of `with_daemon_tolerations`, `diagnosis` is that of all nodes. The pods that fit stay
    until the session ends, if there is one.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
        SelectorError: if a claim has an invalid selector.
    """
    diagnosis = diagnosis.restrict_to(_find_target_nodes(pod, cluster))
    unmodelled = (*find_unmodelled(pod, cluster), *diagnosis.undecided)
    if session is None and shares_claims(pod, cluster):
        with open_placement_session(cluster) as own_session:
            return predict_daemon_set(pod, cluster, diagnosis, own_session)
    count = len(diagnosis.nodes)
    bound, unbound = _bind_daemon_pods(pod, cluster, diagnosis.feasible, session)
    node_names = _get_names(cluster, bound)
    if len(node_names) == count:
        return Prediction(_choose_feasible(unmodelled), count, node_names, unmodelled, diagnosis)
    rejected = [*diagnosis.nodes[diagnosis.rejected].tolist(), *unbound]
    unresolvable = find_unresolvable_nodes(pod, cluster, diagnosis.nodes)
    feasibility = Feasibility.NEVER if unresolvable.issuperset(rejected) else Feasibility.NOT_NOW
    pod_for_node = IncomingPod.from_pod(_create_pod_for_node(pod.pod, cluster.nodes.get_name(rejected[0])))
    result = schedule_one(pod_for_node, cluster, run_filters(pod_for_node, cluster))
    return Prediction(
        feasibility, count, node_names, unmodelled, diagnosis, replace(result, diagnosis=diagnosis), unresolvable
    )


def _bind_daemon_pods(
    pod: IncomingPod, cluster: Cluster, feasible: NodeIndices, session: PlacementSession | None
) -> tuple[list[int], list[int]]:
    """Return the feasible nodes that get a pod of a DaemonSet, and those on which none is bound.

    Pods that share a claim take it one after the other. The pods stay until the session ends, if there is one.
    """
    if not shares_claims(pod, cluster):
        errors = find_bind_errors(pod, cluster, feasible)
        bound = [each for each in feasible.tolist() if each not in errors]
        if session is not None:
            for node_index in bound:
                session.assume(pod, node_index)
        return bound, list(errors)
    bound, unbound = [], list[int]()
    for position in range(len(feasible)):
        node, node_index = feasible[position : position + 1], int(feasible[position])
        is_bound = (
            session is not None
            and len(run_filters(pod, cluster, node).feasible) > 0
            and not find_bind_errors(pod, cluster, node)
            and session.assume(pod, node_index)
        )
        (bound if is_bound else unbound).append(node_index)
    return bound, unbound


def with_daemon_tolerations(pod: SchedulingPod) -> SchedulingPod:
    """Return the pod with the tolerations that the controller adds to every pod of a DaemonSet."""
    spec = pod.spec or SchedulingPodSpec()
    tolerated_taints = (*_DAEMON_TOLERATIONS, _HOST_NETWORK_TOLERATION) if spec.host_network else _DAEMON_TOLERATIONS
    tolerations = [Toleration(key, "Exists", effect=effect) for key, effect in tolerated_taints]
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(spec, tolerations=[*(spec.tolerations or ()), *tolerations])
    )


def count_daemon_pods(pod: SchedulingPod, cluster: Cluster) -> int:
    """Return the number of pods that a DaemonSet with this pod makes, by the taints and labels of the nodes.

    Raises:
        QuantityError: if a request is invalid.
    """
    return len(_find_target_nodes(IncomingPod.from_pod(with_default_priority(with_daemon_tolerations(pod))), cluster))


def _find_target_nodes(pod: IncomingPod, cluster: Cluster) -> NodeIndices:
    nodes = cluster.nodes.get_indices()
    is_target = ~node_eligibility.mask_untolerated_taints(pod, cluster)[nodes]
    for status in (
        *node_eligibility.filter_node_name(pod, cluster, nodes),
        *node_eligibility.filter_node_affinity(pod, cluster, nodes),
    ):
        is_target &= ~status.rejected
    return nodes[np.flatnonzero(is_target)]


def _create_pod_for_node(pod: SchedulingPod, node_name: str) -> SchedulingPod:
    """Return the pod for one node (ReplaceDaemonSetPodNodeNameNodeAffinity in daemon/util/daemonset_util.go)."""
    spec = pod.spec or SchedulingPodSpec()
    name_requirement = SelectorRequirement("metadata.name", "In", [node_name])
    affinity_to_node = NodeAffinity(NodeSelector([NodeSelectorTerm(match_fields=[name_requirement])]))
    affinity = msgspec.structs.replace(spec.affinity or Affinity(), node_affinity=affinity_to_node)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, affinity=affinity))


def _filter_capacity(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes whose amounts are too small for the pod even without other pods, and with all devices healthy."""
    for name, requested in {_PODS: 1, **pod.requests}.items():
        short = np.asarray(cluster.nodes.find_capacity(name, nodes) < requested, dtype=np.bool_)
        yield mark_unresolvable(
            f"Insufficient {name}", short & ~node_resources_fit.mask_device_backed(cluster, nodes, name)
        )


_UNRESOLVABLE_FILTERS: Sequence[Filter] = (
    node_eligibility.filter_node_unschedulable,
    node_eligibility.filter_node_name,
    node_eligibility.filter_taint_toleration,
    node_eligibility.filter_node_affinity,
    _filter_capacity,
)
"""The filters whose result depends neither on other pods nor on devices."""


def _mask_unresolvable(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Mask:
    """Return a mask of the nodes on which the pod can never run in its present form, regardless of the other pods."""
    unresolvable = mask_unresolvable_without_devices(pod, cluster, nodes)
    for status in dynamic_resources.filter_published_devices(pod, cluster, nodes):
        unresolvable |= status.rejected
    return unresolvable


def mask_unresolvable_without_devices(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Mask:
    """Return a mask of the nodes that their own fields exclude for the pod: labels, taints and amounts."""
    unresolvable = np.zeros(len(nodes), dtype=np.bool_)
    node_names = node_eligibility.list_named_nodes(pod)
    if node_names is not None:
        unresolvable |= ~np.isin(
            nodes, [node_index for name in node_names if (node_index := cluster.nodes.find_index(name)) is not None]
        )
    for filter_nodes in _UNRESOLVABLE_FILTERS:
        for status in filter_nodes(pod, cluster, nodes):
            unresolvable |= status.rejected
    return unresolvable


def find_unresolvable_nodes(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> frozenset[int]:
    """Return the nodes on which the pod can never run in its present form, regardless of the other pods."""
    return frozenset(nodes[_mask_unresolvable(pod, cluster, nodes)].tolist())


def can_never_run(pod: IncomingPod, cluster: Cluster) -> bool:
    """Return whether no node can ever run a pod; False without nodes, and with unmodelled features."""
    nodes = cluster.nodes.get_indices()
    is_unresolvable = bool(len(nodes)) and bool(_mask_unresolvable(pod, cluster, nodes).all())
    return is_unresolvable and not any(find_unmodelled(pod, cluster))


def find_largest_amounts(pod: IncomingPod, cluster: Cluster) -> Mapping[str, int]:
    """Return the largest amount of each resource that no node has enough of, with the unhealthy devices of the node."""
    maximums = {name: _get_largest_amount(cluster, name) for name in pod.requests}
    return {name: largest for name, largest in maximums.items() if largest < pod.requests[name]}


def _get_largest_amount(cluster: Cluster, resource: str) -> int:
    return int(cluster.nodes.find_capacity(resource, cluster.nodes.get_indices()).max(initial=0))


def find_unmodelled(pod: IncomingPod, cluster: Cluster, *, in_group_cycle: bool = False) -> Iterator[str]:
    """Yield a message for each feature of a pod that is not modelled, without its PodGroup if `in_group_cycle`."""
    yield from _find_unmodelled_volumes(pod, cluster)
    yield from _find_unmodelled_namespaces(pod, cluster)
    if cluster.devices is None:
        yield from _find_unknown_devices(pod, cluster)
    if pod.spec.scheduling_group is not None and not in_group_cycle:
        reason = find_group_problem(pod, cluster)
        text = "a group of pods gets its nodes and devices together, or none"
        yield f"scheduling group{_format_group(pod)}: {text}{f'; {reason}' if reason else ''}"
    for _, annotation in list_requested(pod.pod.metadata.annotations if pod.pod.metadata else None):
        yield f"{annotation}: the annotation requests GPUs of KAI-Scheduler or Run:ai, which no node was asked for"
    if (pod.spec.scheduler_name or _DEFAULT_SCHEDULER) != _DEFAULT_SCHEDULER:
        yield f"scheduler {pod.spec.scheduler_name}: its rules are not known; those of the default one were asked"


def _format_group(pod: IncomingPod) -> str:
    name = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else None
    return f" {name}" if name else ""


def _find_unknown_devices(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    """Yield a message for the claims of a pod, and for each extended resource that a class of devices backs."""
    reason = f": {cluster.devices_problem}" if cluster.devices_problem else ""
    if pod.spec.resource_claims:
        yield f"resource claims: the claims and devices of this cluster are not known{reason}"
    for name in pod.requests:
        if (device_class := cluster.device_classes.find_class(name)) is not None:
            yield f"{name}: the devices of class {device_class} in this cluster are not known{reason}"


def _find_unmodelled_volumes(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    """Yield a message for each feature of a pod's volumes that is not modelled."""
    if cluster.storage is None:
        if list_claim_refs(pod) or any(find_migrated_driver(volume) for volume in pod.spec.volumes or ()):
            yield "volumes: claims, volumes and storage classes of this cluster are not known"
    elif has_migrated_volume(pod, cluster.storage):
        yield "volumes: where a volume built into Kubernetes is reached once its driver serves it is not modelled"


def _find_unmodelled_namespaces(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    """Yield a message if a term selects namespaces by label and the labels of some are unknown."""
    unknown_namespaces = sorted(_find_referenced_namespaces(pod, cluster).difference(cluster.namespaces))
    if unknown_namespaces:
        more = f" and {len(unknown_namespaces) - _MAX_LISTED} more" if len(unknown_namespaces) > _MAX_LISTED else ""
        yield f"affinity: the labels of namespaces are not known: {', '.join(unknown_namespaces[:_MAX_LISTED])}{more}"


def _find_referenced_namespaces(pod: IncomingPod, cluster: Cluster) -> set[str]:
    """Return the namespaces whose labels decide the terms of the pod, or of pods on nodes."""
    namespaces: set[str] = set()
    if any(map(_has_namespace_selector, (*pod.inter_pod.affinity, *pod.inter_pod.anti_affinity))):
        namespaces |= cluster.label_index.namespaces() | {pod.namespace}
    existing_terms = cluster.anti_affinity_index.find_candidate_terms(pod.namespace, pod.labels)
    if any(_has_namespace_selector(term) and term.selector.matches(pod.labels) for term in existing_terms):
        namespaces.add(pod.namespace)
    return namespaces


def _has_namespace_selector(term: AffinityTerm) -> bool:
    return bool(term.namespace_selector.conditions)
