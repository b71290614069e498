"""What becomes of candidates, placed one after the other: for each a verdict, what would help, and node by node."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.node_fit import Shortfall
from webhook.accounting.scheduling.filters import Diagnosis, run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod, with_resolved_priority
from webhook.accounting.scheduling.placement import PlacementSession
from webhook.accounting.scheduling.plugins.node_resources_fit import measure_shortfall
from webhook.accounting.scheduling.prediction import (
    Feasibility,
    NodeDiagnosis,
    Prediction,
    diagnose_node,
    predict_copies,
    predict_daemon_set,
    with_daemon_tolerations,
)
from webhook.accounting.scheduling.remedies import EvictionOption, Remedy, find_eviction_options, find_remedies
from webhook.accounting.scheduling.scoring import Scoring, score_allocation, score_balance
from webhook.cli.predicting.candidates import Candidate
from webhook.policy.suggest import suggest_resource

_PODS = "pods"
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node before a candidate: what it says, its two scores, and how many copies have gone there.

    `tightest` is what the pod asks for of which the node would be the fullest.
    """

    said: NodeDiagnosis
    allocation: int
    balance: int
    tightest: Shortfall
    copies: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A candidate's verdict, and how many nodes would have taken a first copy before any was placed.

    For one of which not all can run, of the first that cannot: `nearest` are nodes that lack least of those where
    others' leaving helps, `leaving` and `remedies` what would help, `made_room` where the scheduler itself makes room,
    `meant` what of names that no node advertises was probably meant. `nodes` is node by node, if that was asked for:
    before the first copy when all can run, else before the first that cannot.
    """

    candidate: Candidate
    answer: Prediction
    fitting: int
    nearest: tuple[NodeDiagnosis, ...] = ()
    leaving: tuple[EvictionOption, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    made_room: EvictionOption | None = None
    meant: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[NodeLine, ...] = ()

    @property
    def on(self) -> Mapping[str, int]:
        """How many copies go to each node, the most first."""
        return dict(Counter(self.answer.nodes).most_common())


def outcome(
    candidate: Candidate, cluster: Cluster, visit: PlacementSession, scoring: Scoring, *, by_node: bool
) -> Outcome:
    """Place a candidate for as long as the visit lasts.

    Raises:
        TallygateError: the candidate is none that an API server would store.
    """
    pod = candidate.pod if candidate.copies is not None else with_daemon_tolerations(candidate.pod)
    incoming = IncomingPod.from_pod(with_resolved_priority(pod, cluster.priority_classes))
    before = run_filters(incoming, cluster)
    lines = tuple(_lines(incoming, cluster, before, scoring)) if by_node else ()
    if candidate.copies is None:
        found = predict_daemon_set(candidate.pod, cluster, visit)
    else:
        found = predict_copies(candidate.pod, cluster, visit, candidate.copies)
    found = _with_questions(found, candidate.unknown)
    made = Outcome(candidate, found, len(before.feasible), nodes=_counted(lines, found))
    said = found.schedule_result.diagnosis if found.schedule_result else None
    if said is None:
        return made
    lines = tuple(_lines(incoming, cluster, said, scoring)) if by_node else ()
    return replace(_explained(made, incoming, cluster, visit, said), nodes=_counted(lines, found))


def _with_questions(found: Prediction, questions: tuple[str, ...]) -> Prediction:
    if not questions:
        return found
    kind = Feasibility.UNKNOWN if found.feasibility is Feasibility.NOW else found.feasibility
    return replace(found, feasibility=kind, unmodelled=(*found.unmodelled, *questions))


def _explained(made: Outcome, pod: IncomingPod, cluster: Cluster, visit: PlacementSession, said: Diagnosis) -> Outcome:
    """With why, and what would help the first copy that has no node."""
    preemption = made.answer.schedule_result.preemption if made.answer.schedule_result else None
    chosen = preemption.selected if preemption else None
    return replace(
        made,
        nearest=tuple(_nearest(pod, cluster, said)),
        leaving=find_eviction_options(pod, cluster, said, {each.uid for each in visit.placed_pods}),
        remedies=find_remedies(pod, cluster, said.nodes),
        made_room=EvictionOption(cluster.nodes.get_name(chosen.place), chosen.victims) if chosen else None,
        meant=dict(_meant(made.answer, cluster)),
    )


def _meant(found: Prediction, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The names that nodes advertise in place of those of which no node has any."""
    missing = [name for name, most in found.largest_allocatable.items() if not most]
    known = [name for name in cluster.nodes.list_advertised_resources() if name != _PODS] if missing else []
    for name in missing:
        meant = suggest_resource(name, known)
        if meant is not None:
            yield name, meant


def _nearest(pod: IncomingPod, cluster: Cluster, said: Diagnosis) -> Iterator[NodeDiagnosis]:
    """The nodes that lack least, of those that could run the pod if others left."""
    helpful = sorted(
        said.resolvable.tolist(),
        key=lambda place: (measure_shortfall(pod, cluster, place), cluster.nodes.get_name(place)),
    )
    answers = (diagnose_node(pod, cluster, said, place) for place in helpful)
    for _, each in zip(range(_NEAREST), (one for one in answers if one.can_ever_run and one.shortfalls), strict=False):
        yield each


def _counted(lines: tuple[NodeLine, ...], found: Prediction) -> tuple[NodeLine, ...]:
    copies = Counter(found.nodes)
    return tuple(replace(line, copies=copies[line.said.name]) for line in lines)


def _lines(pod: IncomingPod, cluster: Cluster, said: Diagnosis, scoring: Scoring) -> Iterator[NodeLine]:
    """Every node that was asked, by name."""
    places = said.nodes
    allocation = score_allocation(pod, cluster, places, scoring).tolist()
    balance = score_balance(pod, cluster, places).tolist()
    lines = [
        NodeLine(diagnose_node(pod, cluster, said, place), fit, even, _tightest(pod, cluster, place))
        for place, fit, even in zip(places.tolist(), allocation, balance, strict=True)
    ]
    return iter(sorted(lines, key=lambda line: line.said.name))


def _tightest(pod: IncomingPod, cluster: Cluster, place: int) -> Shortfall:
    """What the node would be fullest of with the pod."""
    nodes = cluster.nodes
    has, used = nodes.get_allocatable(place), {**nodes.get_used(place), _PODS: nodes.pods[place]}
    asked = [
        Shortfall(name, amount, used.get(name, 0), has.get(name, 0), unresolvable=amount > has.get(name, 0))
        for name, amount in {_PODS: 1, **pod.requests}.items()
    ]
    return max(asked, key=_fullness)


def _fullness(each: Shortfall) -> tuple[bool, float]:
    """Whether there is nothing of it at all, and how full it would be."""
    return each.allocatable <= 0, (each.used + each.requested) / max(each.allocatable, 1)
