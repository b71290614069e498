"""The results of filters: a status for each reason, the diagnosis of all nodes, and the fit error.

Source of the statuses: Unschedulable and UnschedulableAndUnresolvable in kube-scheduler framework/interface.go; of the
fit error: FitError.Error in pkg/scheduler/framework/types.go, v1.36.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from tallygate.accounting.cluster.columns import Mask, NodeIndices

_NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True, eq=False)
class FilterStatus:
    """One reason of a filter, and the nodes that it rejects: `rejected` is a mask over the evaluated nodes.

    `unresolvable` marks the rejected nodes on which no preemption helps. `plugin` is the filter's plugin; the caller of
    the filter sets it. `is_error` marks a failure of the filter, on which the scheduler aborts the attempt.
    `is_undecided` marks nodes on which the scheduler has a result that is not known here.
    """

    reason: str
    rejected: Mask
    unresolvable: Mask
    plugin: str = ""
    is_error: bool = False
    is_undecided: bool = False


def mark_unresolvable(reason: str, rejected: Mask) -> FilterStatus:
    """Return a status that preemption cannot resolve."""
    return FilterStatus(reason, rejected, rejected)


def mark_unschedulable(reason: str, rejected: Mask) -> FilterStatus:
    """Return a status that preemption may resolve."""
    return FilterStatus(reason, rejected, np.zeros(len(rejected), dtype=np.bool_))


@dataclass(frozen=True, slots=True)
class PreFilterStatus:
    """The reason of a pre-filter for a pod that fits no node, and whether it is an error; no preemption helps.

    `is_by_devices` is set for the reason of DynamicResources, which runs last.
    """

    reason: str
    is_error: bool = False
    is_by_devices: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """The results of all filters: `statuses` are masks over `nodes`, each node's from the first plugin that rejects it.

    `pre_filter_status` is set if a pre-filter rejects the pod; the filters did not run then.
    """

    nodes: NodeIndices
    statuses: tuple[FilterStatus, ...]
    pre_filter_status: PreFilterStatus | None = None

    @property
    def feasible(self) -> NodeIndices:
        """The indices of the nodes that the pod fits on."""
        return self.nodes[~self.rejected]

    @property
    def resolvable(self) -> NodeIndices:
        """The indices of the nodes that reject the pod and where preemption might help."""
        if self.pre_filter_status is not None:
            return self.nodes[:0]
        unresolvable = np.zeros(len(self.nodes), dtype=np.bool_)
        for status in self.statuses:
            unresolvable |= status.unresolvable
        return self.nodes[self.rejected & ~unresolvable]

    @property
    def rejected(self) -> Mask:
        """A mask of the nodes that reject the pod."""
        rejected = np.full(len(self.nodes), self.pre_filter_status is not None, dtype=np.bool_)
        for status in self.statuses:
            rejected |= status.rejected
        return rejected

    @property
    def undecided(self) -> tuple[str, ...]:
        """The reasons why the scheduler's result for some nodes is not known here."""
        return tuple(status.reason for status in self.statuses if status.is_undecided and status.rejected.any())

    @property
    def error(self) -> str:
        """The error that ends the scheduler's attempt if there is a node; empty without an error."""
        if self.pre_filter_status is not None and self.pre_filter_status.is_error and len(self.nodes):
            return self.pre_filter_status.reason
        errors = (status for status in self.statuses if status.is_error and status.rejected.any())
        return next((f'running "{error.plugin}" filter plugin: {error.reason}' for error in errors), "")

    def reasons(self, node_index: int) -> tuple[str, ...]:
        """Return the reasons of one node for rejecting the pod; empty if the node is feasible."""
        if self.pre_filter_status is not None:
            return (self.pre_filter_status.reason,)
        (position,) = np.flatnonzero(self.nodes == node_index)
        return tuple(status.reason for status in self.statuses if status.rejected[position])

    def count_reasons(self) -> Counter[str]:
        """Return the number of nodes for each reason of a filter."""
        counts: Counter[str] = Counter()
        for status in self.statuses:
            counts[status.reason] += int(status.rejected.sum())
        return counts

    def restrict_to(self, nodes: NodeIndices) -> "Diagnosis":
        """Return the diagnosis of some of the nodes, as the filters would give it for them alone."""
        positions = np.flatnonzero(np.isin(self.nodes, nodes))
        statuses = (
            replace(status, rejected=status.rejected[positions], unresolvable=status.unresolvable[positions])
            for status in self.statuses
        )
        return Diagnosis(
            self.nodes[positions], tuple(status for status in statuses if status.rejected.any()), self.pre_filter_status
        )


def format_fit_error(diagnosis: Diagnosis, post_filter_message: str = "") -> str:
    """Return `0/5 nodes are available: …`; `post_filter_message` is the result of preemption."""
    if not len(diagnosis.nodes):
        return _NO_NODES
    total = len(diagnosis.nodes)
    message = (
        f"{_format_prefix(total)} {diagnosis.pre_filter_status.reason}."
        if diagnosis.pre_filter_status
        else format_reason_counts(total, diagnosis.count_reasons())
    )
    return f"{message} {post_filter_message}" if post_filter_message else message


def _format_prefix(total: int) -> str:
    return f"0/{total} nodes are available:"


def format_reason_counts(total: int, reason_counts: Counter[str]) -> str:
    """Format the number of nodes for each reason. The parts are sorted as text, as the scheduler does."""
    histogram = ", ".join(sorted(f"{number} {reason}" for reason, number in (+reason_counts).items()))
    return f"{_format_prefix(total)} {histogram}." if histogram else _format_prefix(total)
