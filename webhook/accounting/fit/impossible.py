"""Nodes on which a pod can never run as they are, whoever leaves them.

The scheduler hears of each node only the first filter that rejects it; whether a pod waits for others or for ever is
another question, so that here every lasting obstacle is looked for.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit import node_affinity, taints
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Filter, Mask, Places, Rejection, for_good
from webhook.accounting.fit.resources import handed_out

_PODS = "pods"


def too_small(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes that have less than the pod asks for, or room for no pod at all, when they are empty."""
    for name, asked in {_PODS: 1, **pod.requests}.items():
        column = cluster.nodes.find_allocatable_column(name)
        capacity = np.zeros(len(places), dtype=np.int64) if column is None else column.array[places]
        short = np.asarray(capacity < asked, dtype=np.bool_)
        yield for_good(f"Insufficient {name}", short & ~handed_out(cluster, places, name))


LASTING: Sequence[Filter] = (
    taints.unschedulable,
    node_affinity.misnamed,
    taints.tainted,
    node_affinity.unwanted,
    too_small,
)
"""Filters that no pod's leaving changes."""


def impossible(pod: Incoming, cluster: Cluster, places: Places) -> Mask:
    """On which of these nodes the pod can never run."""
    never = np.zeros(len(places), dtype=np.bool_)
    names = node_affinity.named(pod)
    if names is not None:
        never |= ~np.isin(places, [place for name in names if (place := cluster.nodes.find_index(name)) is not None])
    for each in LASTING:
        for rejection in each(pod, cluster, places):
            never |= rejection.nodes
    return never
