"""What becomes of candidates, placed one after the other: for each a verdict, what would help, and node by node."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit import scores
from webhook.accounting.fit.advertised import advertised
from webhook.accounting.fit.answer import Answer, Kind, NodeAnswer, answer, node_answer
from webhook.accounting.fit.everywhere import everywhere, tolerating
from webhook.accounting.fit.filtering import Filtered, filtered
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.leaving import Leaving, leaving
from webhook.accounting.fit.priority import prioritised
from webhook.accounting.fit.remedies import Remedy, remedies
from webhook.accounting.fit.resources import shortness
from webhook.accounting.fit.room import Visit
from webhook.accounting.fit.scores import Scoring
from webhook.accounting.node_fit import Shortfall
from webhook.cli.predicting.candidates import Candidate
from webhook.policy.suggest import resource_meant

_PODS = "pods"
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node before a candidate: what it says, its two scores, and how many copies have gone there.

    `tightest` is what the pod asks for of which the node would be the fullest.
    """

    said: NodeAnswer
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
    answer: Answer
    fitting: int
    nearest: tuple[NodeAnswer, ...] = ()
    leaving: tuple[Leaving, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    made_room: Leaving | None = None
    meant: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[NodeLine, ...] = ()

    @property
    def on(self) -> Mapping[str, int]:
        """How many copies go to each node, the most first."""
        return dict(Counter(self.answer.places).most_common())


def outcome(candidate: Candidate, cluster: Cluster, visit: Visit, scoring: Scoring, *, by_node: bool) -> Outcome:
    """Place a candidate for as long as the visit lasts.

    Raises:
        TallygateError: the candidate is none that an API server would store.
    """
    pod = candidate.pod if candidate.copies is not None else tolerating(candidate.pod)
    incoming = Incoming.of(prioritised(pod, cluster.priority_classes))
    before = filtered(incoming, cluster)
    lines = tuple(_lines(incoming, cluster, before, scoring)) if by_node else ()
    if candidate.copies is None:
        found = everywhere(candidate.pod, cluster, visit)
    else:
        found = answer(candidate.pod, cluster, visit, candidate.copies)
    found = _with_questions(found, candidate.unknown)
    made = Outcome(candidate, found, len(before.fitting), nodes=_counted(lines, found))
    said = found.verdict.said if found.verdict else None
    if said is None:
        return made
    lines = tuple(_lines(incoming, cluster, said, scoring)) if by_node else ()
    return replace(_explained(made, incoming, cluster, visit, said), nodes=_counted(lines, found))


def _with_questions(found: Answer, questions: tuple[str, ...]) -> Answer:
    if not questions:
        return found
    kind = Kind.UNKNOWN if found.kind is Kind.NOW else found.kind
    return replace(found, kind=kind, unknown=(*found.unknown, *questions))


def _explained(made: Outcome, pod: Incoming, cluster: Cluster, visit: Visit, said: Filtered) -> Outcome:
    """With why, and what would help the first copy that has no node."""
    preemption = made.answer.verdict.preemption if made.answer.verdict else None
    chosen = preemption.chosen if preemption else None
    return replace(
        made,
        nearest=tuple(_nearest(pod, cluster, said)),
        leaving=leaving(pod, cluster, said, {each.uid for each in visit.placed}),
        remedies=remedies(pod, cluster, said.places),
        made_room=Leaving(cluster.nodes.get_name(chosen.place), chosen.victims) if chosen else None,
        meant=dict(_meant(made.answer, cluster)),
    )


def _meant(found: Answer, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The names that nodes advertise in place of those of which no node has any."""
    missing = [name for name, most in found.largest.items() if not most]
    known = [name for name in advertised(cluster) if name != _PODS] if missing else []
    for name in missing:
        meant = resource_meant(name, known)
        if meant is not None:
            yield name, meant


def _nearest(pod: Incoming, cluster: Cluster, said: Filtered) -> Iterator[NodeAnswer]:
    """The nodes that lack least, of those that could run the pod if others left."""
    helpful = sorted(
        said.helpful.tolist(), key=lambda place: (shortness(pod, cluster, place), cluster.nodes.get_name(place))
    )
    answers = (node_answer(pod, cluster, said, place) for place in helpful)
    for _, each in zip(range(_NEAREST), (one for one in answers if one.ever and one.shortfalls), strict=False):
        yield each


def _counted(lines: tuple[NodeLine, ...], found: Answer) -> tuple[NodeLine, ...]:
    copies = Counter(found.places)
    return tuple(replace(line, copies=copies[line.said.name]) for line in lines)


def _lines(pod: Incoming, cluster: Cluster, said: Filtered, scoring: Scoring) -> Iterator[NodeLine]:
    """Every node that was asked, by name."""
    places = said.places
    allocation = scores.allocation(pod, cluster, places, scoring).tolist()
    balance = scores.balance(pod, cluster, places).tolist()
    lines = [
        NodeLine(node_answer(pod, cluster, said, place), fit, even, _tightest(pod, cluster, place))
        for place, fit, even in zip(places.tolist(), allocation, balance, strict=True)
    ]
    return iter(sorted(lines, key=lambda line: line.said.name))


def _tightest(pod: Incoming, cluster: Cluster, place: int) -> Shortfall:
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
