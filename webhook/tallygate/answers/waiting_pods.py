"""The pods of a namespace that wait for a node, and the predictions of `tallygate predict pods` that say why.

The pods are placed one after the other. Equal pods share the prediction of the first one without a node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.node_pools import merge_shapes
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.scheduling.placement import PlacementSession, open_placement_session
from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING
from tallygate.answers.new_node_lines import predict_admitted
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.prediction_details import PredictionDetails
from tallygate.cluster.cluster_state import ClusterState
from tallygate.errors import TallygateError
from tallygate.objects.scheduling import SchedulingPod
from tallygate.policy.model import PolicySet
from tallygate.state.informers.pod_templates import create_template

MAX_PREDICTED: Final = 50
"""The waiting pods of one answer that are predicted, in the order in which they came; the others are counted."""

MAX_READ: Final = 500
"""The waiting pods of one answer that are compared with those that were predicted."""

_MAX_NAMES: Final = 10
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class WaitingPods:
    """Equal pods that wait for one reason: their number, and the first names.

    `details` is the prediction for the first of them. Pods that were not predicted have none, and `problem` says
    why: there are too many, or they are not as an API server stores them.
    """

    number: int
    names: tuple[str, ...]
    details: PredictionDetails | None = None
    problem: str = ""


def list_waiting(
    state: ClusterState, namespace: str, policies: PolicySet, check_time: Callable[[], None]
) -> list[WaitingPods]:
    """Return the pods of a namespace without a node, equal ones together; none if the state keeps no templates.

    Placed pods are taken back, so that the state is as before.
    """
    templates = state.pod_templates
    if templates is None:
        return []
    cluster = state.require_columns()
    shapes = merge_shapes(policies.node_shapes, cluster.pools.list_shapes())
    with open_placement_session(cluster, check_time=check_time) as session:
        groups = _WaitingGroups(cluster, session, shapes)
        for pod in islice(templates.list_waiting(namespace), MAX_READ):
            check_time()
            groups.add(pod, namespace)
    left = templates.count_waiting(namespace) - sum(group.number for group in groups.found.values())
    rest = WaitingPods(left, (), problem=f"not predicted: one answer predicts at most {MAX_PREDICTED} pods")
    return [*groups.found.values(), *([rest] if left else [])]


class _WaitingGroups:
    """Equal pods by their template, and by whether a node has room for them."""

    def __init__(self, cluster: Cluster, session: PlacementSession, shapes: Sequence[NodeShape]) -> None:
        self.found: dict[tuple[bytes, bool], WaitingPods] = {}
        self._cluster, self._session, self._shapes = cluster, session, shapes
        self._predicted = 0

    def add(self, pod: SchedulingPod, namespace: str) -> None:
        """Add a pod to the equal ones; leave it out if it is another one and too many are predicted."""
        template = _ENCODER.encode(create_template(pod))
        pods = PodsToPlace.from_pod(pod, namespace, (pod.metadata.name if pod.metadata else None) or "")
        name, fits, details, problem = pods.subject.name, False, None, ""
        known = self.found.get((template, False))
        if known is None:
            if self._predicted >= MAX_PREDICTED:
                return
            self._predicted += 1
            try:
                details = predict_admitted(pods, None, self._cluster, self._session, DEFAULT_SCORING, self._shapes)
                fits = details.feasibility is Feasibility.NOW
            except TallygateError as error:
                problem = str(error)
            known = self.found.get((template, fits), WaitingPods(0, (), details, problem))
        names = (*known.names, name)[:_MAX_NAMES]
        self.found[template, fits] = replace(known, number=known.number + 1, names=names)
