"""The result of a filter: the rejected nodes, the scheduler's reason, and whether preemption could help."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import Mask, NodeIndices
from webhook.accounting.scheduling.incoming_pod import IncomingPod


@dataclass(frozen=True, slots=True, eq=False)
class FilterStatus:
    """One reason of a filter, and the nodes that it rejects: `rejected` is a mask over the evaluated nodes.

    `unresolvable` marks the rejected nodes on which no preemption helps. `plugin` is the filter's plugin; the caller of
    the filter sets it. `is_error` marks a failure of the filter, on which the scheduler aborts the attempt.
    (Unschedulable and UnschedulableAndUnresolvable in kube-scheduler framework/interface.go, v1.36.)
    """

    reason: str
    rejected: Mask
    unresolvable: Mask
    plugin: str = ""
    is_error: bool = False


Filter = Callable[[IncomingPod, Cluster, NodeIndices], Iterable[FilterStatus]]
"""A function that evaluates a pod on nodes. Nodes that it does not reject pass. It may omit empty statuses."""


def mark_unresolvable(reason: str, rejected: Mask) -> FilterStatus:
    """Return a status that preemption cannot resolve."""
    return FilterStatus(reason, rejected, rejected)


def mark_unschedulable(reason: str, rejected: Mask) -> FilterStatus:
    """Return a status that preemption may resolve."""
    return FilterStatus(reason, rejected, np.zeros(len(rejected), dtype=np.bool_))
