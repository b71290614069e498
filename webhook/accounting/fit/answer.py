"""The answer to whether copies of a pod can run: now, later, never, or as far as is known; node by node if asked."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit import resources, strangers
from webhook.accounting.fit.filtering import Diagnosis
from webhook.accounting.fit.impossible import mask_unresolvable
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.priority import with_resolved_priority
from webhook.accounting.fit.room import PlacementSession
from webhook.accounting.fit.verdict import ScheduleResult, schedule_one
from webhook.accounting.fit.volumes.unknown import find_unmodelled_volumes
from webhook.accounting.node_fit import Shortfall
from webhook.objects.scheduling import SchedulingPod

MAX_CONSUMERS = 5
"""Pods that are told of a node."""
_PODS = "pods"
_DEFAULT_SCHEDULER = "default-scheduler"


class Feasibility(StrEnum):
    """Whether all copies can run."""

    NOW = "fits now"
    NOT_NOW = "not now"
    NEVER = "never on these nodes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeConsumer:
    """A pod on a node that lacks something of which that pod has `amounts`."""

    pod: PodInfo
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeDiagnosis:
    """What one node says: `reasons` in the scheduler's words, none when the pod fits.

    `shortfalls` are all that it lacks, `ever` whether the pod could run there if others left, `holders` the pods that
    have most of what is short, at most five.
    """

    name: str
    reasons: tuple[str, ...]
    shortfalls: tuple[Shortfall, ...] = ()
    can_ever_run: bool = True
    consumers: tuple[NodeConsumer, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """What becomes of `copies` of a pod: those that can run, and on which nodes, one entry for each.

    `verdict` is what the scheduler comes to with the first that cannot; `unknown` names what could not be judged;
    `largest` is the most that any node has of what no node has enough of.
    """

    feasibility: Feasibility
    count: int
    nodes: tuple[str, ...]
    unmodelled: tuple[str, ...] = ()
    schedule_result: ScheduleResult | None = None
    largest_allocatable: Mapping[str, int] = field(default_factory=dict)

    @property
    def placed_count(self) -> int:
        """How many copies can run now."""
        return len(self.nodes)


def predict_copies(pod: SchedulingPod, cluster: Cluster, session: PlacementSession, count: int = 1) -> Prediction:
    """Place copies of a pod on a cluster, for as long as the visit lasts, and say what becomes of them.

    Raises:
        QuantityError: a quantity that the pod asks for, or the size of a claim or volume that it needs, is none.
        NoPriorityClassError: it names a class that is not there.
        SelectorError: a claim of it has a selector that is none.
    """
    incoming = IncomingPod.from_pod(with_resolved_priority(pod, cluster.priority_classes))
    unmodelled = tuple(find_unmodelled(incoming, cluster))
    nodes = () if incoming.spec.scheduling_gates else session.place(pod, count)
    node_names = tuple(cluster.nodes.get_name(node_index) for node_index in nodes)
    if len(node_names) == count:
        return Prediction(Feasibility.UNKNOWN if unmodelled else Feasibility.NOW, count, node_names, unmodelled)
    result = schedule_one(pod, cluster)
    if node_names or not _is_unresolvable(incoming, cluster, result):
        return Prediction(Feasibility.NOT_NOW, count, node_names, unmodelled, result)
    return Prediction(
        Feasibility.NEVER, count, node_names, unmodelled, result, find_largest_allocatable(incoming, cluster)
    )


def find_unmodelled(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    """What of a pod is not judged here."""
    yield from find_unmodelled_volumes(pod, cluster)
    yield from strangers.find_unmodelled_namespaces(pod, cluster)
    if pod.spec.resource_claims:
        yield "resource claims: which devices are free for them is not modelled"
    for name in pod.requests:
        if (device_class := cluster.device_classes.find_class(name)) is not None:
            yield f"{name}: which devices of class {device_class} are free for it is not modelled"
    if (pod.spec.scheduler_name or _DEFAULT_SCHEDULER) != _DEFAULT_SCHEDULER:
        yield f"scheduler {pod.spec.scheduler_name}: its rules are not known; those of the default one were asked"


def diagnose_node(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, node_index: int) -> NodeDiagnosis:
    """What one of the nodes says that were asked."""
    columns = cluster.nodes
    reasons = diagnosis.reasons(node_index)
    if not reasons:
        return NodeDiagnosis(columns.get_name(node_index), ())
    shortfalls = resources.find_shortfalls(pod, cluster, node_index)
    (is_impossible,) = mask_unresolvable(pod, cluster, diagnosis.nodes[diagnosis.nodes == node_index]).tolist()
    return NodeDiagnosis(
        columns.get_name(node_index),
        reasons,
        shortfalls,
        not is_impossible,
        () if is_impossible else _find_top_consumers(cluster, node_index, shortfalls),
    )


def _is_unresolvable(pod: IncomingPod, cluster: Cluster, result: ScheduleResult) -> bool:
    """Whether no node that was asked can ever run the pod."""
    nodes = (
        None if result.diagnosis is None or result.diagnosis.pre_filter_status is not None else result.diagnosis.nodes
    )
    return nodes is not None and bool(len(nodes)) and bool(mask_unresolvable(pod, cluster, nodes).all())


def find_largest_allocatable(pod: IncomingPod, cluster: Cluster) -> Mapping[str, int]:
    """The most that any node has of each resource that no node has enough of."""
    maximums = {name: _get_max_allocatable(cluster, name) for name in pod.requests}
    return {name: largest for name, largest in maximums.items() if largest < pod.requests[name]}


def _get_max_allocatable(cluster: Cluster, resource: str) -> int:
    column = cluster.nodes.find_allocatable_column(resource)
    return 0 if column is None else int(column.array[cluster.nodes.get_indices()].max(initial=0))


def _find_top_consumers(cluster: Cluster, node_index: int, shortfalls: Iterable[Shortfall]) -> tuple[NodeConsumer, ...]:
    """The pods that have most of what is short there; of several things, of the first."""
    names = [each.resource for each in shortfalls if each.resource != _PODS]
    consumers = [
        NodeConsumer(pod, amounts)
        for pod in cluster.get_node_pods(node_index).values()
        if (amounts := {name: pod.group.requests[name] for name in names if name in pod.group.requests})
    ]
    consumers.sort(key=lambda each: ([-each.amounts.get(name, 0) for name in names], each.pod.namespace, each.pod.name))
    return tuple(consumers[:MAX_CONSUMERS])
