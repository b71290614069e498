"""A pod that is to be placed, read once for all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.accounting.cluster.inter_pod_terms import merge_label_keys
from webhook.accounting.cluster.pod_info import HostPort, list_host_ports
from webhook.accounting.fit.company import InterPodConstraints, read_inter_pod_constraints
from webhook.accounting.node_fit import compute_scheduler_requests
from webhook.accounting.pod_requests import compute_incoming_non_zero_requests
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import SchedulingPod, SchedulingPodSpec

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class IncomingPod(msgspec.Struct, frozen=True, eq=False, dict=True):
    """What a pod asks of a node.

    `requests` are amounts that the scheduler counts, those above zero. `uid` is empty for a pod that is not stored yet.
    `priority` is a number, as the API server fills it in. `company` is what it says of other pods, `nominated` the node
    that others are making room on for it, if any.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: SchedulingPodSpec
    requests: Amounts
    ports: tuple[HostPort, ...]
    priority: int
    inter_pod: InterPodConstraints
    nominated_node: str
    pod: SchedulingPod

    @cached_property
    def non_zero_requests(self) -> Amounts:
        """What it weighs when nodes are compared, which is asked of few."""
        return compute_incoming_non_zero_requests(self.pod)

    @staticmethod
    def from_pod(pod: SchedulingPod) -> IncomingPod:
        """Read a pod.

        Raises:
            QuantityError: a quantity that it asks for is none.
        """
        meta, spec = pod.metadata or ObjectMeta(), merge_label_keys(pod).spec or SchedulingPodSpec()
        labels, namespace = meta.labels or _NO_LABELS, meta.namespace or "default"
        return IncomingPod(
            meta.uid or "",
            namespace,
            meta.name or meta.generate_name or "",
            labels,
            spec,
            Amounts({name: requested for name, requested in compute_scheduler_requests(pod).items() if requested > 0}),
            list_host_ports(spec),
            spec.priority or 0,
            read_inter_pod_constraints(spec, namespace, labels),
            (pod.status.nominated_node_name if pod.status else None) or "",
            pod,
        )
