"""How many more copies of a pod there is room for, on each node and in all, and what then keeps the next one out."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.answer import open_questions
from webhook.accounting.fit.filtering import Filtered, filtered
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.priority import prioritised
from webhook.accounting.fit.rejection import Mask, Places
from webhook.accounting.fit.resources import PORTS_TAKEN
from webhook.accounting.fit.room import copies_on, free, is_by_itself, most_pods, visiting
from webhook.accounting.fit.scores import Numbers
from webhook.accounting.fit.sentence import sentence, summed_up
from webhook.objects.scheduling import SchedulingPod

_PODS = "pods"


@dataclass(frozen=True, slots=True)
class Headroom:
    """`copies` by node, of the nodes that take any; `sentence` is what keeps the next copy out, `limits` its parts.

    The sentence is what the scheduler would begin its own with; `unknown` names what was not judged.
    """

    copies: Mapping[str, int]
    sentence: str
    limits: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """On all nodes together."""
        return sum(self.copies.values())


def headroom(pod: SchedulingPod, cluster: Cluster) -> Headroom:
    """The room for copies of a pod. The cluster is as before afterwards.

    Raises:
        QuantityError: a quantity that the pod asks for, or the size of a claim or volume that it needs, is none.
        NoPriorityClassError: it names a class that is not there.
        SelectorError: a claim of it has a selector that is none.
    """
    prepared = prioritised(pod, cluster.priority_classes)
    incoming = Incoming.of(prepared)
    by_itself = is_by_itself(incoming)
    copies, said, limits = _apart(incoming, cluster) if by_itself else _together(prepared, incoming, cluster)
    told = sentence(said) if said.refused or not len(said.places) else summed_up(len(said.places), limits)
    return Headroom(copies, told, dict(limits.most_common()), tuple(open_questions(incoming, cluster)))


def _apart(pod: Incoming, cluster: Cluster) -> tuple[Mapping[str, int], Filtered, Counter[str]]:
    """Of copies that are in each other's way only by what they take: each node's room is counted by itself."""
    said = filtered(pod, cluster)
    fitting = said.fitting
    room = copies_on(pod, cluster, fitting)
    copies = {cluster.nodes.get_name(place): int(many) for place, many in zip(fitting.tolist(), room, strict=True)}
    limits = _counts(said)
    for reason, nodes in _full(pod, cluster, fitting, room):
        limits[reason] += int(nodes.sum())
    return copies, said, +limits


def _together(
    pod: SchedulingPod, incoming: Incoming, cluster: Cluster
) -> tuple[Mapping[str, int], Filtered, Counter[str]]:
    """Of all others: placed one after the other, until there is no room."""
    with visiting(cluster) as visit:
        places = visit.settle(pod, most_pods(cluster))
        said = filtered(incoming, cluster)
    return dict(Counter(cluster.nodes.get_name(place) for place in places)), said, +_counts(said)


def _counts(said: Filtered) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in said.rejections:
        counts[each.reason] += int(each.nodes.sum())
    return counts


def _full(pod: Incoming, cluster: Cluster, places: Places, room: Numbers) -> Iterator[tuple[str, Mask]]:
    """What nodes say to one copy more than they have room for."""
    if pod.ports:
        yield PORTS_TAKEN, np.ones(len(places), dtype=np.bool_)
        return
    yield "Too many pods", _lacks(cluster, pod, places, _PODS, room + 1)
    for name, asked in pod.requests.items():
        yield f"Insufficient {name}", _lacks(cluster, pod, places, name, (room + 1) * asked)


def _lacks(cluster: Cluster, pod: Incoming, places: Places, name: str, wanted: Numbers) -> Mask:
    left = free(cluster, places, name)
    for place, promised in cluster.get_nominated_pods().items():
        rivals = [each for each in promised.values() if each.group.priority >= pod.priority and each.uid != pod.uid]
        taken = len(rivals) if name == _PODS else sum(each.group.requests.get(name, 0) for each in rivals)
        left = np.where(places == place, left - taken, left)
    return np.asarray(left < wanted, dtype=np.bool_)
