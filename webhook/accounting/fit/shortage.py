"""Whether copies of a pod have room now, and if not, whether the scheduler makes room, as far as that is soon told.

`answer` and `verdict` say it to the letter, and try a hundred nodes for whom to ask to leave. Here a few are tried.
"""

from dataclasses import dataclass

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit import neighbours, spread
from webhook.accounting.fit.filtering import Diagnosis, run_filters
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.preemption.dry_run import PreemptionCandidate, select_victims_on_node
from webhook.accounting.fit.preemption.vain import exclude_hopeless_nodes
from webhook.accounting.fit.rejection import NodeIndices
from webhook.accounting.fit.room import count_max_copies, is_independent, open_placement_session
from webhook.accounting.fit.verdict import select_or_preempt
from webhook.objects.scheduling import SchedulingPod

_POLICY_NEVER = "Never"
_MAX_DRY_RUNS = 3  # on each, every pod of a lower priority is thought away and back


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """On this node `pods` would have to leave, all of a lower priority; others may be asked on another."""

    node: str
    victims: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class QuickPrediction:
    """So many copies are `placed`, and the next has no room: in the scheduler's words, or since others must `leave`."""

    placed_count: int
    message: str = ""
    candidate: NodeVictims | None = None


def predict_quickly(
    pod: SchedulingPod, incoming: IncomingPod, cluster: Cluster, count: int, diagnosis: Diagnosis
) -> QuickPrediction | None:
    """What keeps some of so many copies out, of which nodes say `first` to the first.

    None when all have room, and when it is not soon told whether others would be asked to leave.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
    """
    if count == 1:
        return None if len(diagnosis.feasible) else _predict_next_copy(0, incoming, cluster, diagnosis)
    if is_independent(incoming) and int(count_max_copies(incoming, cluster, diagnosis.feasible).sum()) >= count:
        return None
    with open_placement_session(cluster) as session:
        placed_count = len(session.place(pod, count))
        return (
            None
            if placed_count == count
            else _predict_next_copy(placed_count, incoming, cluster, run_filters(incoming, cluster))
        )


def _predict_next_copy(
    placed_count: int, pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis
) -> QuickPrediction | None:
    """Of a copy to which nodes say this, which none of them takes."""
    nodes = _find_preemption_nodes(pod, cluster, diagnosis)
    for node_index in nodes[:_MAX_DRY_RUNS].tolist():
        result = select_victims_on_node(pod, cluster, node_index)
        if isinstance(result, PreemptionCandidate):
            return QuickPrediction(
                placed_count, candidate=NodeVictims(cluster.nodes.get_name(node_index), result.victims)
            )
    return (
        None
        if len(nodes) > _MAX_DRY_RUNS
        else QuickPrediction(placed_count, select_or_preempt(pod, cluster, diagnosis).message)
    )


def _find_preemption_nodes(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> NodeIndices:
    """The nodes on which asking others to leave may help."""
    if pod.spec.preemption_policy == _POLICY_NEVER or diagnosis.pre_filter_status is not None:
        return diagnosis.nodes[:0]
    nodes = diagnosis.resolvable
    is_excluded, _ = exclude_hopeless_nodes(pod, cluster, nodes)
    return _sort_by_likelihood(pod, cluster, nodes[~is_excluded])


def _sort_by_likelihood(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> NodeIndices:
    """First those that the pod's company lets it be on as it is: of a node without room the filters ask no further."""
    rejected = np.zeros(len(nodes), dtype=np.bool_)
    for filter_nodes in (spread.filter_topology_spread, neighbours.filter_inter_pod_affinity):
        for status in filter_nodes(pod, cluster, nodes) if len(nodes) > _MAX_DRY_RUNS else ():
            rejected |= status.rejected
    return np.concatenate([nodes[~rejected], nodes[rejected]])
