"""A pod against all nodes: the filters in the scheduler's order, and what each node says.

Source: findNodesThatFitPod in pkg/scheduler/schedule_one.go, RunPreFilterPlugins, RunFilterPlugins and
RunFilterPluginsWithNominatedPods in framework/runtime/framework.go, default_plugins.go, v1.36.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.fork import fork
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit import features, neighbours, node_affinity, promised, resources, spread, taints
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Filter, Mask, Places, Rejection, for_good
from webhook.accounting.fit.volumes import binding, claims, limits, restrictions, zones


@dataclass(frozen=True, slots=True)
class Refused:
    """A pod that no node is asked for: why, whether nobody's leaving could help, and whether the attempt failed."""

    reason: str
    for_good: bool
    is_fault: bool = False


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
        return self.places[~self.rejected] if self.refused is None else self.places[:0]

    @property
    def helpful(self) -> Places:
        """The places of the nodes that reject the pod, where others' leaving might help."""
        if self.refused is not None:
            return self.places[:0] if self.refused.for_good else self.places
        hopeless = np.zeros(len(self.places), dtype=np.bool_)
        for each in self.rejections:
            hopeless |= each.for_good
        return self.places[self.rejected & ~hopeless]

    def reasons(self, place: int) -> tuple[str, ...]:
        """Why one node rejects the pod; empty when it does not."""
        if self.refused is not None:
            return (self.refused.reason,)
        (index,) = np.flatnonzero(self.places == place)
        return tuple(each.reason for each in self.rejections if each.nodes[index])

    @property
    def fault(self) -> str:
        """What the scheduler stumbles over where there is a node, which ends its attempt; empty if nothing is amiss."""
        if self.refused is not None and self.refused.is_fault and len(self.places):
            return self.refused.reason
        faults = (each for each in self.rejections if each.is_fault and each.nodes.any())
        return next((f'running "{each.plugin}" filter plugin: {each.reason}' for each in faults), "")

    @property
    def rejected(self) -> Mask:
        """Which of the places reject the pod, where they were asked."""
        rejected = np.zeros(len(self.places), dtype=np.bool_)
        for each in self.rejections:
            rejected |= each.nodes
        return rejected


Refusal = Callable[[Incoming, Cluster], str | None]
"""Says why a pod is placed on no node whatever, or None."""

REFUSALS: Sequence[Refusal] = (
    node_affinity.contradiction,
    restrictions.refusal,
    claims.refusal,
    zones.refusal,
    neighbours.refusal,
)
"""What is asked before the nodes are, in the order of the plugins. The first that refuses is the only one heard."""

FILTERS: Mapping[str, Filter] = {
    "NodeUnschedulable": taints.unschedulable,
    "NodeName": node_affinity.misnamed,
    "TaintToleration": taints.tainted,
    "NodeAffinity": node_affinity.unwanted,
    "NodePorts": resources.ports_taken,
    "NodeResourcesFit": resources.insufficient,
    "VolumeRestrictions": restrictions.restricted,
    "NodeVolumeLimits": limits.exceeding,
    "VolumeBinding": binding.unbindable,
    "VolumeZone": zones.apart,
    "PodTopologySpread": spread.uneven,
    "InterPodAffinity": neighbours.apart,
    "NodeDeclaredFeatures": features.lacking,
}
"""The filters in their order, by plugin. The first that rejects a node is the only one that is heard of it."""

COMPANY = ("PodTopologySpread", "InterPodAffinity")
"""Those that go by whom pods are with: a pod that comes to one node changes what they say of others."""

_NAMING = "NodeAffinity"  # the only plugin of the default profile that says beforehand which nodes are worth asking


def filtered(pod: Incoming, cluster: Cluster, places: Places | None = None) -> Filtered:
    """What the nodes of a cluster, or these of them, say to a pod."""
    asked = cluster.nodes.get_indices() if places is None else places
    for refusal in REFUSALS:
        reason = refusal(pod, cluster)
        if reason is not None:
            return Filtered(asked, (), Refused(reason, for_good=True))
    if pod.company.failure:
        return Filtered(asked, (), Refused(pod.company.failure, for_good=True, is_fault=True))
    names = node_affinity.named(pod)
    return judged(pod, cluster, asked) if names is None else _narrowed(pod, cluster, asked, names)


def passing(pod: Incoming, cluster: Cluster, places: Places, plugins: Iterable[str]) -> Places:
    """Those of these nodes, in their order, that each of some filters lets the pod on, beside nobody it yields to."""
    for plugin in plugins:
        standing = np.ones(len(places), dtype=np.bool_)
        for rejection in FILTERS[plugin](pod, cluster, places):
            standing &= ~rejection.nodes
        places = places if standing.all() else places[standing]
    return places


def _narrowed(pod: Incoming, cluster: Cluster, asked: Places, names: frozenset[str]) -> Filtered:
    """What nodes say of which only those are worth asking that the pod names.

    The node that is promised to the pod is asked before all, named or not; the plugin that rejects it there is then
    told among those that left the others out.
    """
    promise = cluster.nodes.find_index(pod.nominated) if pod.nominated else None
    named = [place for name in names if (place := cluster.nodes.find_index(name)) is not None]
    (tried,) = np.isin(asked, [*named, *([] if promise is None else [promise])]).nonzero()
    said = [_spread(each, tried, len(asked)) for each in judged(pod, cluster, asked[tried]).rejections]
    plugins = {_NAMING, *(each.plugin for each in said if each.nodes[asked == promise].any())}
    left_out = np.isin(np.arange(len(asked)), tried, invert=True)
    narrowing = for_good(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]", left_out)
    return Filtered(asked, (narrowing, *said))


def judged(pod: Incoming, cluster: Cluster, asked: Places) -> Filtered:
    """What these nodes say to a pod that is not refused.

    A node that is promised to pods of the same or a higher priority must take the pod both beside them and alone.
    """
    alone = tuple(_heard(pod, cluster, asked))
    crowded = promised.rivals(pod, cluster, asked)
    if not crowded:
        return Filtered(asked, alone)
    beside = [_beside(pod, cluster, asked, index, rivals) for index, rivals in crowded.items()]
    rejected = Filtered(asked, tuple(chain.from_iterable(beside))).rejected
    return Filtered(asked, (*chain.from_iterable(beside), *(_elsewhere(each, rejected) for each in alone)))


def _beside(pod: Incoming, cluster: Cluster, asked: Places, index: int, rivals: Iterable[PodInfo]) -> list[Rejection]:
    """What one of the nodes says while pods are thought there that it is promised to."""
    at = np.array([index])
    with fork(cluster) as suppose:
        for rival in rivals:
            suppose.assume(rival)
        return [_spread(each, at, len(asked)) for each in _heard(pod, cluster, asked[at])]


def _elsewhere(rejection: Rejection, said: Mask) -> Rejection:
    """The same rejection, but for nodes that have said something already."""
    return replace(rejection, nodes=rejection.nodes & ~said, for_good=rejection.for_good & ~said)


def _heard(pod: Incoming, cluster: Cluster, asked: Places) -> Iterator[Rejection]:
    """The rejections, each of nodes that no filter before has rejected."""
    standing = np.ones(len(asked), dtype=np.bool_)
    for plugin, judge in FILTERS.items():
        left = np.flatnonzero(standing)
        if not len(left):
            return
        for rejection in judge(pod, cluster, asked[left]):
            if rejection.nodes.any():
                yield replace(_spread(rejection, left, len(asked)), plugin=plugin)
                standing[left[rejection.nodes]] = False


def _spread(rejection: Rejection, left: Places, size: int) -> Rejection:
    """The same rejection over all places that were asked about."""
    nodes, hopeless = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    nodes[left], hopeless[left] = rejection.nodes, rejection.for_good
    return replace(rejection, nodes=nodes, for_good=hopeless)
