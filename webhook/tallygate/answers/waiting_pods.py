"""The pods of a namespace that wait for a node, with one sentence that says why.

The sentence is the message of kube-scheduler, as `tallygate predict pods` has it. Where a pod would preempt others, a
few nodes alone are tried: to try all takes a second for each pod in a large cluster. The pods are placed one after the
other, and equal pods share the sentence of the first one without a node. Those of a PodGroup are tried together.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_groups import find_group_key
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import PlacementSession, open_placement_session
from tallygate.accounting.scheduling.prediction import Feasibility, Prediction, can_never_run, predict_quickly
from tallygate.accounting.scheduling.schedule import schedule_one
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING
from tallygate.answers.group_predictions import GroupPredictions
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.startable_pods import PartTimes
from tallygate.cluster.cluster_state import ClusterState
from tallygate.errors import TallygateError
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingPod
from tallygate.state.informers.pod_templates import create_template

MAX_PREDICTED: Final = 50
"""The waiting pods of one answer that are predicted, in the order in which they came; the others are counted."""

MAX_READ: Final = 500
"""The waiting pods of one answer that are compared with those that were predicted."""

_MAX_NAMES: Final = 10
_NOT_PREDICTED: Final = "not predicted, since one answer has no time for all: ask about one pod by `tallygate predict`"
_ABOUT_TO_RUN: Final = "a node has room for it: kube-scheduler places it when its turn comes"
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class WaitingPods:
    """Equal pods that wait for one reason: their number, and the first names.

    Pods that were not predicted have no `verdict`: there are too many, or they are not as an API server stores them.
    `sentence` may have names of nodes.
    """

    number: int
    names: tuple[str, ...]
    verdict: Feasibility | None
    sentence: str


def list_waiting(state: ClusterState, namespace: str, times: PartTimes) -> Iterator[WaitingPods]:
    """Yield the pods of a namespace without a node, equal ones together; none if the state keeps no templates.

    Placed pods are taken back, so that the state is as before.
    """
    templates = state.pod_templates
    if templates is None:
        return
    pods = [*islice(templates.list_waiting(namespace), MAX_READ)]
    cycles = _GroupCycles(pods, state.require_columns(), times)
    with open_placement_session(state.require_columns(), check_time=cycles.check_time) as session:
        groups = _WaitingGroups(state.require_columns(), session, cycles)
        for pod in pods:
            times.check()
            groups.add(pod, may_predict=times.may_go_on())
    yield from groups.found.values()
    left = templates.count_waiting(namespace) - sum(group.number for group in groups.found.values())
    if left:
        yield WaitingPods(left, (), None, _NOT_PREDICTED)


class _LongCycleError(TallygateError):
    """The pods of a PodGroup are too many to be predicted in the time that is left."""


class _GroupCycles:
    """The PodGroups of the waiting pods, of which each is tried once, as long as there is time."""

    def __init__(self, pods: Iterable[SchedulingPod], cluster: Cluster, times: PartTimes) -> None:
        self._cluster, self._times, self._is_running = cluster, times, False
        self._asked = {id(pod): _create_asked(pod) for pod in pods if find_group_key(pod) is not None}
        self._groups = GroupPredictions(self._asked.values())
        self._ended: set[tuple[str, str] | None] = set()

    def check_time(self) -> None:
        """Check the time between two pods.

        Raises:
            TallygateError: if the answer is too late, or there is no time for the rest of a PodGroup.
        """
        self._times.check()
        if self._is_running and not self._times.may_go_on():
            raise _LongCycleError(_NOT_PREDICTED)

    def predict(self, pod: SchedulingPod, session: PlacementSession) -> Prediction | None:
        """Return the prediction of a pod with its PodGroup; None if it has none that is modelled.

        Raises:
            TallygateError: if there is no time for all pods of the group, or one of them is not as stored ones are.
        """
        asked, key = self._asked.get(id(pod)), find_group_key(pod)
        if asked is None:
            return None
        if key in self._ended:
            raise _LongCycleError(_NOT_PREDICTED)
        mark, self._is_running = session.mark(), True
        try:
            details = self._groups.predict(asked, self._cluster, session, DEFAULT_SCORING, with_node_lines=False)
        except TallygateError:
            self._ended.add(key)
            session.return_to(mark)
            raise
        finally:
            self._is_running = False
        return None if details is None else details.prediction


def _create_asked(pod: SchedulingPod) -> PodsToPlace:
    meta = pod.metadata or ObjectMeta()
    return PodsToPlace.from_pod(pod, meta.namespace or "", meta.name or "")


class _WaitingGroups:
    """Equal pods by their template, whether a node has room for them, and the sentence of those of a PodGroup."""

    def __init__(self, cluster: Cluster, session: PlacementSession, cycles: _GroupCycles) -> None:
        self.found: dict[tuple[bytes, bool, str], WaitingPods] = {}
        self._cluster, self._session, self._cycles = cluster, session, cycles
        self._predicted = 0

    def add(self, pod: SchedulingPod, *, may_predict: bool) -> None:
        """Add a pod to the equal ones; leave it out if it is another one, and no further one is predicted."""
        template = _ENCODER.encode(create_template(pod))
        key = (template, False, "")
        if key not in self.found:
            if not may_predict or self._predicted >= MAX_PREDICTED:
                return
            verdict, sentence = self._predict(pod)
            key = (template, verdict is Feasibility.NOW, "" if find_group_key(pod) is None else sentence)
            self._predicted += key not in self.found or (key[1] and find_group_key(pod) is None)
            self.found.setdefault(key, WaitingPods(0, (), verdict, sentence))
        known = self.found[key]
        names = (*known.names, (pod.metadata.name if pod.metadata else None) or "")[:_MAX_NAMES]
        self.found[key] = replace(known, number=known.number + 1, names=names)

    def _predict(self, pod: SchedulingPod) -> tuple[Feasibility | None, str]:
        """Return the verdict on a pod, which stays on its node if it fits, and the sentence."""
        try:
            incoming = IncomingPod.from_pod(pod, self._cluster.priority_classes)
            in_group = self._cycles.predict(pod, self._session)
            if in_group is not None:
                return in_group.feasibility, _choose_sentence(in_group)
            diagnosis = run_filters(incoming, self._cluster)
            if incoming.spec.scheduling_gates:
                return Feasibility.NOT_NOW, schedule_one(incoming, self._cluster, diagnosis).message
            prediction = predict_quickly(incoming, self._cluster, 1, diagnosis)
            if prediction.feasibility is Feasibility.NOW:
                self._session.place(incoming, 1, diagnosis)
            is_never = prediction.next_result is not None and can_never_run(incoming, self._cluster)
        except TallygateError as error:
            return None, str(error)
        return Feasibility.NEVER if is_never else prediction.feasibility, _choose_sentence(prediction)


def _choose_sentence(prediction: Prediction) -> str:
    if prediction.feasibility is Feasibility.NOW:
        return _ABOUT_TO_RUN
    result = prediction.next_result
    if result is None:
        return f"not modelled: {prediction.unmodelled[0]}"
    return f"kube-scheduler does not try the pod yet: {result.hold_reason}" if result.hold_reason else result.message
