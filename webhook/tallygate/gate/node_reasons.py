"""Parts of messages on nodes: why no node can ever run a pod, the devices that it lacks, the pods that it preempts."""

from collections.abc import Callable
from functools import partial

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.node_fit import format_unhealthy
from tallygate.accounting.scheduling.diagnosis import Diagnosis, format_fit_error
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_diagnosis import list_unhealthy_devices
from tallygate.accounting.scheduling.prediction import can_never_run, find_largest_amounts
from tallygate.accounting.scheduling.victims import PreemptionCandidate
from tallygate.gate.device_reasons import describe_missing_devices
from tallygate.gate.pending_amounts import PendingAmounts
from tallygate.gate.possible_nodes import PossibleNodes

_MAX_PODS = 3


def find_never_reason(
    pod: IncomingPod,
    cluster: Cluster,
    possible_nodes: PossibleNodes,
    pending: PendingAmounts,
    diagnose: Callable[[], Diagnosis],
) -> str:
    """Return the reason why no node can ever run a pod; empty if one can, or may with amounts that nodes will get.

    `diagnose` returns the diagnosis of the pod on all nodes.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
    """
    settled = pending.remove_from(pod)
    if not can_never_run(settled, cluster) or possible_nodes.may_run(settled):
        return ""
    settled_diagnosis = diagnose if settled is pod else partial(run_filters, settled, cluster)
    return f"no node can ever run this pod: {_describe_obstacle(settled, cluster, possible_nodes, settled_diagnosis)}"


def _describe_obstacle(
    pod: IncomingPod, cluster: Cluster, possible_nodes: PossibleNodes, diagnose: Callable[[], Diagnosis]
) -> str:
    maximums = {
        name: largest
        for name, largest in find_largest_amounts(pod, cluster).items()
        if largest or cluster.device_classes.find_class(name) is None
    }
    if not maximums:
        diagnosis = diagnose()
        return add_devices(format_fit_error(diagnosis).rstrip("."), pod, cluster, diagnosis, ever=True)
    requested = " and ".join(
        f"{format_amount(name, pod.requests[name])} {name}, {possible_nodes.describe_largest(name, largest)}"
        for name, largest in maximums.items()
    )
    return f"it requests {requested}"


def add_devices(message: str, pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, *, ever: bool) -> str:
    """Return a message with the devices that a pod lacks, and with those that it requests and are unhealthy.

    With `ever`, devices in use count as if they were free.
    """
    missing = describe_missing_devices(pod, cluster, diagnosis, ever=ever)
    unhealthy = format_unhealthy(list_unhealthy_devices(pod, cluster))
    return "; ".join(filter(None, (message, missing, unhealthy)))


def describe_victims(candidate: PreemptionCandidate, cluster: Cluster, namespace: str) -> str:
    """Return the pods that are preempted as text, with names only for those in one namespace."""
    node_name = cluster.nodes.get_name(candidate.node_index)
    own_names = sorted(victim.name for victim in candidate.victims if victim.namespace == namespace)
    listed = own_names[:_MAX_PODS]
    unlisted = len(candidate.victims) - len(listed)
    if not listed:
        return f"{unlisted} of other namespaces on node {node_name}, for example"
    more = f" and {unlisted} more" if unlisted else ""
    return f"{', '.join(listed)}{more} on node {node_name}, for example"
