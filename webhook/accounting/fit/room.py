"""How many copies of a pod find room, placed one after the other as the scheduler would see them.

Copies that neither shun nor seek each other take what they ask for and nothing else, so that each node's room can be
counted by itself. All others are placed one by one, on the cluster itself, and taken away again; each time it is asked
anew what may have changed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.inter_pod_terms import merge_label_keys
from webhook.accounting.cluster.pod_info import PodInfo, list_scheduling_volumes
from webhook.accounting.fit import scores
from webhook.accounting.fit.ahead import Ahead, liking
from webhook.accounting.fit.filtering import COMPANY, FILTERS, Filtered, filtered, passing
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.node_affinity import named
from webhook.accounting.fit.priority import prioritised
from webhook.accounting.fit.rejection import Places
from webhook.accounting.fit.resources import handed_out
from webhook.accounting.fit.scores import Numbers, Scoring
from webhook.objects.scheduling import SchedulingPod

_PODS = "pods"
_HARD = "DoNotSchedule"
_LARGE = 1 << 62  # what is asked for need not fit in 64 bits, as the columns' numbers do


@dataclass(frozen=True, slots=True)
class Room:
    """Where copies go: the place of each in turn; `last` is what the nodes say to the first for which there is none."""

    places: tuple[int, ...]
    last: Filtered | None


def room_for(pod: SchedulingPod, cluster: Cluster, copies: int) -> Room:
    """Place so many copies of a pod, each where the scheduler would like it best. The cluster is as before afterwards.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
    """
    with visiting(cluster) as visit:
        places = visit.settle(pod, copies)
        return Room(places, None if len(places) == copies else filtered(Incoming.of(pod), cluster))


def most_of(pod: SchedulingPod, cluster: Cluster) -> int:
    """How many copies of a pod there is room for. The cluster is as before afterwards.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
    """
    incoming = Incoming.of(prioritised(pod, cluster.priority_classes))
    if is_by_itself(incoming):
        return int(sum(copies_on(incoming, cluster, filtered(incoming, cluster).fitting)))
    return len(room_for(pod, cluster, most_pods(cluster)).places)


def is_by_itself(pod: Incoming) -> bool:
    """Whether copies of a pod are in each other's way by what they take of a node only."""
    affinity, spec = pod.spec.affinity, pod.spec
    hard = any(each.when_unsatisfiable == _HARD for each in spec.topology_spread_constraints or ())
    near = affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
    return not (hard or near or list_scheduling_volumes(spec))


def copies_on(pod: Incoming, cluster: Cluster, places: Places) -> Numbers:
    """How many copies each of these nodes takes, on each of which one fits."""
    room = free(cluster, places, _PODS)
    if pod.ports:
        room = np.minimum(room, 1)
    for name, asked in pod.requests.items():
        limited = ~handed_out(cluster, places, name)
        left = free(cluster, places, name)
        fits = left // asked if asked < _LARGE else left.astype(object) // asked
        room = np.where(limited, np.minimum(room, fits), room)
    for place, promised in cluster.get_nominated_pods().items():
        at = np.flatnonzero(places == place)
        rivals = [each for each in promised.values() if each.group.priority >= pod.priority and each.uid != pod.uid]
        if len(at) and rivals:
            room[at] = _beside(pod, cluster, place, rivals)
    return room


class Visit:
    """Copies of pods that are on a cluster for the time being, where `scoring` likes them best."""

    def __init__(self, cluster: Cluster, scoring: Scoring = scores.DEFAULT) -> None:
        self._cluster, self._scoring = cluster, scoring
        self.placed: list[PodInfo] = []

    def settle(self, pod: SchedulingPod, copies: int) -> tuple[int, ...]:
        """Place so many copies, or as many as there is room for; the place of each.

        Raises:
            QuantityError: a quantity that the pod asks for is none.
            NoPriorityClassError: it names a class that is not there.
        """
        settled = merge_label_keys(prioritised(pod, self._cluster.priority_classes))
        incoming = Incoming.of(settled)
        return tuple(self._way(incoming)(settled, incoming, copies))

    def _way(self, pod: Incoming) -> Callable[[SchedulingPod, Incoming, int], Iterator[int]]:
        """The quickest that comes to the same as asking everything of every node each time."""
        if is_by_itself(pod):
            return self._apart
        return self._one_by_one if self._asks_more(pod) else self._together

    def _apart(self, pod: SchedulingPod, incoming: Incoming, copies: int) -> Iterator[int]:
        """Those that do not mind each other: only the node that has just taken one is looked at again."""
        fitting = filtered(incoming, self._cluster).fitting
        room = dict(zip(fitting.tolist(), copies_on(incoming, self._cluster, fitting).tolist(), strict=True))
        ahead = self._ahead(pod, incoming)
        liked = ahead.now(fitting).tolist()
        heap = [(-score, self._cluster.nodes.get_name(place), place) for place, score in zip(room, liked, strict=True)]
        heapify(heap)
        for _ in range(copies):
            if not heap:
                return
            _, name, place = heap[0]
            self.put(pod, place)
            yield place
            room[place] -= 1
            if room[place]:
                heapreplace(heap, (-ahead.after(place), name, place))
            else:
                heappop(heap)

    def _together(self, pod: SchedulingPod, incoming: Incoming, copies: int) -> Iterator[int]:
        """Those that mind whom they are with: of every node it is asked anew what that means, and nothing else."""
        cluster = self._cluster
        if filtered(incoming, cluster).refused is not None:
            return
        left = passing(
            incoming, cluster, cluster.nodes.get_indices(), [each for each in FILTERS if each not in COMPANY]
        )
        left = left[np.argsort([cluster.nodes.get_name(place) for place in left.tolist()], kind="stable")]
        room, ahead = copies_on(incoming, cluster, left), self._ahead(pod, incoming)
        liked = ahead.now(left)
        for _ in range(copies):
            fitting = np.flatnonzero(np.isin(left, passing(incoming, cluster, left, COMPANY)))
            if not len(fitting):
                return
            chosen = int(fitting[liked[fitting].argmax()])
            place = int(left[chosen])
            self.put(pod, place)
            yield place
            room[chosen] -= 1
            liked[chosen] = ahead.after(place)
            if not room[chosen]:
                left, room, liked = (np.delete(each, chosen) for each in (left, room, liked))

    def _one_by_one(self, pod: SchedulingPod, incoming: Incoming, copies: int) -> Iterator[int]:
        """Those of which everything is asked of every node each time."""
        for _ in range(copies):
            fitting = filtered(incoming, self._cluster).fitting
            if not len(fitting):
                return
            liked = liking(incoming, self._cluster, fitting, self._scoring)
            place = min(fitting[liked == liked.max()].tolist(), key=self._cluster.nodes.get_name)
            self.put(pod, place)
            yield place

    def _asks_more(self, pod: Incoming) -> bool:
        """Whether more decides than company and what copies take: volumes, nodes by name, whom the pod yields to."""
        return bool(list_scheduling_volumes(pod.spec) or self._cluster.get_nominated_pods()) or named(pod) is not None

    def _ahead(self, pod: SchedulingPod, incoming: Incoming) -> Ahead:
        return Ahead(incoming, self._cluster.groups.intern(pod), self._cluster, self._scoring)

    def put(self, pod: SchedulingPod, place: int) -> None:
        """Place one copy."""
        copy = PodInfo(
            f"copy {len(self.placed)}",
            pod.metadata.name or "" if pod.metadata else "",
            self._cluster.groups.intern(pod),
            self._cluster.nodes.get_name(place),
            volumes=list_scheduling_volumes(pod.spec) if pod.spec else (),
        )
        self.placed.append(copy)
        self._cluster.put_pod(copy)


@contextmanager
def visiting(cluster: Cluster, scoring: Scoring = scores.DEFAULT) -> Iterator[Visit]:
    """A visit, at the end of which all that was placed is taken away again."""
    visit = Visit(cluster, scoring)
    try:
        yield visit
    finally:
        for copy in visit.placed:
            cluster.remove_pod(copy.uid)


def most_pods(cluster: Cluster) -> int:
    """As many pods as all nodes can take."""
    return int(np.maximum(free(cluster, cluster.nodes.get_indices(), _PODS), 0).sum())


def free(cluster: Cluster, places: Places, resource: str) -> Numbers:
    """What is left of a resource on each of these nodes."""
    has = cluster.nodes.find_allocatable_column(resource)
    used = cluster.nodes.pods if resource == _PODS else cluster.nodes.find_used_column(resource)
    free: Numbers = np.zeros(len(places), dtype=np.int64) if has is None else has.array[places]
    return free if used is None else free - used.array[places]


def _beside(pod: Incoming, cluster: Cluster, place: int, rivals: list[PodInfo]) -> int:
    """How many copies one node takes beside pods that it is promised to."""
    at = np.array([place])
    room = int(free(cluster, at, _PODS)[0]) - len(rivals)
    for name, asked in pod.requests.items():
        promised = sum(each.group.requests.get(name, 0) for each in rivals)
        room = min(room, (int(free(cluster, at, name)[0]) - promised) // asked)
    return min(room, 1) if pod.ports else room
