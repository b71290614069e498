"""Whether copies of a pod have room now, and if not, whether the scheduler makes room, as far as that is soon told.

`answer` and `verdict` say it to the letter, and try a hundred nodes for whom to ask to leave. Here a few are tried.
"""

from dataclasses import dataclass

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit import neighbours, spread
from webhook.accounting.fit.filtering import Filtered, filtered
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.preemption.dry_run import Candidate, dry_run
from webhook.accounting.fit.preemption.vain import in_vain
from webhook.accounting.fit.rejection import Places
from webhook.accounting.fit.room import copies_on, is_by_itself, visiting
from webhook.accounting.fit.verdict import told
from webhook.objects.scheduling import SchedulingPod

_NEVER = "Never"
_MOST_TRIED = 3  # on each, every pod of a lower priority is thought away and back


@dataclass(frozen=True, slots=True)
class Leaving:
    """On this node `pods` would have to leave, all of a lower priority; others may be asked on another."""

    node: str
    pods: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class Shortage:
    """So many copies are `placed`, and the next has no room: in the scheduler's words, or since others must `leave`."""

    placed: int
    sentence: str = ""
    leaving: Leaving | None = None


def shortage(pod: SchedulingPod, incoming: Incoming, cluster: Cluster, copies: int, first: Filtered) -> Shortage | None:
    """What keeps some of so many copies out, of which nodes say `first` to the first.

    None when all have room, and when it is not soon told whether others would be asked to leave.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
    """
    if copies == 1:
        return None if len(first.fitting) else _of_next(0, incoming, cluster, first)
    if is_by_itself(incoming) and int(copies_on(incoming, cluster, first.fitting).sum()) >= copies:
        return None
    with visiting(cluster) as visit:
        placed = len(visit.settle(pod, copies))
        return None if placed == copies else _of_next(placed, incoming, cluster, filtered(incoming, cluster))


def _of_next(placed: int, pod: Incoming, cluster: Cluster, said: Filtered) -> Shortage | None:
    """Of a copy to which nodes say this, which none of them takes."""
    places = _of_use(pod, cluster, said)
    for place in places[:_MOST_TRIED].tolist():
        found = dry_run(pod, cluster, place)
        if isinstance(found, Candidate):
            return Shortage(placed, leaving=Leaving(cluster.nodes.get_name(place), found.victims))
    return None if len(places) > _MOST_TRIED else Shortage(placed, told(pod, cluster, said).sentence)


def _of_use(pod: Incoming, cluster: Cluster, said: Filtered) -> Places:
    """The nodes on which asking others to leave may help."""
    if pod.spec.preemption_policy == _NEVER or said.refused is not None:
        return said.places[:0]
    places = said.helpful
    vain, _ = in_vain(pod, cluster, places)
    return _likely_first(pod, cluster, places[~vain])


def _likely_first(pod: Incoming, cluster: Cluster, places: Places) -> Places:
    """First those that the pod's company lets it be on as it is: of a node without room the filters ask no further."""
    rejected = np.zeros(len(places), dtype=np.bool_)
    for judge in (spread.uneven, neighbours.apart):
        for rejection in judge(pod, cluster, places) if len(places) > _MOST_TRIED else ():
            rejected |= rejection.nodes
    return np.concatenate([places[~rejected], places[rejected]])
