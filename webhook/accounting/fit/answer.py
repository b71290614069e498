"""The answer to whether copies of a pod can run: now, later, never, or as far as is known; node by node if asked."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit import resources, strangers
from webhook.accounting.fit.filtering import Filtered
from webhook.accounting.fit.impossible import impossible
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.priority import prioritised
from webhook.accounting.fit.room import Visit
from webhook.accounting.fit.verdict import Verdict, verdict
from webhook.accounting.fit.volumes.unknown import unknown
from webhook.accounting.node_fit import Shortfall
from webhook.objects.scheduling import SchedulingPod

MOST_HOLDERS = 5
"""Pods that are told of a node."""
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

    pod: PodInfo
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What one node says: `reasons` in the scheduler's words, none when the pod fits.

    `shortfalls` are all that it lacks, `ever` whether the pod could run there if others left, `holders` the pods that
    have most of what is short, at most five.
    """

    name: str
    reasons: tuple[str, ...]
    shortfalls: tuple[Shortfall, ...] = ()
    ever: bool = True
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of `copies` of a pod: those that can run, and on which nodes, one entry for each.

    `verdict` is what the scheduler comes to with the first that cannot; `unknown` names what could not be judged;
    `largest` is the most that any node has of what no node has enough of.
    """

    kind: Kind
    copies: int
    places: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    verdict: Verdict | None = None
    largest: Mapping[str, int] = field(default_factory=dict)

    @property
    def placed(self) -> int:
        """How many copies can run now."""
        return len(self.places)


def answer(pod: SchedulingPod, cluster: Cluster, visit: Visit, copies: int = 1) -> Answer:
    """Place copies of a pod on a cluster, for as long as the visit lasts, and say what becomes of them.

    Raises:
        QuantityError: a quantity that the pod asks for, or the size of a claim or volume that it needs, is none.
        NoPriorityClassError: it names a class that is not there.
        SelectorError: a claim of it has a selector that is none.
    """
    incoming = Incoming.of(prioritised(pod, cluster.priority_classes))
    questions = tuple(open_questions(incoming, cluster))
    places = () if incoming.spec.scheduling_gates else visit.settle(pod, copies)
    names = tuple(cluster.nodes.get_name(place) for place in places)
    if len(names) == copies:
        return Answer(Kind.UNKNOWN if questions else Kind.NOW, copies, names, questions)
    said = verdict(pod, cluster)
    if names or not _is_hopeless(incoming, cluster, said):
        return Answer(Kind.NOT_NOW, copies, names, questions, said)
    return Answer(Kind.NEVER, copies, names, questions, said, too_little(incoming, cluster))


def open_questions(pod: Incoming, cluster: Cluster) -> Iterator[str]:
    """What of a pod is not judged here."""
    yield from unknown(pod, cluster)
    yield from strangers.unknown(pod, cluster)
    if pod.spec.resource_claims:
        yield "resource claims: which devices are free for them is not modelled"
    for name in pod.requests:
        if (device_class := cluster.device_classes.find_class(name)) is not None:
            yield f"{name}: which devices of class {device_class} are free for it is not modelled"
    if (pod.spec.scheduler_name or _DEFAULT_SCHEDULER) != _DEFAULT_SCHEDULER:
        yield f"scheduler {pod.spec.scheduler_name}: its rules are not known; those of the default one were asked"


def node_answer(pod: Incoming, cluster: Cluster, said: Filtered, place: int) -> NodeAnswer:
    """What one of the nodes says that were asked."""
    nodes = cluster.nodes
    reasons = said.reasons(place)
    if not reasons:
        return NodeAnswer(nodes.get_name(place), ())
    lacking = resources.shortfalls(pod, cluster, place)
    (never,) = impossible(pod, cluster, said.places[said.places == place]).tolist()
    return NodeAnswer(
        nodes.get_name(place), reasons, lacking, not never, () if never else _holders(cluster, place, lacking)
    )


def _is_hopeless(pod: Incoming, cluster: Cluster, said: Verdict) -> bool:
    """Whether no node that was asked can ever run the pod."""
    asked = None if said.said is None or said.said.refused is not None else said.said.places
    return asked is not None and bool(len(asked)) and bool(impossible(pod, cluster, asked).all())


def too_little(pod: Incoming, cluster: Cluster) -> Mapping[str, int]:
    """The most that any node has of each resource that no node has enough of."""
    most = {name: _largest(cluster, name) for name in pod.requests}
    return {name: largest for name, largest in most.items() if largest < pod.requests[name]}


def _largest(cluster: Cluster, resource: str) -> int:
    column = cluster.nodes.find_allocatable_column(resource)
    return 0 if column is None else int(column.array[cluster.nodes.get_indices()].max(initial=0))


def _holders(cluster: Cluster, place: int, lacking: Iterable[Shortfall]) -> tuple[Holder, ...]:
    """The pods that have most of what is short there; of several things, of the first."""
    names = [each.resource for each in lacking if each.resource != _PODS]
    held = [
        Holder(pod, amounts)
        for pod in cluster.get_node_pods(place).values()
        if (amounts := {name: pod.group.requests[name] for name in names if name in pod.group.requests})
    ]
    held.sort(key=lambda each: ([-each.amounts.get(name, 0) for name in names], each.pod.namespace, each.pod.name))
    return tuple(held[:MOST_HOLDERS])
