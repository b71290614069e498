"""The evaluation of node rules, and the number of pods of DaemonSets, by the columns of a state.

Only these need numpy, so that they are imported for a state with columns alone.
"""

from functools import partial

from tallygate.answers.checker import NodeCheck
from tallygate.cluster.cluster_state import ClusterState
from tallygate.review.applied_workload import DaemonPodCounter


def create_node_check(state: ClusterState) -> NodeCheck | None:
    """Return the check of node rules; None for a state without columns."""
    if state.columns is None:
        return None
    from tallygate.review.cluster_snapshot import FixedSnapshot  # noqa: PLC0415  see the docstring
    from tallygate.review.schedulability import check_schedulability  # noqa: PLC0415  likewise

    cluster = state.columns
    return lambda decoded, selection, devices, has_pods: check_schedulability(
        decoded, selection, FixedSnapshot(cluster, has_pods=has_pods), devices
    )


def create_daemon_counter(state: ClusterState) -> DaemonPodCounter | None:
    """Return the function that counts the pods of a DaemonSet by the nodes; None for a state without nodes."""
    if state.columns is None or not len(state.columns.nodes):
        return None
    from tallygate.review.cluster_snapshot import FixedSnapshot  # noqa: PLC0415  see the docstring
    from tallygate.review.schedulability import count_pods_on_nodes  # noqa: PLC0415  likewise

    return partial(count_pods_on_nodes, snapshots=FixedSnapshot(state.columns, has_pods=False))
