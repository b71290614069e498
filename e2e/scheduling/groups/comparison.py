"""The differences between the predictions of the pods of a group and the results of the scheduler."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy

import msgspec

from e2e.errors import ClusterError
from e2e.local.build import kubernetes_version
from e2e.scheduling.groups.group_runner import RecordedGroup
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.kubernetes_versions.version import parse_minor, select_version
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_choice import find_choices
from tallygate.accounting.scheduling.placement import PlacementSession, open_placement_session
from tallygate.accounting.scheduling.pod_group_cycle import GroupCycle
from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.accounting.scheduling.schedule import schedule_one
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING
from tallygate.answers.group_predictions import GroupPredictions
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.prediction_details import PredictionDetails
from tests.accounting.scheduling.clusters import decode_pod
from tests.accounting.scheduling.product_scheduler import create_full_cluster, list_filter_errors

_OF_OTHER = "failed to schedule other pod from a pod group: "
_PREEMPTION = "pod group preemption: "
_UNSCHEDULABLE = "pod group is unschedulable, "
_MAX_STEPS = 2_000
_COMPLETED = re.compile(
    r", (deallocation and deletion of ResourceClaims|deallocation of PodGroup ResourceClaim) completed$"
)


def create_group_cluster(case: RecordedGroup) -> Cluster:
    """Return the cluster with the group, of a scheduler that is known to have the gate."""
    version = select_version(parse_minor(kubernetes_version()))
    cluster = create_full_cluster(case.nodes, case.pods, case.objects, version)
    for pod in case.pods:
        cluster.pod_groups.put_pod(decode_pod(pod))
    ingest(cluster, "PodGroup", msgspec.json.encode(case.group))
    cluster.pod_groups.has_gate = cluster.pod_groups.has_claim_gate = True
    return cluster


@contextmanager
def _open(case: RecordedGroup) -> Iterator[tuple[Cluster, PlacementSession]]:
    cluster = create_group_cluster(case)
    with open_placement_session(cluster) as session:
        yield cluster, session


def predict_members(case: RecordedGroup) -> dict[str, PredictionDetails]:
    """Return the prediction of each new pod by name.

    Raises:
        ClusterError: if the group is not modelled.
    """
    with _open(case) as (cluster, session):
        asked = [
            PodsToPlace.from_pod(decode_pod(each), each["metadata"]["namespace"], each["metadata"]["name"])
            for each in case.members
        ]
        groups = GroupPredictions(asked)
        found = {}
        for pods in asked:
            details = groups.predict(pods, cluster, session, DEFAULT_SCORING, with_node_lines=False)
            if details is None:
                raise ClusterError("the group is not modelled")
            found[pods.subject.name] = details
        return found


def is_unknown(case: RecordedGroup) -> bool:
    """Return whether the prediction of a pod is unknown, so that nothing can differ."""
    return any(details.feasibility is Feasibility.UNKNOWN for details in predict_members(case).values())


def find_differences(case: RecordedGroup) -> Iterator[str]:
    """Yield a line for each difference to the results of the scheduler."""
    if is_unknown(case):
        return
    predictions = predict_members(case)
    placed = {name: result.node for name, result in case.results.items() if result.node}
    predicted = {name for name, details in predictions.items() if details.prediction.nodes}
    if placed and predicted:
        yield from _replay(case)
        return
    if set(placed) != predicted:
        yield f"placed {sorted(placed)}, answered {sorted(predicted)}"
        return
    lines = list(_compare_messages(case, predictions))
    if lines and not _is_explained(case):
        yield from lines


def _compare_messages(case: RecordedGroup, predictions: Mapping[str, PredictionDetails]) -> Iterator[str]:
    """Yield a line for each message that differs from the predicted one, of a group of which no pod is bound."""
    for name, result in case.results.items():
        details = predictions[name]
        message = details.prediction.message
        is_error = message.removeprefix(_OF_OTHER) in (errors := _list_errors(case)) and (
            result.message.removeprefix(_OF_OTHER) in errors
        )
        if not result.node and not is_error and not _is_equal(result.message, message, details):
            yield f"{name}: scheduler: {result.message!r}\n     answered:  {message!r}"


def _is_explained(case: RecordedGroup) -> bool:
    """Return whether the results follow where each pod may have had any of the nodes that the scheduler may choose.

    The results of a cycle that bound nothing do not show which nodes the pods had.
    """
    quorum = case.group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 1)
    with _open(case) as (cluster, session):
        key = case.group["metadata"]["namespace"], case.group["metadata"]["name"]
        search = _ChoiceSearch(case, cluster, session)
        return search.explains(0, GroupCycle(quorum, len(cluster.pod_groups.list_placed(key)), len(case.members)))


class _ChoiceSearch:
    """A search through the nodes that the pods of a group may have had in a cycle that bound none."""

    def __init__(self, case: RecordedGroup, cluster: Cluster, session: PlacementSession) -> None:
        self._results = case.results
        self._members = sorted(case.members, key=lambda member: str(member["metadata"]["creationTimestamp"]))
        self._cluster, self._session, self._left = cluster, session, _MAX_STEPS
        self._placed: list[str] = []

    def explains(self, index: int, cycle: GroupCycle) -> bool:
        """Return whether some choice for the pods from an index on has the results of the scheduler."""
        self._left -= 1
        if self._left < 0:
            return False
        if not cycle.may_succeed or index == len(self._members):
            return self._ends_alike(index, cycle)
        name = self._members[index]["metadata"]["name"]
        pod = IncomingPod.from_pod(decode_pod(self._members[index]), self._cluster.priority_classes)
        diagnosis = run_filters(pod, self._cluster)
        if not len(diagnosis.feasible):
            message = schedule_one(pod, self._cluster, diagnosis, may_preempt=False).message
            return message == self._results[name].message and self.explains(index + 1, _advance(cycle, 0))
        self._placed.append(name)
        for node in find_choices(pod, self._cluster, diagnosis.feasible).tolist():
            mark = self._session.mark()
            if self._session.assume(pod, node) and self.explains(index + 1, _advance(cycle, 1)):
                return True
            self._session.return_to(mark)
        self._placed.pop()
        return False

    def _ends_alike(self, index: int, cycle: GroupCycle) -> bool:
        untried = [member["metadata"]["name"] for member in self._members[index:]]
        return all(self._results[name].message == cycle.shortage for name in untried) and all(
            self._results[name].message.startswith(_UNSCHEDULABLE + cycle.shortage) for name in self._placed
        )


def _advance(cycle: GroupCycle, placed: int) -> GroupCycle:
    following = copy(cycle)
    following.record(1, placed)
    return following


def _list_errors(case: RecordedGroup) -> set[str]:
    """Return the errors of filters: these run on several nodes at once, and the first error is reported."""
    cluster = create_group_cluster(case)
    return set().union(*(list_filter_errors(cluster, each) for each in case.members))


def _is_equal(message: str, answered: str, details: PredictionDetails) -> bool:
    """Return whether messages are equal, where preemption is not modelled without what it adds."""
    if any("would preempt" in note for note in details.prediction.unmodelled) and _PREEMPTION in message:
        message = _COMPLETED.sub("", message.partition(_PREEMPTION)[0].removesuffix(", "))
        return message.removeprefix(_UNSCHEDULABLE) == answered.removeprefix(_UNSCHEDULABLE)
    return message == answered


def _replay(case: RecordedGroup) -> Iterator[str]:
    """Yield differences where the scheduler bound the group: each pod in turn, with the earlier ones where it put them.

    Of nodes with equal scores it takes any, which may decide about the pods behind.
    """
    with _open(case) as (cluster, session):
        for each in sorted(case.members, key=lambda member: str(member["metadata"]["creationTimestamp"])):
            name, result = each["metadata"]["name"], case.results[each["metadata"]["name"]]
            pod = IncomingPod.from_pod(decode_pod(each), cluster.priority_classes)
            diagnosis = run_filters(pod, cluster)
            feasible = {cluster.nodes.get_name(node): node for node in diagnosis.feasible.tolist()}
            if result.node:
                if result.node not in feasible:
                    yield f"{name}: placed on {result.node}, answered: {sorted(feasible)}"
                elif not session.assume(pod, feasible[result.node]):
                    yield f"{name}: no devices on {result.node}"
                continue
            answered = schedule_one(pod, cluster, diagnosis, may_preempt=False)
            if answered.nodes or answered.message != result.message:
                yield f"{name}: scheduler: {result.message!r}\n     answered:  {answered.message!r}"
