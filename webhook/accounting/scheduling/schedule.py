"""What the scheduler comes to when it tries a pod once: a node, or a sentence and perhaps a promise.

Source: schedulingAlgorithm, schedulePod and findNodesThatFitPod in pkg/scheduler/schedule_one.go, RunPostFilterPlugins
in framework/runtime/framework.go, applySchedulingGatedCondition in pkg/registry/core/pod/strategy.go, v1.36.

Preferences for nodes that the scheduler stumbles over when it has more than one node to choose from.

Source: PreScore in plugins/nodeaffinity/node_affinity.go, NewPreferredSchedulingTerms in component-helpers
scheduling/corev1/nodeaffinity/nodeaffinity.go, NewRequirement in apimachinery pkg/labels/selector.go, v1.36. The API
server knowingly lets them through ("they can success when cluster has only one node").
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


def find_pre_score_error(pod: IncomingPod) -> str:
    """What the scheduler says of a pod that it cannot choose a node for; empty when it can."""
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


GATED = "Scheduling is blocked due to non-empty scheduling gates"
"""What the API server writes into the status of a pod that has gates."""

_NO_CLAIMS = "no new claims to deallocate"
# DynamicResources is the first to be asked when a pod fits nowhere. What it then misses is what it would have noted
# before the nodes were asked, had not an earlier plugin refused the pod: "not found" is about that note.
_STATE_NOT_FOUND = "not found"


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """`nodes` are those of which the scheduler takes one; if there are none, `sentence` is what it writes.

    `said` is what each node said, None if none was asked; `preemption` what came of asking others to leave, if that
    came up; `unknown` names what was not judged, without which nothing here is certain. `nominated` are nodes of which
    one is promised to a pod that fits nowhere: where room is made for it, or where it was made before.
    """

    nodes: tuple[str, ...]
    message: str = ""
    diagnosis: Diagnosis | None = None
    preemption: PreemptionResult | None = None
    unmodelled: tuple[str, ...] = ()
    nominated_nodes: tuple[str, ...] = ()

    @property
    def is_schedulable(self) -> bool:
        """Whether there is a node for it now."""
        return bool(self.nodes)


def schedule_one(pod: SchedulingPod, cluster: Cluster) -> ScheduleResult:
    """What becomes of a pod that is tried on a cluster now.

    Raises:
        QuantityError: a quantity that the pod asks for, or the size of a claim or volume that it needs, is none.
        NoPriorityClassError: it names a class that is not there.
        SelectorError: a claim of it has a selector that is none.
    """
    incoming = IncomingPod.from_pod(with_resolved_priority(pod, cluster.priority_classes))
    if incoming.spec.scheduling_gates:
        return ScheduleResult((), GATED, nominated_nodes=_get_current_nomination(incoming))
    diagnosis = run_filters(incoming, cluster)
    unmodelled = (*find_unmodelled_volumes(incoming, cluster), *find_unmodelled_namespaces(incoming, cluster))
    return replace(select_or_preempt(incoming, cluster, diagnosis), diagnosis=diagnosis, unmodelled=unmodelled)


def select_or_preempt(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> ScheduleResult:
    """What comes of what the nodes have said."""
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


def _get_current_nomination(pod: IncomingPod) -> tuple[str, ...]:
    """The node that was promised to the pod."""
    return (pod.nominated_node,) if pod.nominated_node else ()


def format_post_filter_message(preemption: PreemptionResult) -> str:
    """What the scheduler adds to its sentence; nothing when somebody is asked to leave."""
    if not preemption.message:
        return ""
    message = f"preemption: {preemption.message}"
    return message if preemption.is_error else f"{_NO_CLAIMS}, {message}"


def _select_nodes(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> Iterator[str]:
    """The names of the nodes that fit; only the one that is promised to the pod, if it is among them."""
    node_names = [cluster.nodes.get_name(node_index) for node_index in diagnosis.feasible.tolist()]
    return iter([pod.nominated_node] if pod.nominated_node in node_names else node_names)
