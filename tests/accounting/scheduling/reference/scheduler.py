"""One attempt to place one pod (schedule_one.go)."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.accounting.scheduling.reference.admission_defaults import apply_admission
from tests.accounting.scheduling.reference.cluster import PodInfo, create_cluster
from tests.accounting.scheduling.reference.dynamic_resources import ClaimError, list_claims
from tests.accounting.scheduling.reference.fit_error import NodeToStatus, format_fit_error
from tests.accounting.scheduling.reference.framework import (
    DYNAMIC_RESOURCES,
    PreFilterResult,
    run_filters_with_nominated,
    run_pre_filters,
)
from tests.accounting.scheduling.reference.objects import Json, get_spec, get_status
from tests.accounting.scheduling.reference.plugin import Cycle
from tests.accounting.scheduling.reference.preemption import post_filter
from tests.accounting.scheduling.reference.preferred import find_pre_score_error
from tests.accounting.scheduling.reference.status import Code, Status, unresolvable

_GATED = "Scheduling is blocked due to non-empty scheduling gates"  # pkg/registry/core/pod/strategy.go
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of an attempt.

    `nodes` are the feasible nodes, one of which is chosen; `nominated` are the equal nodes, one of which is nominated;
    `message` is the message of the condition PodScheduled, empty when the pod is placed or has no condition.
    """

    nodes: frozenset[str] = _NONE
    nominated: frozenset[str] = _NONE
    message: str = ""


class _AttemptError(Exception):
    """A plugin failed; its error is the whole message."""


def schedule(nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json], pod: Json, minor: int = 36) -> Answer:
    """Return the scheduler's answer for a new pod, given the nodes, the other pods and all other objects.

    Raises:
        NotModelledError: if the answer needs a feature that is not transcribed.
    """
    others = list(others)
    new = PodInfo(apply_admission(pod, others), on_node=False)
    cluster = create_cluster(nodes, pods, others)
    if get_spec(new.pod).get("schedulingGates"):
        return Answer(nominated=_get_nomination(new), message=_GATED)
    try:
        list_claims(cluster, new.pod)
    except ClaimError:
        return Answer(nominated=_get_nomination(new))  # PreEnqueue keeps it out of the queue without a message
    if not cluster.nodes:
        return Answer(message="no nodes available to schedule pods")
    try:
        return _schedule(Cycle(cluster, minor=minor), new)
    except _AttemptError as error:
        return Answer(message=str(error))


def _schedule(cycle: Cycle, pod: PodInfo) -> Answer:
    """Implement `schedulingAlgorithm`, schedulePod."""
    statuses = NodeToStatus()
    found = run_pre_filters(cycle, pod)
    if found.status.is_rejected:
        statuses.absent = found.status
        return _fail(cycle, pod, statuses, found.status.message)
    feasible = _find_feasible(cycle, pod, found, statuses)
    if len(feasible) > 1 and (error := find_pre_score_error(pod.pod)):  # a single node is not scored
        raise _AttemptError(error)
    return Answer(nodes=frozenset(feasible)) if feasible else _fail(cycle, pod, statuses, "")


def _find_feasible(cycle: Cycle, pod: PodInfo, found: PreFilterResult, statuses: NodeToStatus) -> list[str]:
    """Implement `findNodesThatFitPod`. Of 100 nodes or more the scheduler tries a part; here all are tried."""
    choosing = set(found.plugins)
    for nominated in (each for each in cycle.cluster.nodes if each.name in _get_nomination(pod)):
        status = run_filters_with_nominated(cycle, pod, nominated)
        if status.is_success:
            return [nominated.name]
        if status.is_rejected:
            statuses.explicit[nominated.name] = status
            choosing.add(status.plugin)  # AddPluginStatus adds to the same set that is printed below
    nodes = [each for each in cycle.cluster.nodes if found.names is None or each.name in found.names]
    if found.names is not None:
        statuses.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(choosing))}]")
    verdicts = {each.name: run_filters_with_nominated(cycle, pod, each) for each in nodes}
    _raise_errors(verdicts.values())
    statuses.explicit |= {name: status for name, status in verdicts.items() if not status.is_success}
    return [name for name, status in verdicts.items() if status.is_success]


def _raise_errors(verdicts: Iterable[Status]) -> None:
    """Raise the first error (findNodesThatPassFilters): one failure ends the attempt for all nodes."""
    error = next((each for each in verdicts if each.code is Code.ERROR), None)
    if error is not None:
        raise _AttemptError(error.message)


def _get_nomination(pod: PodInfo) -> frozenset[str]:
    """Return the name of the node that was nominated for the pod earlier, existing or not."""
    name = get_status(pod.pod).get("nominatedNodeName")
    return frozenset({name}) if name else _NONE


def _fail(cycle: Cycle, pod: PodInfo, statuses: NodeToStatus, pre_filter: str) -> Answer:
    """Run RunPostFilterPlugins and return the answer with its FitError."""
    status, nominated = DYNAMIC_RESOURCES.post_filter(cycle, pod), _get_nomination(pod)
    reasons = status.reasons
    if status.code is not Code.ERROR:
        preemption = post_filter(cycle, pod, statuses)
        is_final = preemption.status.is_success or preemption.status.code is Code.ERROR
        reasons = preemption.status.reasons if is_final else reasons + preemption.status.reasons
        nominated = nominated if preemption.nominated is None else preemption.nominated
    message = format_fit_error(
        len(cycle.cluster.nodes), statuses, pre_filter=pre_filter, post_filter=", ".join(reasons)
    )
    return Answer(nominated=nominated, message=message)
