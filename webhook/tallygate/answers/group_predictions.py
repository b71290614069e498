"""Predictions of the pods of a PodGroup, which kube-scheduler tries in one cycle, and binds together or not at all.

The waiting pods that the cluster has come first, by their age, then those of the manifests in their order. The cycle
runs where the first of them is predicted. With the quorum, the copies with a node stay; without it, none does.
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_groups import find_group_key
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.group_claim_release import (
    ClaimRelease,
    TriedClaims,
    inspect_claims,
    release_claims,
)
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import PlacementSession
from tallygate.accounting.scheduling.plugins.resource_claims import find_hold_reason as find_claim_hold_reason
from tallygate.accounting.scheduling.pod_group_cycle import (
    NO_DEVICE_STATE,
    GroupCycle,
    describe_placed_pod,
    describe_preemption,
    find_group_error,
    find_group_problem,
    find_hold_reason,
    get_quorum,
)
from tallygate.accounting.scheduling.prediction import Feasibility, Prediction, find_unmodelled
from tallygate.accounting.scheduling.schedule import ScheduleResult, schedule_one
from tallygate.accounting.scheduling.scoring import Scoring
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.prediction_details import PredictionDetails, predict_pods
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingPod

_ERROR_OF_OTHER = "failed to schedule other pod from a pod group: "
_NAMES_OF_GROUP: Final = (
    re.compile(r"(another pod of PodGroup \S+ is not ready): .*", re.DOTALL),
    re.compile(r"(failed to schedule other pod from a pod group): .*", re.DOTALL),
    re.compile(r'(error in "DynamicResources" PodGroupPostFilter plugins): .*', re.DOTALL),
    re.compile(r"(its CompositePodGroup) \S+"),
)
"""Texts with, behind their first part, names of other pods of a group, of claims, or of the parent of the group."""


@dataclass(frozen=True, slots=True)
class _Member:
    """Pods of a group with one template: those that are asked about, or one waiting pod that is not.

    `source` are the pods before they got a default priority.
    """

    source: PodsToPlace
    pods: PodsToPlace
    incoming: IncomingPod

    @property
    def count(self) -> int:
        return self.pods.count or 0


class GroupPredictions:
    """The PodGroups of the pods that are predicted in one session; each is tried once, for all its pods."""

    def __init__(self, asked: Iterable[PodsToPlace], *, has_job_groups: bool = False) -> None:
        self._asked: dict[tuple[str, str], list[PodsToPlace]] = {}
        self._predicted: dict[int, PredictionDetails] = {}
        self._named: dict[int, PodsToPlace] = {}
        for pods in asked:
            named = self._named[id(pods)] = pods.join_job_group() if has_job_groups else pods
            key = find_group_key(named.pod)
            if key is not None and pods.count is not None:
                self._asked.setdefault(key, []).append(named)

    def get_named(self, pods: PodsToPlace) -> PodsToPlace:
        """Return the pods as they name the PodGroup that is made for their Job."""
        return self._named.get(id(pods), pods)

    def predict(
        self, pods: PodsToPlace, cluster: Cluster, session: PlacementSession, scoring: Scoring, *, with_node_lines: bool
    ) -> PredictionDetails | None:
        """Return the prediction of pods that were named at the start; None if they have no PodGroup that is modelled.

        Raises:
            TallygateError: if a pod of the group is not one that an API server would store.
        """
        key = find_group_key(pods.pod)
        asked = self._asked.get(key, []) if key is not None else []
        if key is None or not any(pods is each for each in asked):
            return None
        if id(pods) not in self._predicted:
            members = _list_members(key, asked, cluster)
            if any(find_group_problem(member.incoming, cluster) for member in members):
                return None
            attempt = _GroupAttempt(key, members, {*map(id, asked)}, cluster, session)
            details = attempt.predict(scoring, with_node_lines=with_node_lines)
            self._predicted |= {
                id(each.source): found for each, found in zip(members, details, strict=True) if found is not None
            }
        return self._predicted[id(pods)]


def hide_group_members(text: str) -> str:
    """Return the text of a prediction without the names that it has from a PodGroup and its other pods."""
    for pattern in _NAMES_OF_GROUP:
        text = pattern.sub(r"\1", text)
    return text


@contextmanager
def open_group_predictions(asked: Sequence[PodsToPlace], cluster: Cluster) -> Iterator[GroupPredictions]:
    """Yield the PodGroups of the pods; a cluster with the gate for it has those of their Jobs until the end."""
    groups = cluster.pod_groups
    made = [pods.job_group for pods in asked if pods.job_group is not None] if groups.has_job_gate else []
    for group in made:
        groups.put(group)
    try:
        yield GroupPredictions(asked, has_job_groups=groups.has_job_gate)
    finally:
        for group in made:
            groups.remove(group)


def _list_members(key: tuple[str, str], asked: Sequence[PodsToPlace], cluster: Cluster) -> list[_Member]:
    """Return the waiting pods of a group in their order (PodGroupMemberPodsOrderingFunc in framework/types.go)."""
    uids = {_get_metadata(pods.pod).uid for pods in asked}
    waiting = [
        PodsToPlace.from_pod(pod, key[0], _get_metadata(pod).name or "")
        for pod in cluster.pod_groups.list_pending(key)
        if _get_metadata(pod).uid not in uids
    ]
    ordered = sorted((*waiting, *asked), key=lambda pods: _create_age_key(pods.pod))
    return [_create_member(pods, cluster) for pods in ordered]


def _create_member(source: PodsToPlace, cluster: Cluster) -> _Member:
    pods = source.with_default_priority(cluster.priority_classes)
    return _Member(source, pods, IncomingPod.from_pod(pods.pod, cluster.priority_classes))


def _create_age_key(pod: SchedulingPod) -> tuple[bool, str, str]:
    """Return the key that sorts stored pods by age and name, and keeps the order of the others behind them."""
    meta = _get_metadata(pod)
    return (False, meta.creation_timestamp or "", meta.name or "") if meta.uid else (True, "", "")


def _get_metadata(pod: SchedulingPod) -> ObjectMeta:
    return pod.metadata or ObjectMeta()


class _GroupAttempt:
    """One cycle for a group in a session."""

    def __init__(
        self,
        key: tuple[str, str],
        members: Sequence[_Member],
        asked: Container[int],
        cluster: Cluster,
        session: PlacementSession,
    ) -> None:
        self._key, self._members, self._cluster, self._session = key, members, cluster, session
        self._asked = asked
        self._group = cluster.pod_groups.find(key)

    def predict(self, scoring: Scoring, *, with_node_lines: bool) -> Sequence[PredictionDetails | None]:
        """Return the predictions of the members in their order; None for one that was not tried, nor asked about."""
        placed = self._cluster.pod_groups.list_placed(self._key)
        waiting = sum(member.count for member in self._members)
        hold_reason = find_hold_reason(self._group, self._key[1], len(placed) + waiting)
        if hold_reason and self._group is not None:
            hold_reason += (
                f": {len(placed) + waiting} of {get_quorum(self._group)} pods of PodGroup {self._key[1]} exist"
            )
        if self._group is None or hold_reason:
            return self._hold_all(ScheduleResult(None, hold_reason=hold_reason))
        if (unready := self._find_unready()) is not None:
            return [
                self._hold(member, self._explain_hold(member, unready)) if self._is_asked(member) else None
                for member in self._members
            ]
        # the pods of a group are in the order of their priorities, which shows only where these differ
        waiting_pods = (member.incoming for member in self._members if member.count)
        incoming = sorted(waiting_pods, key=lambda pod: -pod.priority)
        incoming += [IncomingPod.from_pod(pod, self._cluster.priority_classes) for pod in placed]
        if error := find_group_error(self._group, incoming, self._cluster):
            return self._hold_all(ScheduleResult(None, (), error))
        cycle = GroupCycle(get_quorum(self._group), len(placed), waiting)
        return self._run(cycle, scoring, with_node_lines=with_node_lines)

    def _find_unready(self) -> _Member | None:
        """Return a member that does not enter the queue: then none of the group does."""
        return next(
            (
                member
                for member in self._members
                if member.count
                and (member.incoming.spec.scheduling_gates or find_claim_hold_reason(member.incoming, self._cluster))
            ),
            None,
        )

    def _explain_hold(self, member: _Member, unready: _Member) -> ScheduleResult:
        if member.incoming.spec.scheduling_gates or find_claim_hold_reason(member.incoming, self._cluster):
            return schedule_one(member.incoming, self._cluster, run_filters(member.incoming, self._cluster))
        return ScheduleResult(
            None, hold_reason=f"another pod of PodGroup {self._key[1]} is not ready: {unready.pods.subject}"
        )

    def _is_asked(self, member: _Member) -> bool:
        return id(member.source) in self._asked

    def _hold_all(self, result: ScheduleResult, start: int = 0) -> list[PredictionDetails | None]:
        """Return the predictions of the members from a position on, which are not tried: of those asked about."""
        members = self._members[start:]
        return [self._hold(member, result) if self._is_asked(member) else None for member in members]

    def _hold(self, member: _Member, result: ScheduleResult) -> PredictionDetails:
        """Return the prediction of pods that are not tried."""
        self._session.check_time()
        diagnosis = run_filters(member.incoming, self._cluster)
        unmodelled = (*self._list_unmodelled(member), *member.pods.unmodelled)
        feasibility = Feasibility.NOT_NOW if member.count else Feasibility.NOW
        prediction = Prediction(feasibility, member.count, (), unmodelled, diagnosis, result if member.count else None)
        return PredictionDetails(member.pods, prediction)

    def _leave_open(self, member: _Member) -> PredictionDetails:
        """Return the prediction of pods of which one fits and then has an error."""
        self._session.check_time()
        note = f"scheduling group {self._key[1]}: what follows once a pod that fits has an error"
        diagnosis = run_filters(member.incoming, self._cluster)
        unmodelled = (*self._list_unmodelled(member), *member.pods.unmodelled, note)
        return PredictionDetails(member.pods, Prediction(Feasibility.UNKNOWN, member.count, (), unmodelled, diagnosis))

    def _list_unmodelled(self, member: _Member) -> Iterable[str]:
        return find_unmodelled(member.incoming, self._cluster, in_group_cycle=True)

    def _run(self, cycle: GroupCycle, scoring: Scoring, *, with_node_lines: bool) -> Sequence[PredictionDetails | None]:
        """Try the members one after the other, and take all back if the quorum is not reached."""
        mark, tried, claims = self._session.mark(), list[PredictionDetails](), list[TriedClaims]()
        error = ""
        for member in self._members:
            if not cycle.may_succeed or error:
                break
            self._session.check_time()
            details = predict_pods(
                member.pods, self._cluster, self._session, scoring, with_node_lines=with_node_lines, in_group_cycle=True
            )
            tried.append(replace(details, evictions=(), remedies=()))
            cycle.record(member.count, details.prediction.placed_count)
            error = _find_error(details.prediction)
            claims.append(self._inspect_claims(member, details.prediction))
            if _may_fail_later(details.prediction):
                self._session.return_to(mark)
                return [self._leave_open(each) if self._is_asked(each) else None for each in self._members]
        if cycle.has_succeeded and not error:
            return tried
        self._session.return_to(mark)
        release = self._release_claims(tried, claims)
        if not error and release.error:
            return self._hold_all(ScheduleResult(None, (), release.error))
        first = self._members[0].incoming
        preemption = release.text if release.is_final else describe_preemption(first, self._cluster, release.text)
        message = f"{_ERROR_OF_OTHER}{error}" if error else describe_placed_pod(cycle.shortage, preemption)
        rest = f"{_ERROR_OF_OTHER}{error}" if error else cycle.shortage
        is_unknown = any(details.prediction.unmodelled for details in tried)
        failed = [
            *(_take_back(details, message, has_error=bool(error), is_unknown=is_unknown) for details in tried),
            *self._hold_all(ScheduleResult(None, (), rest), len(tried)),
        ]
        if preemption is not None or error:
            return failed
        note = f"scheduling group {self._key[1]}: which pods of a lower priority it would preempt"
        return [details and _add_note(details, note) for details in failed]

    def _inspect_claims(self, member: _Member, prediction: Prediction) -> TriedClaims:
        result = prediction.next_result
        diagnosis = (result.diagnosis if result is not None else None) or prediction.diagnosis
        return inspect_claims(member.incoming, self._cluster, diagnosis, self._cluster.pod_groups.get_uid(self._key))

    def _release_claims(self, tried: Sequence[PredictionDetails], claims: Sequence[TriedClaims]) -> ClaimRelease:
        """Return what becomes of the claims of the group once its pods have no nodes."""
        if self._group is None or all(map(_is_rejected_before_devices, tried)):
            return ClaimRelease(error=NO_DEVICE_STATE)
        has_state = [
            each for each, details in zip(claims, tried, strict=True) if not _is_rejected_before_devices(details)
        ]
        has_placed = bool(self._cluster.pod_groups.list_placed(self._key))
        first = self._members[0].incoming
        return release_claims(self._group, first, has_state, self._cluster, has_placed=has_placed)


def _is_rejected_before_devices(details: PredictionDetails) -> bool:
    """Return whether the pre-filter of devices, which runs last, did not run for any of these pods."""
    diagnosis = details.prediction.diagnosis
    status = diagnosis.pre_filter_status
    return not len(diagnosis.nodes) or (status is not None and not status.is_by_devices)


def _find_error(prediction: Prediction) -> str:
    """Return the error of a filter that ended the attempt for a pod; empty without one."""
    result = prediction.next_result
    return result.diagnosis.error if result is not None and result.diagnosis is not None else ""


def _may_fail_later(prediction: Prediction) -> bool:
    """Return whether a pod fits and then has an error of scores or of binding, on some of the nodes or on each."""
    result = prediction.next_result
    has_error = result is not None and result.diagnosis is not None and len(result.diagnosis.feasible) > 0
    return bool(prediction.bind_errors) or (has_error and not _find_error(prediction))


def _take_back(details: PredictionDetails, message: str, *, has_error: bool, is_unknown: bool) -> PredictionDetails:
    """Return the prediction of pods that have no node after all; `message` is that of those that had one.

    It is that of a template, too, of which some copies had one: without an error, the quorum is why these have none.
    """
    prediction = details.prediction
    feasibility = prediction.feasibility
    if feasibility is not Feasibility.NEVER:
        feasibility = Feasibility.UNKNOWN if is_unknown else Feasibility.NOT_NOW
    if not prediction.count:
        return details
    result = prediction.next_result or ScheduleResult(None, (), message)
    if prediction.nodes and not has_error:
        result = replace(result, message=message)
    return replace(
        details,
        prediction=replace(prediction, feasibility=feasibility, nodes=(), next_result=result),
        claims_by_copy=(),
        node_lines=tuple(replace(line, copies=0) for line in details.node_lines),
    )


def _add_note(details: PredictionDetails, note: str) -> PredictionDetails:
    prediction = details.prediction
    return replace(details, prediction=replace(prediction, unmodelled=(*prediction.unmodelled, note)))


NO_GROUPS: GroupPredictions = GroupPredictions(())
"""The predictions of pods that are predicted by themselves."""
