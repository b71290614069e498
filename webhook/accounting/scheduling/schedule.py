"""One attempt of the scheduler to place a pod: a node, or a message and possibly a nominated node.

Source: schedulingAlgorithm, schedulePod and findNodesThatFitPod in pkg/scheduler/schedule_one.go, RunPostFilterPlugins
in framework/runtime/framework.go, applySchedulingGatedCondition in pkg/registry/core/pod/strategy.go, v1.36.

Preferred node affinity may be invalid; the scheduler fails on it when it scores more than one feasible node. Source:
PreScore in plugins/nodeaffinity/node_affinity.go, NewPreferredSchedulingTerms in component-helpers
scheduling/corev1/nodeaffinity/nodeaffinity.go, NewRequirement in apimachinery pkg/labels/selector.go, v1.36. The API
server accepts such terms on purpose ("they can success when cluster has only one node").
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.problem import encode_go_json
from webhook.accounting.scheduling.filters import Diagnosis, format_fit_error, run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod, with_resolved_priority
from webhook.accounting.scheduling.preemption import PreemptionResult, preempt
from webhook.accounting.scheduling.unmodelled import find_unmodelled_namespaces, find_unmodelled_volumes
from webhook.accounting.selectors import find_label_value_errors, join_errors, parse_int64
from webhook.objects.meta import NodeSelectorTerm, SelectorRequirement
from webhook.objects.scheduling import SchedulingPod

_NOT_AN_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"

GATED = "Scheduling is blocked due to non-empty scheduling gates"
"""The message that the API server writes into the status of a pod with scheduling gates."""

_NO_CLAIMS = "no new claims to deallocate"
# DynamicResources is the first post-filter plugin. Its pre-filter stores a state before the filters run, unless an
# earlier plugin rejects the pod; "not found" is its error about the missing state.
_STATE_NOT_FOUND = "not found"


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """The nodes of which the scheduler selects one; without any, `message` is the scheduler's message.

    `diagnosis` stays None if the filters did not run, `preemption` stays None if preemption did not run. `unmodelled`
    names the features that were not evaluated; with any of them the result is uncertain. `nominated_nodes` has the
    nodes of which one is nominated for a pod that fits no node: by preemption now, or by an earlier one.
    """

    nodes: tuple[str, ...]
    message: str = ""
    diagnosis: Diagnosis | None = None
    preemption: PreemptionResult | None = None
    unmodelled: tuple[str, ...] = ()
    nominated_nodes: tuple[str, ...] = ()

    @property
    def is_schedulable(self) -> bool:
        """Whether a node is feasible now."""
        return bool(self.nodes)


def schedule_one(pod: SchedulingPod, cluster: Cluster) -> ScheduleResult:
    """Schedule a pod on a cluster once, without changing the cluster.

    Raises:
        QuantityError: if a request, or the size of a claim or volume, is invalid.
        NoPriorityClassError: if the pod names a missing class.
        SelectorError: if a claim has an invalid selector.
    """
    incoming = IncomingPod.from_pod(with_resolved_priority(pod, cluster.priority_classes))
    if incoming.spec.scheduling_gates:
        return ScheduleResult((), GATED, nominated_nodes=_get_current_nomination(incoming))
    diagnosis = run_filters(incoming, cluster)
    unmodelled = (*find_unmodelled_volumes(incoming, cluster), *find_unmodelled_namespaces(incoming, cluster))
    return replace(select_or_preempt(incoming, cluster, diagnosis), diagnosis=diagnosis, unmodelled=unmodelled)


def _get_current_nomination(pod: IncomingPod) -> tuple[str, ...]:
    """Return the node that is nominated for the pod already, if any."""
    return (pod.nominated_node,) if pod.nominated_node else ()


def select_or_preempt(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> ScheduleResult:
    """Return the feasible nodes of a diagnosis, or the result of preemption without any."""
    if diagnosis.error:
        return ScheduleResult((), diagnosis.error)
    nodes = tuple(_select_nodes(pod, cluster, diagnosis))
    if nodes:
        error = find_pre_score_error(pod) if len(nodes) > 1 else ""
        return ScheduleResult((), error) if error else ScheduleResult(nodes)
    if not len(diagnosis.nodes):
        return ScheduleResult((), format_fit_error(diagnosis))
    if diagnosis.pre_filter_status is not None:
        return ScheduleResult(
            (), format_fit_error(diagnosis, _STATE_NOT_FOUND), nominated_nodes=_get_current_nomination(pod)
        )
    preemption = preempt(pod, cluster, diagnosis)
    nominated = tuple(cluster.nodes.get_name(each.place) for each in preemption.best_candidates)
    current = _get_current_nomination(pod) if preemption.keeps_nomination else ()
    return ScheduleResult(
        (),
        format_fit_error(diagnosis, format_post_filter_message(preemption)),
        preemption=preemption,
        nominated_nodes=nominated or current,
    )


def _select_nodes(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> Iterator[str]:
    """Return the names of the feasible nodes; only the nominated node if it is feasible."""
    node_names = [cluster.nodes.get_name(node_index) for node_index in diagnosis.feasible.tolist()]
    return iter([pod.nominated_node] if pod.nominated_node in node_names else node_names)


def find_pre_score_error(pod: IncomingPod) -> str:
    """Return the scheduler's error for a pod whose preferred node affinity is invalid; empty if valid."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    preferred = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
    errors = [
        error
        for index, term in enumerate(preferred)
        if term.weight
        for error in _find_term_errors(f"[{index}]", term.preference or NodeSelectorTerm())
    ]
    return f'running PreScore plugin "NodeAffinity": {join_errors(errors)}' if errors else ""


def _find_term_errors(path: str, term: NodeSelectorTerm) -> Iterator[str]:
    for index, requirement in enumerate(term.match_expressions or ()):
        yield from _find_value_errors(f"{path}.matchExpressions[{index}].values", requirement)


def _find_value_errors(path: str, requirement: SelectorRequirement) -> Iterator[str]:
    values = list(enumerate(requirement.values or ()))
    if requirement.operator in ("Gt", "Lt"):
        for index, value in values:
            if parse_int64(value) is None:
                yield f"{path}[{index}]: Invalid value: {encode_go_json(value)}: {_NOT_AN_INTEGER}"
    for index, value in values:
        if errors := find_label_value_errors(value):
            yield f"{path}[{index}][{requirement.key}]: Invalid value: {encode_go_json(value)}: {'; '.join(errors)}"


def format_post_filter_message(preemption: PreemptionResult) -> str:
    """Return the text that preemption adds to the fit error; empty if preemption has victims."""
    if not preemption.message:
        return ""
    message = f"preemption: {preemption.message}"
    return message if preemption.is_error else f"{_NO_CLAIMS}, {message}"
