"""Which pods' leaving would let a pod run, whatever their priority: what people can do, not what the scheduler does."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.fork import fork
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit import resources
from webhook.accounting.fit.filtering import Filtered, judged
from webhook.accounting.fit.impossible import impossible
from webhook.accounting.fit.incoming import Incoming

_TRIED = 20
"""Nodes that are looked at, the least short of room first."""
_TOLD = 3


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node that takes the pod once these have left it; none of them could stay."""

    node: str
    pods: tuple[PodInfo, ...]


def leaving(pod: Incoming, cluster: Cluster, said: Filtered, staying: Collection[str]) -> tuple[Leaving, ...]:
    """The nodes on which the fewest pods would have to leave, at most three. Pods with a UID in `staying` stay."""
    if said.refused is not None:
        return ()
    places = said.helpful[~impossible(pod, cluster, said.helpful)].tolist()
    places.sort(key=lambda place: (resources.shortness(pod, cluster, place), cluster.nodes.get_name(place)))
    found = [each for place in places[:_TRIED] if (each := _on(pod, cluster, place, staying)) is not None]
    found.sort(key=lambda each: (len(each.pods), max(one.group.priority for one in each.pods), each.node))
    return tuple(found[:_TOLD])


def _on(pod: Incoming, cluster: Cluster, place: int, staying: Collection[str]) -> Leaving | None:
    there = [each for each in cluster.get_node_pods(place).values() if each.uid not in staying]
    at, lacking = np.array([place]), [each.resource for each in resources.shortfalls(pod, cluster, place)]
    with fork(cluster) as suppose:
        for each in there:
            suppose.remove(each)
        if judged(pod, cluster, at).rejected.any():
            return None
        gone = []
        for each in sorted(there, key=lambda one: (-one.group.priority, _held(one, lacking), one.namespace, one.name)):
            suppose.restore(each)
            if judged(pod, cluster, at).rejected.any():
                suppose.remove(each)
                gone.append(each)
    return Leaving(cluster.nodes.get_name(place), tuple(gone)) if gone else None


def _held(pod: PodInfo, resource_names: Collection[str]) -> list[int]:
    """How much it has of what is short: who has least may stay first, so that few must go."""
    return [pod.group.requests.get(name, 0) for name in resource_names]
