"""Who would have to leave one node, so that a pod fits there.

Source: SelectVictimsOnNode in plugins/defaultpreemption/default_preemption.go, v1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.fork import ClusterFork, fork
from webhook.accounting.cluster.pod_info import PodInfo, list_scheduling_volumes
from webhook.accounting.fit.filtering import judged
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.preemption.budgets import split
from webhook.accounting.fit.preemption.importance import by_importance
from webhook.accounting.fit.resources import shortfalls


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which a pod would fit if `victims` left, the most important first.

    So many `violations` of a budget it takes.
    """

    place: int
    victims: tuple[PodInfo, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Useless:
    """A node on which nobody's leaving helps, and why; `is_fault` when the scheduler takes it for one of its own."""

    reasons: tuple[str, ...]
    is_fault: bool = False


def dry_run(pod: Incoming, cluster: Cluster, place: int) -> Candidate | Useless:
    """What would have to happen on one node with pods of a lower priority. The cluster is as before afterwards."""
    lower = [each for each in cluster.get_node_pods(place).values() if each.group.priority < pod.priority]
    with fork(cluster) as suppose:
        for each in lower:
            suppose.remove(each)
        said = judged(pod, cluster, np.array([place]))
        if said.rejected.any():
            return Useless((said.fault,), is_fault=True) if said.fault else Useless(said.reasons(place))
        return _sparing(pod, cluster, place, suppose, by_importance(lower))


def _sparing(
    pod: Incoming, cluster: Cluster, place: int, suppose: ClusterFork, lower: Sequence[PodInfo]
) -> Candidate | Useless:
    """Let every pod stay that can, first those whose leaving breaks a budget, then the others, the important first."""
    breaking, others = split(lower, cluster.budgets)
    victims = [each for each in breaking if not _can_stay(each, pod, cluster, place, suppose)]
    violations = len(victims)
    victims += [each for each in others if not _can_stay(each, pod, cluster, place, suppose)]
    if not victims:
        return Useless((f'expected at least one victim pod on node "{cluster.nodes.get_name(place)}"',), is_fault=True)
    ordered = by_importance(victims) if breaking and others else victims
    return Candidate(place, tuple(ordered), violations)


def _can_stay(each: PodInfo, pod: Incoming, cluster: Cluster, place: int, suppose: ClusterFork) -> bool:
    suppose.restore(each)
    lacks_room = any(shortfalls(pod, cluster, place))
    if not lacks_room and _takes_room_only(each, pod, cluster, place):
        return True
    if not lacks_room and not judged(pod, cluster, np.array([place])).rejected.any():
        return True
    suppose.remove(each)
    return False


def _takes_room_only(each: PodInfo, pod: Incoming, cluster: Cluster, place: int) -> bool:
    """Whether a pod on the node is in the other's way by what it takes of it only, so that no more need be asked."""
    in_company = bool(pod.company.affinity or pod.company.anti_affinity or pod.company.spread)
    is_plain = not (in_company or pod.ports or list_scheduling_volumes(pod.spec))
    return is_plain and not each.group.anti_affinity and place not in cluster.get_nominated_pods()
