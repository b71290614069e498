"""The pods of a namespace that wait for a node, with one sentence that says why.

The sentence is the message of kube-scheduler, as `tallygate predict pods` has it. Where a pod would preempt others, a
few nodes alone are tried: to try all takes a second for each pod in a large cluster. The pods are placed one after the
other, and equal pods share the sentence of the first one without a node.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import PlacementSession, open_placement_session
from tallygate.accounting.scheduling.prediction import Feasibility, Prediction, can_never_run, predict_quickly
from tallygate.accounting.scheduling.schedule import schedule_one
from tallygate.answers.startable_pods import PartTimes
from tallygate.cluster.cluster_state import ClusterState
from tallygate.errors import TallygateError
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
    with open_placement_session(state.require_columns(), check_time=times.check) as session:
        groups = _WaitingGroups(state.require_columns(), session)
        for pod in islice(templates.list_waiting(namespace), MAX_READ):
            times.check()
            groups.add(pod, may_predict=times.may_go_on())
    yield from groups.found.values()
    left = templates.count_waiting(namespace) - sum(group.number for group in groups.found.values())
    if left:
        yield WaitingPods(left, (), None, _NOT_PREDICTED)


class _WaitingGroups:
    """Equal pods by their template, and by whether a node has room for them."""

    def __init__(self, cluster: Cluster, session: PlacementSession) -> None:
        self.found: dict[tuple[bytes, bool], WaitingPods] = {}
        self._cluster, self._session = cluster, session
        self._predicted = 0

    def add(self, pod: SchedulingPod, *, may_predict: bool) -> None:
        """Add a pod to the equal ones; leave it out if it is another one, and no further one is predicted."""
        template, fits = _ENCODER.encode(create_template(pod)), False
        known = self.found.get((template, False))
        if known is None:
            if not may_predict or self._predicted >= MAX_PREDICTED:
                return
            self._predicted += 1
            verdict, sentence = self._predict(pod)
            fits = verdict is Feasibility.NOW
            known = self.found.get((template, fits), WaitingPods(0, (), verdict, sentence))
        names = (*known.names, (pod.metadata.name if pod.metadata else None) or "")[:_MAX_NAMES]
        self.found[template, fits] = replace(known, number=known.number + 1, names=names)

    def _predict(self, pod: SchedulingPod) -> tuple[Feasibility | None, str]:
        """Return the verdict on a pod, which stays on its node if it fits, and the sentence."""
        try:
            incoming = IncomingPod.from_pod(pod, self._cluster.priority_classes)
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
