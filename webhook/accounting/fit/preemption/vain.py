"""Nodes on which it is in vain to ask anybody to leave, found for all of them at once.

What `dry_run` would find node by node where only room decides: there is nobody of a lower priority, or the pod lacks
something though all of those left (SelectVictimsOnNode in plugins/defaultpreemption/default_preemption.go, v1.36).
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Mask, Places
from webhook.accounting.fit.resources import handed_out

NOBODY = "No preemption victims found for incoming pod"
_PODS = "pods"


def in_vain(pod: Incoming, cluster: Cluster, places: Places) -> tuple[Mask, Counter[str]]:
    """Which of these nodes surely do not help, and how many of them say what.

    A node that may help passes all that is asked before room, where ports alone depend on other pods; and pods that it
    is promised to may take more of it. Such nodes are told from others by who is there only.
    """
    nobody = np.asarray(
        cluster.priority_usage.sum_lower_priorities(pod.priority, _PODS, cluster.nodes.pods.array)[places] == 0,
        dtype=np.bool_,
    )
    said = Counter({NOBODY: int(nobody.sum())})
    asked = np.zeros(len(places), dtype=np.bool_) if pod.ports else ~nobody & ~_promised(cluster, places)
    short = np.zeros(len(places), dtype=np.bool_)
    for reason, lacking in _lacking(pod, cluster, places) if asked.any() else ():
        said[reason] += int((lacking & asked).sum())
        short |= lacking
    return nobody | (short & asked), +said


def _promised(cluster: Cluster, places: Places) -> Mask:
    return np.isin(places, list(cluster.get_nominated_pods()))


def _lacking(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[tuple[str, Mask]]:
    """What nodes lack though all of a lower priority leave, and which do."""
    yield "Too many pods", _short(pod, cluster, places, _PODS, 1)
    for name, asked in pod.requests.items():
        yield f"Insufficient {name}", _short(pod, cluster, places, name, asked) & ~handed_out(cluster, places, name)


def _short(pod: Incoming, cluster: Cluster, places: Places, name: str, asked: int) -> Mask:
    nodes = cluster.nodes
    has, used = nodes.find_allocatable_column(name), nodes.pods if name == _PODS else nodes.find_used_column(name)
    free = np.zeros(len(places), dtype=np.int64) if has is None else has.array[places]
    if used is not None:
        free = free - (used.array - cluster.priority_usage.sum_lower_priorities(pod.priority, name, used.array))[places]
    return np.asarray(free < asked, dtype=np.bool_)
