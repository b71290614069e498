"""One attempt to place one pod (schedule_one.go)."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.accounting.scheduling.reference.admitted import admitted
from tests.accounting.scheduling.reference.cluster import PodInfo, cluster_of
from tests.accounting.scheduling.reference.dynamic_resources import ClaimError, claims_of
from tests.accounting.scheduling.reference.fit_error import NodeToStatus, fit_error
from tests.accounting.scheduling.reference.framework import (
    DYNAMIC_RESOURCES,
    PreFiltered,
    run_filters_with_nominated,
    run_pre_filters,
)
from tests.accounting.scheduling.reference.objects import Json, spec_of, status_of
from tests.accounting.scheduling.reference.plugin import Cycle
from tests.accounting.scheduling.reference.preemption import post_filter
from tests.accounting.scheduling.reference.preferred import pre_score_error
from tests.accounting.scheduling.reference.status import Code, Status, unresolvable

_GATED = "Scheduling is blocked due to non-empty scheduling gates"  # pkg/registry/core/pod/strategy.go
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes of an attempt.

    `nodes` are those that fit, one of which is chosen; `nominated` those of which one is nominated, where the scheduler
    cannot tell between them; `message` is that of the condition PodScheduled, empty when the pod is placed or when
    nothing is said at all.
    """

    nodes: frozenset[str] = _NONE
    nominated: frozenset[str] = _NONE
    message: str = ""


class _AttemptError(Exception):
    """A plugin failed, and this is all that is said."""


def schedule(nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json], pod: Json) -> Answer:
    """What the scheduler says of a new pod, given nodes, the other pods and all else.

    Raises:
        NotModelledError: the answer needs what is not transcribed.
    """
    others = list(others)
    new = PodInfo(admitted(pod, others), on_node=False)
    cluster = cluster_of(nodes, pods, others)
    if spec_of(new.pod).get("schedulingGates"):
        return Answer(nominated=_nomination(new), message=_GATED)
    try:
        claims_of(cluster, new.pod)
    except ClaimError:
        return Answer(nominated=_nomination(new))  # PreEnqueue keeps it out of the queue without a word
    if not cluster.nodes:
        return Answer(message="no nodes available to schedule pods")
    try:
        return _schedule(Cycle(cluster), new)
    except _AttemptError as error:
        return Answer(message=str(error))


def _schedule(cycle: Cycle, pod: PodInfo) -> Answer:
    """`schedulingAlgorithm`, schedulePod."""
    statuses = NodeToStatus()
    found = run_pre_filters(cycle, pod)
    if found.status.is_rejected:
        statuses.absent = found.status
        return _failed(cycle, pod, statuses, found.status.message)
    feasible = _find_feasible(cycle, pod, found, statuses)
    if len(feasible) > 1 and (error := pre_score_error(pod.pod)):  # one node alone is not scored
        raise _AttemptError(error)
    return Answer(nodes=frozenset(feasible)) if feasible else _failed(cycle, pod, statuses, "")


def _find_feasible(cycle: Cycle, pod: PodInfo, found: PreFiltered, statuses: NodeToStatus) -> list[str]:
    """`findNodesThatFitPod`. Of 100 nodes or more the scheduler looks at a part only; here all that fit are found."""
    choosing = set(found.plugins)
    for nominated in (each for each in cycle.cluster.nodes if each.name in _nomination(pod)):
        status = run_filters_with_nominated(cycle, pod, nominated)
        if status.is_success:
            return [nominated.name]
        if status.is_rejected:
            statuses.explicit[nominated.name] = status
            choosing.add(status.plugin)  # AddPluginStatus adds to the very set that is printed below
    nodes = [each for each in cycle.cluster.nodes if found.names is None or each.name in found.names]
    if found.names is not None:
        statuses.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(choosing))}]")
    verdicts = {each.name: run_filters_with_nominated(cycle, pod, each) for each in nodes}
    _raise_errors(verdicts.values())
    statuses.explicit |= {name: status for name, status in verdicts.items() if not status.is_success}
    return [name for name, status in verdicts.items() if status.is_success]


def _raise_errors(verdicts: Iterable[Status]) -> None:
    """findNodesThatPassFilters: one failure ends the attempt, whatever other nodes say."""
    error = next((each for each in verdicts if each.code is Code.ERROR), None)
    if error is not None:
        raise _AttemptError(error.message)


def _nomination(pod: PodInfo) -> frozenset[str]:
    """The name of the node that was nominated for the pod earlier, there or gone."""
    name = status_of(pod.pod).get("nominatedNodeName")
    return frozenset({name}) if name else _NONE


def _failed(cycle: Cycle, pod: PodInfo, statuses: NodeToStatus, pre_filter: str) -> Answer:
    """RunPostFilterPlugins, and the FitError that comes of it."""
    status, nominated = DYNAMIC_RESOURCES.post_filter(cycle, pod), _nomination(pod)
    reasons = status.reasons
    if status.code is not Code.ERROR:
        preempted = post_filter(cycle, pod, statuses)
        has_spoken = preempted.status.is_success or preempted.status.code is Code.ERROR
        reasons = preempted.status.reasons if has_spoken else reasons + preempted.status.reasons
        nominated = nominated if preempted.nominated is None else preempted.nominated
    message = fit_error(len(cycle.cluster.nodes), statuses, pre_filter=pre_filter, post_filter=", ".join(reasons))
    return Answer(nominated=nominated, message=message)
