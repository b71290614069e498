"""Which pods' leaving would let a pod run, whatever their priority: what people can do, not what the scheduler does."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.fork import fork
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.fit import resources
from webhook.accounting.fit.filtering import Diagnosis, run_filters_with_nominated_pods
from webhook.accounting.fit.impossible import mask_unresolvable
from webhook.accounting.fit.incoming import IncomingPod

_MAX_TRIED_NODES = 20
"""Nodes that are looked at, the least short of room first."""
_MAX_OPTIONS = 3


@dataclass(frozen=True, slots=True)
class EvictionOption:
    """A node that takes the pod once these have left it; none of them could stay."""

    node: str
    pods: tuple[PodInfo, ...]


def find_eviction_options(
    pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, kept_uids: Collection[str]
) -> tuple[EvictionOption, ...]:
    """The nodes on which the fewest pods would have to leave, at most three. Pods with a UID in `staying` stay."""
    if diagnosis.pre_filter_status is not None:
        return ()
    nodes = diagnosis.resolvable[~mask_unresolvable(pod, cluster, diagnosis.resolvable)].tolist()
    nodes.sort(key=lambda place: (resources.measure_shortfall(pod, cluster, place), cluster.nodes.get_name(place)))
    options = [
        option
        for node_index in nodes[:_MAX_TRIED_NODES]
        if (option := _find_option(pod, cluster, node_index, kept_uids)) is not None
    ]
    options.sort(key=lambda each: (len(each.pods), max(evicted.group.priority for evicted in each.pods), each.node))
    return tuple(options[:_MAX_OPTIONS])


def _find_option(
    pod: IncomingPod, cluster: Cluster, node_index: int, kept_uids: Collection[str]
) -> EvictionOption | None:
    candidates = [each for each in cluster.get_node_pods(node_index).values() if each.uid not in kept_uids]
    nodes, missing = (
        np.array([node_index]),
        [each.resource for each in resources.find_shortfalls(pod, cluster, node_index)],
    )
    with fork(cluster) as forked:
        for candidate in candidates:
            forked.remove(candidate)
        if run_filters_with_nominated_pods(pod, cluster, nodes).rejected.any():
            return None
        evicted = []
        for candidate in sorted(
            candidates,
            key=lambda pod_info: (
                -pod_info.group.priority,
                _list_used_amounts(pod_info, missing),
                pod_info.namespace,
                pod_info.name,
            ),
        ):
            forked.restore(candidate)
            if run_filters_with_nominated_pods(pod, cluster, nodes).rejected.any():
                forked.remove(candidate)
                evicted.append(candidate)
    return EvictionOption(cluster.nodes.get_name(node_index), tuple(evicted)) if evicted else None


def _list_used_amounts(pod: PodInfo, resource_names: Collection[str]) -> list[int]:
    """How much it has of what is short: who has least may stay first, so that few must go."""
    return [pod.group.requests.get(name, 0) for name in resource_names]
