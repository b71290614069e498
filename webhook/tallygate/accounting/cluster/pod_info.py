"""Pods on nodes: the attributes of each pod, and scheduling groups for the attributes that many pods share.

A scheduling group has all that matters to other pods, and is stored once for all equal pods. A hundred thousand pods
have some thousand groups, so that selectors and anti-affinity compare groups, not pods.

The required terms of affinity and anti-affinity are parsed here, too. Source: AffinityTerm and GetAffinityTerms in
kube-scheduler framework/types.go; mutatePodAffinity in pkg/registry/core/pod/strategy.go, v1.36.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from tallygate.accounting.amounts import Amounts, share_amounts
from tallygate.accounting.charge import has_ended
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.node_fit import compute_scheduler_requests_on_node
from tallygate.accounting.pod_requests import compute_non_zero_requests
from tallygate.accounting.resized_requests import compute_resized_amounts
from tallygate.accounting.result_cache import share_text
from tallygate.accounting.selectors import Selector, SelectorError, parse_selector
from tallygate.objects import scheduling
from tallygate.objects.meta import LabelSelector, ObjectMeta, SelectorRequirement

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing is bound to it: Kubernetes writes it for every address
_ENCODER = msgspec.json.Encoder(order="deterministic")
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class AffinityTerm(NamedTuple):
    """Pods with these labels, in namespaces with these names or labels, on nodes with one value of the topology key."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        is_in_namespaces = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return is_in_namespaces and self.selector.matches(labels)


def parse_terms(required: Iterable[scheduling.PodAffinityTerm], namespace: str) -> tuple[AffinityTerm, ...]:
    """Parse the terms of a pod in a namespace. A term without namespaces matches the pod's own namespace.

    Raises:
        SelectorError: if a selector has an invalid requirement.
    """
    return tuple(_parse_term(term, namespace) for term in required)


def get_required_terms(affinity: scheduling.PodAffinity | None) -> tuple[scheduling.PodAffinityTerm, ...]:
    """Return the required terms, without the preferred ones."""
    if affinity is None:
        return ()
    return tuple(affinity.required_during_scheduling_ignored_during_execution or ())


def merge_label_keys(pod: scheduling.SchedulingPod) -> scheduling.SchedulingPod:
    """Return a pod with the values of `matchLabelKeys` and `mismatchLabelKeys` in its terms' selectors.

    The API server stores a pod in this form. A pod with a UID has this form already, and its labels may have changed
    since. (The scheduler itself evaluates the keys of a spread constraint, which need no merging.)
    """
    affinity, meta = pod.spec.affinity if pod.spec else None, pod.metadata
    if pod.spec is None or affinity is None or meta is None or meta.uid or not meta.labels:
        return pod
    merged = scheduling.Affinity(
        affinity.node_affinity,
        _merge_affinity_keys(affinity.pod_affinity, meta.labels),
        _merge_affinity_keys(affinity.pod_anti_affinity, meta.labels),
    )
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=merged))


def _parse_term(term: scheduling.PodAffinityTerm, namespace: str) -> AffinityTerm:
    is_own_namespace_only = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        term.topology_key,
        parse_selector(term.label_selector),
        frozenset({namespace} if is_own_namespace_only else term.namespaces or ()),
        parse_selector(term.namespace_selector),
    )


def _merge_affinity_keys(
    affinity: scheduling.PodAffinity | None, labels: Mapping[str, str]
) -> scheduling.PodAffinity | None:
    if affinity is None:
        return None
    return scheduling.PodAffinity([_merge_term_keys(term, labels) for term in get_required_terms(affinity)])


def _merge_term_keys(term: scheduling.PodAffinityTerm, labels: Mapping[str, str]) -> scheduling.PodAffinityTerm:
    """Return a term with a requirement for each of its keys. An absent selector stays, because it matches nothing."""
    keys = [(key, "In") for key in term.match_label_keys or ()]
    keys += [(key, "NotIn") for key in term.mismatch_label_keys or ()]
    requirements = [SelectorRequirement(key, operator, [labels[key]]) for key, operator in keys if key in labels]
    selector = term.label_selector
    if selector is None or not requirements:
        return term
    merged = LabelSelector(selector.match_labels, [*(selector.match_expressions or ()), *requirements])
    return msgspec.structs.replace(term, label_selector=merged)


class HostPort(NamedTuple):
    """A port of the node that a pod uses; the address `0.0.0.0` stands for every address."""

    protocol: str
    number: int
    address: str

    def has_conflict(self, address: str) -> bool:
        """Return whether pods cannot use both this port and the same port at another address."""
        return self.address == address or ANY_ADDRESS in (self.address, address)

    def with_address(self, address: str) -> HostPort:
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

    def __init__(self, pod: scheduling.SchedulingPod, version: KubernetesVersion) -> None:
        meta, spec = pod.metadata or ObjectMeta(), pod.spec or scheduling.SchedulingPodSpec()
        requests, non_zero_requests = (
            compute_resized_amounts(pod)
            if version.has(Switch.SUMS_RESIZES) and pod.status is not None
            else (compute_scheduler_requests_on_node(pod), compute_non_zero_requests(pod))
        )
        self.namespace = meta.namespace or "default"
        self.labels = _share_texts(meta.labels) if meta.labels else _NO_LABELS
        self.requests = share_amounts(Amounts({name: amount for name, amount in requests.items() if amount > 0}))
        self.non_zero_requests = share_amounts(non_zero_requests)
        self.ports = list_host_ports(spec)
        self.priority = spec.priority or 0
        self.anti_affinity = _parse_anti_affinity(spec, self.namespace)
        self.pod_counts: dict[int, int] = {}
        self.terminating_counts: dict[int, int] = {}


def _share_texts(labels: Mapping[str, str]) -> Mapping[str, str]:
    return {share_text(key): share_text(value) for key, value in labels.items()}


class SchedulingGroupInterner:
    """The one group of equal pods, as long as a caller refers to it. The key is a hash, since the text is long.

    The version decides the requests of a pod that is being resized.
    """

    def __init__(self, version: KubernetesVersion) -> None:
        self._version = version
        self._groups: WeakValueDictionary[bytes, SchedulingGroup] = WeakValueDictionary()

    def intern(self, pod: scheduling.SchedulingPod) -> SchedulingGroup:
        """Return the group of a pod.

        Raises:
            QuantityError: if a request is invalid.
        """
        essential_pod = _extract_essential_pod(merge_label_keys(pod))
        key = hashlib.sha256(_ENCODER.encode(essential_pod)).digest()
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = SchedulingGroup(essential_pod, self._version)
        return group

    def __len__(self) -> int:
        return len(self._groups)


def list_host_ports(spec: scheduling.SchedulingPodSpec) -> tuple[HostPort, ...]:
    """Return the ports of its node that a pod uses: the ports of containers and sidecars.

    Source: GetHostPorts in pkg/scheduler/util/utils.go and HostPortInfo in kube-scheduler framework/types.go, v1.36.
    """
    sidecars = [container for container in spec.init_containers or () if container.restart_policy == "Always"]
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in (*(spec.containers or ()), *sidecars)
        for port in container.ports or ()
        if port.host_port is not None and port.host_port > 0
    )


def _parse_anti_affinity(spec: scheduling.SchedulingPodSpec, namespace: str) -> tuple[AffinityTerm, ...]:
    """Parse a pod's anti-affinity terms; return () if one is invalid (NodeInfo.AddPod drops the error)."""
    try:
        return parse_terms(get_required_terms(spec.affinity.pod_anti_affinity if spec.affinity else None), namespace)
    except SelectorError:
        return ()


def _extract_essential_pod(pod: scheduling.SchedulingPod) -> scheduling.SchedulingPod:
    meta, spec = pod.metadata or ObjectMeta(), pod.spec or scheduling.SchedulingPodSpec()
    anti_affinity = spec.affinity.pod_anti_affinity if spec.affinity else None
    return scheduling.SchedulingPod(
        metadata=ObjectMeta(namespace=meta.namespace, labels=meta.labels),
        spec=scheduling.SchedulingPodSpec(
            containers=spec.containers,
            init_containers=spec.init_containers,
            overhead=spec.overhead,
            resources=spec.resources,
            affinity=scheduling.Affinity(pod_anti_affinity=anti_affinity) if anti_affinity else None,
            priority=spec.priority,
        ),
        status=_extract_resize_status(pod.status),
    )


def _extract_resize_status(status: scheduling.SchedulingPodStatus | None) -> scheduling.SchedulingPodStatus | None:
    if status is None:
        return None
    return scheduling.SchedulingPodStatus(
        conditions=[condition for condition in status.conditions or () if condition.type == "PodResizePending"] or None,
        container_statuses=status.container_statuses,
        init_container_statuses=status.init_container_statuses,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )


class PodInfo(msgspec.Struct, frozen=True, gc=False):
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
    volumes: tuple[scheduling.Volume, ...] = ()
    is_preempted: bool = False

    @property
    def namespace(self) -> str:
        return self.group.namespace


def create_pod_info(pod: scheduling.SchedulingPod, groups: SchedulingGroupInterner) -> PodInfo | None:
    """Return a stored pod as a scheduler counts it; None when it has ended, or has no node and no nominated one.

    Raises:
        QuantityError: if a request is invalid.
    """
    meta, spec, status = pod.metadata or ObjectMeta(), pod.spec or scheduling.SchedulingPodSpec(), pod.status
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
        share_text((status.start_time if status else None) or ""),
        meta.deletion_timestamp is not None,
        list_scheduling_volumes(spec),
        _is_preempted(pod),
    )


def _is_preempted(pod: scheduling.SchedulingPod) -> bool:
    """Return whether the scheduler evicted the pod (podTerminatingByPreemption in default_preemption.go, v1.36)."""
    conditions = (pod.status.conditions if pod.status else None) or ()
    disruption = next((condition for condition in conditions if condition.type == "DisruptionTarget"), None)
    return disruption is not None and (disruption.status, disruption.reason) == ("True", "PreemptionByScheduler")


def list_scheduling_volumes(spec: scheduling.SchedulingPodSpec) -> tuple[scheduling.Volume, ...]:
    """Return the volumes of a pod that matter to scheduling."""
    return tuple([volume for volume in spec.volumes or () if volume != scheduling.Volume(volume.name)])
