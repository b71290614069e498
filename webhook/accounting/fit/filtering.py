"""A pod against all nodes: the filters in the scheduler's order, and what each node says.

Source: findNodesThatFitPod in pkg/scheduler/schedule_one.go, RunPreFilterPlugins, RunFilterPlugins and
RunFilterPluginsWithNominatedPods in framework/runtime/framework.go, default_plugins.go, v1.36.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit import neighbours, node_affinity, resources, spread, taints
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Filter, Mask, Places, Rejection, for_good


@dataclass(frozen=True, slots=True)
class Refused:
    """A pod that no node is asked for: why, and whether nobody's leaving could help."""

    reason: str
    for_good: bool


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """What every node says: `rejections` over `places`, each node's from the first filter that rejects it only.

    `refused` when nodes were not asked.
    """

    places: Places
    rejections: tuple[Rejection, ...]
    refused: Refused | None = None

    @property
    def fitting(self) -> Places:
        """The places of the nodes that the pod fits on."""
        return self.places[~self._any()] if self.refused is None else self.places[:0]

    @property
    def helpful(self) -> Places:
        """The places of the nodes that reject the pod, where others' leaving might help."""
        if self.refused is not None:
            return self.places[:0] if self.refused.for_good else self.places
        hopeless = np.zeros(len(self.places), dtype=np.bool_)
        for each in self.rejections:
            hopeless |= each.for_good
        return self.places[self._any() & ~hopeless]

    def reasons(self, place: int) -> tuple[str, ...]:
        """Why one node rejects the pod; empty when it does not."""
        if self.refused is not None:
            return (self.refused.reason,)
        (index,) = np.flatnonzero(self.places == place)
        return tuple(each.reason for each in self.rejections if each.nodes[index])

    def _any(self) -> Mask:
        rejected = np.zeros(len(self.places), dtype=np.bool_)
        for each in self.rejections:
            rejected |= each.nodes
        return rejected


FILTERS: Sequence[Filter] = (
    taints.unschedulable,
    node_affinity.misnamed,
    taints.tainted,
    node_affinity.unwanted,
    resources.ports_taken,
    resources.insufficient,
    spread.uneven,
    neighbours.apart,
)
"""The filters in their order. The first that rejects a node is the only one that is heard of it."""


def filtered(pod: Incoming, cluster: Cluster, places: Places | None = None) -> Filtered:
    """What the nodes of a cluster, or these of them, say to a pod."""
    asked = cluster.nodes.places() if places is None else places
    names = node_affinity.named(pod)
    if names is not None and not names:
        return Filtered(asked, (), Refused("pod affinity terms conflict", for_good=True))
    if pod.company.fault:
        return Filtered(asked, (), Refused(pod.company.fault, for_good=True))
    return Filtered(asked, tuple(_heard(pod, cluster, asked, names)))


def _heard(pod: Incoming, cluster: Cluster, asked: Places, names: frozenset[str] | None) -> Iterator[Rejection]:
    """The rejections, each of nodes that no filter before has rejected."""
    standing = np.ones(len(asked), dtype=np.bool_)
    if names is not None:
        left_out = ~_named(cluster, asked, names)
        yield for_good("node(s) didn't satisfy plugin(s) [NodeAffinity]", left_out)
        standing &= ~left_out
    for each in FILTERS:
        left = np.flatnonzero(standing)
        if not len(left):
            return
        for rejection in each(pod, cluster, asked[left]):
            if rejection.nodes.any():
                yield _spread(rejection, left, len(asked))
                standing[left[rejection.nodes]] = False


def _named(cluster: Cluster, asked: Places, names: frozenset[str]) -> Mask:
    known = [place for name in names if (place := cluster.nodes.place(name)) is not None]
    return np.isin(asked, known)


def _spread(rejection: Rejection, left: Places, size: int) -> Rejection:
    """The same rejection over all places that were asked about."""
    nodes, hopeless = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    nodes[left], hopeless[left] = rejection.nodes, rejection.for_good
    return Rejection(rejection.reason, nodes, hopeless)
