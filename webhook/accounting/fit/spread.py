"""Pods spread over domains.

Source: plugins/podtopologyspread/filtering.go and common.go, v1.36.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit import node_affinity, taints
from webhook.accounting.fit.constraints import Constraint
from webhook.accounting.fit.domains import domains
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Places, Rejection, for_good, for_now

Counts = NDArray[np.int64]
"""How many pods, by place or by domain."""

_UNEVEN = "node(s) didn't match pod topology spread constraints"
_NO_LABEL = f"{_UNEVEN} (missing required label)"
_MOST = (1 << 31) - 1  # what stands for the fewest where there is no domain


def uneven(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes in no domain of a constraint, or in one too far ahead: what the first one says that is not kept."""
    standing = np.ones(len(places), dtype=np.bool_)
    labelled = _labelled(pod, cluster) if pod.company.spread else places
    for each in pod.company.spread:
        domain = domains(cluster.nodes, each.key)[0][places]
        outside = standing & (domain < 0)
        yield for_good(_NO_LABEL, outside)
        standing &= ~outside
        skews = _skews(each, pod, cluster, _heeded(each, pod, cluster, labelled))
        ahead = standing & (skews[domain] > each.most)
        yield for_now(_UNEVEN, ahead)
        standing &= ~ahead


def _labelled(pod: Incoming, cluster: Cluster) -> Places:
    """The nodes that are in a domain of every constraint; no others count for any."""
    places = cluster.nodes.get_indices()
    for each in pod.company.spread:
        places = places[domains(cluster.nodes, each.key)[0][places] >= 0]
    return places


def _heeded(constraint: Constraint, pod: Incoming, cluster: Cluster, labelled: Places) -> Places:
    """Those of these nodes that count for a constraint (matchNodeInclusionPolicies)."""
    if constraint.heeds_affinity:
        selected = node_affinity.selected(pod, cluster.nodes)
        labelled = labelled if selected is None else labelled[selected[labelled]]
    if constraint.heeds_taints:
        labelled = labelled[~taints.keeps_out(pod, cluster)[labelled]]
    return labelled


def _skews(constraint: Constraint, pod: Incoming, cluster: Cluster, heeded: Places) -> Counts:
    """How far ahead of the one with fewest each domain would be with the pod, by number."""
    ids, numbers = domains(cluster.nodes, constraint.key)
    matching = _matching(constraint, pod, cluster)[heeded]
    pods: Counts = np.bincount(ids[heeded], weights=matching, minlength=numbers + 1).astype(np.int64)
    there = np.bincount(ids[heeded]) > 0
    itself = constraint.selector.matches(pod.labels)
    skews: Counts = pods + itself - _fewest(pods[: len(there)][there], constraint.domains)
    return skews


def _fewest(pods: Counts, domains_wanted: int) -> int:
    """The global minimum (minMatchNum)."""
    if len(pods) < domains_wanted:
        return 0
    return int(pods.min(initial=_MOST))


def _matching(constraint: Constraint, pod: Incoming, cluster: Cluster) -> Counts:
    """How many pods of the pod's namespace a constraint selects at each place.

    Pods being deleted do not count, and none does for a selector of everything (countPodsMatchSelector); but those that
    are thought away or thought to be there do (updateWithPod).
    """
    selector, nobody, size = constraint.selector, constraint.selector.is_empty, cluster.nodes.size
    if nobody:
        pods = np.zeros(size, dtype=np.int64)
    else:
        tally = cluster.selector_counts.count_pods(selector, frozenset({pod.namespace}), size)
        pods = tally.pods - tally.terminating
    for other, sign in cluster.fork_changes.values():
        place = cluster.nodes.find_index(other.node)
        passed_over = (nobody or other.is_terminating) and other.namespace == pod.namespace
        if place is not None and passed_over and selector.matches(other.group.labels):
            pods[place] += sign
    return pods
