"""The answer to whether copies of a pod can run: now, later, never, or as far as is known; node by node if asked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pods import Placed
from webhook.accounting.fit import resources
from webhook.accounting.fit.filtering import Filtered
from webhook.accounting.fit.impossible import impossible
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.room import Room, Visit
from webhook.accounting.fit.sentence import sentence
from webhook.accounting.node_fit import Insufficient
from webhook.objects.scheduling import PlacedPod

_MOST_HOLDERS = 5
_PODS = "pods"
_DEFAULT_SCHEDULER = "default-scheduler"


class Kind(StrEnum):
    """Whether all copies can run."""

    NOW = "fits now"
    NOT_NOW = "not now"
    NEVER = "never on these nodes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod on a node that lacks something of which that pod has `amounts`."""

    pod: Placed
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What one node says: `reasons` in the scheduler's words, none when the pod fits.

    `shortfalls` are all that it lacks, `ever` whether the pod could run there if others left, `holders` the pods that
    have most of what is short, at most five.
    """

    name: str
    reasons: tuple[str, ...]
    shortfalls: tuple[Insufficient, ...] = ()
    ever: bool = True
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of `copies` of a pod: those that can run, and on which nodes, one entry for each.

    `sentence` is what the scheduler would write of the first that cannot; `unknown` names what could not be judged;
    `largest` is the most that any node has of what no node has enough of.
    """

    kind: Kind
    copies: int
    places: tuple[str, ...]
    sentence: str = ""
    unknown: tuple[str, ...] = ()
    largest: Mapping[str, int] = field(default_factory=dict)
    said: Filtered | None = None

    @property
    def placed(self) -> int:
        """How many copies can run now."""
        return len(self.places)


def answer(pod: PlacedPod, cluster: Cluster, visit: Visit, copies: int = 1) -> Answer:
    """Place copies of a pod on a cluster, for as long as the visit lasts, and say what becomes of them.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
    """
    incoming = Incoming.of(pod)
    unknown = tuple(unknowns(incoming))
    room = visit.settle(pod, copies)
    places = tuple(cluster.nodes.name(place) for place in room.places)
    if room.last is None:
        return Answer(Kind.UNKNOWN if unknown else Kind.NOW, copies, places, unknown=unknown)
    kind, largest = _kind(incoming, cluster, room)
    return Answer(kind, copies, places, sentence(room.last), unknown, largest, room.last)


def unknowns(pod: Incoming) -> Iterable[str]:
    """What of a pod is not judged here."""
    spec = pod.spec
    if spec.resource_claims:
        yield "resource claims: which devices are free for them is not modelled"
    if (spec.scheduler_name or _DEFAULT_SCHEDULER) != _DEFAULT_SCHEDULER:
        yield f"scheduler {spec.scheduler_name}: its rules are not known, those of the default one were asked"


def node_answer(pod: Incoming, cluster: Cluster, said: Filtered, place: int) -> NodeAnswer:
    """What one of the nodes says that were asked."""
    nodes = cluster.nodes
    reasons = said.reasons(place)
    if not reasons:
        return NodeAnswer(nodes.name(place), ())
    lacking = resources.shortfalls(pod, cluster, place)
    (never,) = impossible(pod, cluster, said.places[said.places == place]).tolist()
    return NodeAnswer(
        nodes.name(place), reasons, lacking, not never, () if never else _holders(cluster, place, lacking)
    )


def _kind(pod: Incoming, cluster: Cluster, room: Room) -> tuple[Kind, Mapping[str, int]]:
    if room.places or room.last is None or not impossible(pod, cluster, room.last.places).all():
        return Kind.NOT_NOW, {}
    nodes = cluster.nodes
    most = {name: _largest(cluster, name) for name in pod.requests}
    short = {name: largest for name, largest in most.items() if largest < pod.requests[name]}
    return Kind.NEVER, short if len(nodes) else {}


def _largest(cluster: Cluster, resource: str) -> int:
    column = cluster.nodes.allocatable(resource)
    return 0 if column is None else int(column.array[cluster.nodes.places()].max(initial=0))


def _holders(cluster: Cluster, place: int, lacking: Iterable[Insufficient]) -> tuple[Holder, ...]:
    """The pods that have most of what is short there; of several things, of the first."""
    names = [each.resource for each in lacking if each.resource != _PODS]
    held = [
        Holder(pod, amounts)
        for pod in cluster.on(place).values()
        if (amounts := {name: pod.shape.requests[name] for name in names if name in pod.shape.requests})
    ]
    held.sort(key=lambda each: ([-each.amounts.get(name, 0) for name in names], each.pod.namespace, each.pod.name))
    return tuple(held[:_MOST_HOLDERS])
