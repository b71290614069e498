"""Evictions for a pod that fits no node: pods that would have to end, none of which could stay.

An option names pods of any priority: users can evict these, while the scheduler evicts only lower priorities. A pod
with devices is named only up to the priority of the incoming pod. Such a pod may be on another node, if several nodes
reach its devices.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from tallygate.accounting.allocation.pools import PoolId
from tallygate.accounting.cluster.cluster import Cluster, ClusterFork, fork
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins import node_resources_fit
from tallygate.accounting.scheduling.plugins.dynamic_resources import ClusterNode
from tallygate.accounting.scheduling.plugins.resource_claims import find_devices_of_pod, find_hold_reason, needs_devices
from tallygate.accounting.scheduling.released_claims import ClaimsOfPods, ReleasedClaim, list_taken_devices

_MAX_TRIED_NODES = 20
"""The maximal number of nodes that are tried."""
_MAX_OPTIONS = 3
_MAX_REMOTE_PODS = 32
"""The maximal number of pods on other nodes that are tried for a node."""


@dataclass(frozen=True, slots=True)
class EvictionOption:
    """A node that is feasible after these pods are evicted; none of them could stay.

    `claims` give devices back that the node reaches.
    """

    node: str
    pods: tuple[PodInfo, ...]
    claims: tuple[ReleasedClaim, ...] = ()


def find_eviction_options(
    pod: IncomingPod, cluster: Cluster, nodes: Sequence[int], kept_uids: Collection[str]
) -> tuple[EvictionOption, ...]:
    """Return those of the first nodes with the fewest pods to evict, at most three. Pods in `kept_uids` stay.

    The cluster is unchanged afterwards.
    """
    if find_hold_reason(pod, cluster):
        return ()
    devices = cluster.devices if needs_devices(pod, cluster) else None
    claims = None if devices is None else ClaimsOfPods(devices)
    options = []
    for node_index in nodes[:_MAX_TRIED_NODES]:
        trial = _NodeTrial(pod, cluster, node_index, claims)
        option = trial.find_option(kept_uids)
        if option is not None:
            options.append(option)
        if trial.is_undecided:
            break
    options.sort(key=lambda each: (len(each.pods), max(evicted.group.priority for evicted in each.pods), each.node))
    return tuple(options[:_MAX_OPTIONS])


class _NodeTrial:
    """The evictions that are tried for one node; `is_undecided` is set if devices take more work than is allowed."""

    def __init__(self, pod: IncomingPod, cluster: Cluster, node_index: int, claims: ClaimsOfPods | None) -> None:
        self._pod = pod
        self._cluster = cluster
        self._node_index = node_index
        self._claims = claims
        shortfalls = node_resources_fit.find_shortfalls(pod, cluster, node_index)
        self.is_undecided = False
        self._missing = [shortfall.resource for shortfall in shortfalls]

    def find_option(self, kept_uids: Collection[str]) -> EvictionOption | None:
        """Return the pods of which none could stay; None if the node is not feasible without all of them."""
        pools, devices = self._list_devices()
        candidates = [candidate for candidate in self._list_candidates(devices) if candidate.uid not in kept_uids]
        if not candidates:
            return None
        evicted: list[PodInfo] = []
        open_trial = nullcontext() if self._claims is None else self._claims.open_trial()
        with fork(self._cluster) as forked, open_trial:
            for candidate in candidates:
                self._remove(forked, candidate)
            if not self._is_feasible():
                return None
            for candidate in sorted(candidates, key=self._rank):
                forked.restore(candidate)
                if self._claims is not None:
                    self._claims.restore(candidate.uid)
                if not self._is_feasible():
                    self._remove(forked, candidate)
                    evicted.append(candidate)
        if not evicted or self.is_undecided:
            return None
        uids = {info.uid for info in evicted}
        released = () if self._claims is None else self._claims.list_released(uids, pools)
        return EvictionOption(self._cluster.nodes.get_name(self._node_index), tuple(evicted), released)

    def _remove(self, forked: ClusterFork, pod: PodInfo) -> None:
        forked.remove(pod)
        if self._claims is not None:
            self._claims.end(pod.uid)

    def _is_feasible(self) -> bool:
        diagnosis = run_filters(self._pod, self._cluster, np.array([self._node_index]))
        self.is_undecided |= bool(diagnosis.undecided)
        return bool(len(diagnosis.feasible))

    def _list_devices(self) -> tuple[list[PoolId], set[DeviceId]]:
        """Return the pools that the node reaches with their devices, and those of the pod's own claims."""
        cluster, devices = self._cluster, self._cluster.devices
        if devices is None or not needs_devices(self._pod, cluster):
            return [], set()
        allocator = devices.get_allocator(cluster.version, cluster.device_classes.by_name)
        pools = allocator.slices.gather_pools(ClusterNode(cluster, self._node_index))
        slices = [resource_slice for pool in pools for resource_slice in (*pool.slices, *pool.other_slices)]
        own = [
            device
            for claim in find_devices_of_pod(self._pod, cluster, devices).claims
            for device in list_taken_devices(claim)
        ]
        pool_ids = [*(pool.id for pool in pools), *(PoolId(claim.driver, claim.pool) for claim in own)]
        return pool_ids, {*own, *(device.id for resource_slice in slices for device in resource_slice.devices)}

    def _list_candidates(self, devices: Collection[DeviceId]) -> Iterator[PodInfo]:
        """Yield the pods on the node, and those elsewhere with devices that it reaches."""
        on_node, claims = self._cluster.get_node_pods(self._node_index), self._claims
        if claims is None:
            yield from on_node.values()
            return
        for pod in on_node.values():
            if not claims.has_devices(pod.uid) or pod.group.priority <= self._pod.priority:
                yield pod
        found = [self._cluster.find_pod(uid) for uid in claims.list_users(devices) if uid not in on_node]
        remote = [
            pod_on_node
            for pod_on_node in found
            if pod_on_node and pod_on_node.node and pod_on_node.group.priority <= self._pod.priority
        ]
        yield from sorted(remote, key=lambda each: (each.group.priority, each.namespace, each.name))[:_MAX_REMOTE_PODS]

    def _rank(self, pod: PodInfo) -> tuple[object, ...]:
        """Return the rank of a pod to be restored: less of what is short comes first, so that few are evicted."""
        used = [pod.group.requests.get(name, 0) for name in self._missing]
        devices = 0 if self._claims is None else self._claims.count_devices(pod.uid)
        return -pod.group.priority, used, devices, pod.namespace, pod.name
