"""Pods on nodes: the attributes of each pod, and scheduling groups for the attributes that many pods share.

A scheduling group has all that matters to other pods, and is stored once for all equal pods. A hundred thousand pods
have some thousand groups, so that selectors and anti-affinity compare groups, not pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.accounting.charge import has_ended
from webhook.accounting.cluster.inter_pod_terms import AffinityTerm, get_required_terms, merge_label_keys, parse_terms
from webhook.accounting.node_fit import compute_scheduler_requests_on_node
from webhook.accounting.pod_requests import compute_non_zero_requests
from webhook.accounting.selectors import SelectorError
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import Affinity, SchedulingPod, SchedulingPodSpec, SchedulingPodStatus, Volume

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing is bound to it: Kubernetes writes it for every address
_ENCODER = msgspec.json.Encoder(order="deterministic")
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class HostPort(NamedTuple):
    """A port of the node that a pod uses; the address `0.0.0.0` stands for every address."""

    protocol: str
    number: int
    address: str

    def has_conflict(self, address: str) -> bool:
        """Return whether pods cannot use both this port and the same port at another address."""
        return self.address == address or ANY_ADDRESS in (self.address, address)

    def with_address(self, address: str) -> HostPort:
        """Return the same port at another address."""
        return self._replace(address=address)


class SchedulingGroup:
    """The common attributes of equal pods; compared by identity, since there is only one group of each kind.

    `requests` are the amounts above zero that the scheduler counts, `non_zero_requests` the amounts by which it scores
    nodes. `pod_counts` has the number of the group's pods by node index, `terminating_counts` the number of these that
    are being deleted.
    """

    __slots__ = (
        "__weakref__",
        "anti_affinity",
        "labels",
        "namespace",
        "non_zero_requests",
        "pod_counts",
        "ports",
        "priority",
        "requests",
        "terminating_counts",
    )

    def __init__(self, pod: SchedulingPod) -> None:
        meta, spec = pod.metadata or ObjectMeta(), pod.spec or SchedulingPodSpec()
        self.namespace = meta.namespace or "default"
        self.labels = meta.labels or _NO_LABELS
        self.requests = Amounts(
            {name: amount for name, amount in compute_scheduler_requests_on_node(pod).items() if amount > 0}
        )
        self.non_zero_requests = compute_non_zero_requests(pod)
        self.ports = list_host_ports(spec)
        self.priority = spec.priority or 0
        self.anti_affinity = _parse_anti_affinity(spec, self.namespace)
        self.pod_counts: dict[int, int] = {}
        self.terminating_counts: dict[int, int] = {}


class SchedulingGroupInterner:
    """The one group of equal pods, as long as a caller refers to it."""

    def __init__(self) -> None:
        self._groups: WeakValueDictionary[bytes, SchedulingGroup] = WeakValueDictionary()

    def intern(self, pod: SchedulingPod) -> SchedulingGroup:
        """Return the group of a pod.

        Raises:
            QuantityError: if a request is invalid.
        """
        essential_pod = _extract_essential_pod(merge_label_keys(pod))
        key = _ENCODER.encode(essential_pod)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = SchedulingGroup(essential_pod)
        return group

    def __len__(self) -> int:
        return len(self._groups)


def list_host_ports(spec: SchedulingPodSpec) -> tuple[HostPort, ...]:
    """Return the ports of its node that a pod uses: the ports of containers and sidecars.

    Source: GetHostPorts in pkg/scheduler/util/utils.go and HostPortInfo in kube-scheduler framework/types.go, v1.36.
    """
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in (*(spec.containers or ()), *sidecars)
        for port in container.ports or ()
        if port.host_port is not None and port.host_port > 0
    )


def _parse_anti_affinity(spec: SchedulingPodSpec, namespace: str) -> tuple[AffinityTerm, ...]:
    """Parse a pod's anti-affinity terms; return () if one is invalid (NodeInfo.AddPod drops the error)."""
    try:
        return parse_terms(get_required_terms(spec.affinity.pod_anti_affinity if spec.affinity else None), namespace)
    except SelectorError:
        return ()


def _extract_essential_pod(pod: SchedulingPod) -> SchedulingPod:
    """Return a pod with only the fields that its group is made from."""
    meta, spec = pod.metadata or ObjectMeta(), pod.spec or SchedulingPodSpec()
    anti_affinity = spec.affinity.pod_anti_affinity if spec.affinity else None
    return SchedulingPod(
        metadata=ObjectMeta(namespace=meta.namespace, labels=meta.labels),
        spec=SchedulingPodSpec(
            containers=spec.containers,
            init_containers=spec.init_containers,
            overhead=spec.overhead,
            resources=spec.resources,
            affinity=Affinity(pod_anti_affinity=anti_affinity) if anti_affinity else None,
            priority=spec.priority,
        ),
        status=_extract_resize_status(pod.status),
    )


def _extract_resize_status(status: SchedulingPodStatus | None) -> SchedulingPodStatus | None:
    """Return a status with only the fields about the resources of a pod, if any."""
    if status is None:
        return None
    return SchedulingPodStatus(
        conditions=[each for each in status.conditions or () if each.type == "PodResizePending"] or None,
        container_statuses=status.container_statuses,
        init_container_statuses=status.init_container_statuses,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )


class PodInfo(NamedTuple):
    """A pod that is on a node, or has a nominated one.

    `node` is the pod's node. `nominated_node` is set only without a node: the pod runs there once its victims are
    deleted. `start_time` is `status.startTime`, as text: later is greater. `is_terminating` is set while the pod is
    being deleted. `volumes` are the volumes that matter to scheduling. `is_preempted` is set once the scheduler itself
    has evicted the pod.
    """

    uid: str
    name: str
    group: SchedulingGroup
    node: str = ""
    nominated_node: str = ""
    start_time: str = ""
    is_terminating: bool = False
    volumes: tuple[Volume, ...] = ()
    is_preempted: bool = False

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.group.namespace


def create_pod_info(pod: SchedulingPod, groups: SchedulingGroupInterner) -> PodInfo | None:
    """Return a stored pod as a scheduler counts it; None when it has ended, or has no node and no nominated one.

    Raises:
        QuantityError: if a request is invalid.
    """
    meta, spec, status = pod.metadata or ObjectMeta(), pod.spec or SchedulingPodSpec(), pod.status
    nominated_node = (status.nominated_node_name if status else None) or ""
    node = spec.node_name or ""
    if has_ended(pod) or not (node or nominated_node):
        return None
    return PodInfo(
        meta.uid or f"{meta.namespace}/{meta.name}",
        meta.name or "",
        groups.intern(pod),
        node,
        "" if node else nominated_node,
        (status.start_time if status else None) or "",
        meta.deletion_timestamp is not None,
        list_scheduling_volumes(spec),
        _is_preempted(pod),
    )


def _is_preempted(pod: SchedulingPod) -> bool:
    """Return whether the scheduler evicted the pod (podTerminatingByPreemption in default_preemption.go, v1.36)."""
    conditions = (pod.status.conditions if pod.status else None) or ()
    disruption = next((each for each in conditions if each.type == "DisruptionTarget"), None)
    return disruption is not None and (disruption.status, disruption.reason) == ("True", "PreemptionByScheduler")


def list_scheduling_volumes(spec: SchedulingPodSpec) -> tuple[Volume, ...]:
    """Return the volumes of a pod that matter to scheduling."""
    return tuple([volume for volume in spec.volumes or () if volume != Volume(volume.name)])
