"""A pod to be placed, parsed once for all nodes: its requests, priority, and constraints about other pods.

Source of the priority: establishPriority in plugin/pkg/admission/priority/admission.go and
pkg/apis/scheduling/types.go, v1.36.

Source of the spread constraints: filterTopologySpreadConstraints in plugins/podtopologyspread/common.go, v1.36. Only
hard constraints are read. The default constraints that the scheduler adds to pods without any affect scores alone.

Source of the constraints about other pods: PreFilter in plugins/podtopologyspread/filtering.go and
plugins/interpodaffinity/filtering.go, v1.36. Only required terms are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.cluster import pod_info
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.node_fit import compute_scheduler_requests
from tallygate.accounting.pod_defaults import find_default_class
from tallygate.accounting.pod_requests import compute_incoming_non_zero_requests
from tallygate.accounting.selectors import Selector, SelectorError, create_selector, join_errors, parse_selector
from tallygate.errors import TallygateError
from tallygate.objects import scheduling
from tallygate.objects.meta import ObjectMeta

_SYSTEM_PRIORITIES = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
_DEFAULT_POLICY = "PreemptLowerPriority"


class NoPriorityClassError(TallygateError):
    """A pod names a missing PriorityClass; the API server rejects such a pod."""


class HardSpreadConstraint(NamedTuple):
    """A limit on the skew of matching pods: no domain may have over `max_skew` more than the one with the fewest.

    A domain is the nodes with one value of the topology key. With fewer domains than `min_domains` the minimum is zero.
    `honors_affinity` and `honors_taints` exclude nodes that the pod's node affinity or the nodes' taints rule out.
    """

    topology_key: str
    selector: Selector
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


_CONSTRAINTS_ERROR = (
    'running PreFilter plugin "PodTopologySpread": get constraints from pod: '
    "obtaining pod's hard topology spread constraints"
)


class InterPodConstraints(NamedTuple):
    """Required affinity and anti-affinity to pods, and hard spread constraints.

    If a selector is invalid, all constraints are empty: `pre_filter_message` is then the reason why the pod fits no
    node, or `pre_filter_error` the error that ends the attempt. The API server rejects such a pod.
    """

    affinity: tuple[pod_info.AffinityTerm, ...] = ()
    anti_affinity: tuple[pod_info.AffinityTerm, ...] = ()
    spread: tuple[HardSpreadConstraint, ...] = ()
    pre_filter_message: str = ""
    pre_filter_error: str = ""


_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_NO_CLASSES: Mapping[str, scheduling.PriorityClass] = MappingProxyType({})


class IncomingPod(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The requirements of a pod on nodes.

    `requests` are the amounts above zero that the scheduler counts. `uid` is empty for a pod that is not stored yet.
    `priority` is the number that the API server sets. `inter_pod` has the constraints about other pods,
    `nominated_node` the node on which preemption makes space for the pod, if any. `pod` is the pod as it is stored.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: scheduling.SchedulingPodSpec
    requests: Amounts
    ports: tuple[pod_info.HostPort, ...]
    priority: int
    inter_pod: InterPodConstraints
    nominated_node: str
    pod: scheduling.SchedulingPod

    @cached_property
    def _non_zero_requests(self) -> dict[KubernetesVersion, Amounts]:
        return {}

    def get_non_zero_requests(self, version: KubernetesVersion) -> Amounts:
        """Return the non-zero requests by which nodes are scored; computed on demand, since few pods need them."""
        amounts = self._non_zero_requests.get(version)
        if amounts is None:
            amounts = self._non_zero_requests[version] = compute_incoming_non_zero_requests(self.pod, version)
        return amounts

    @staticmethod
    def from_pod(
        pod: scheduling.SchedulingPod, priority_classes: Mapping[str, scheduling.PriorityClass] = _NO_CLASSES
    ) -> IncomingPod:
        """Parse a pod as the API server stores it: with its priority, and with the label keys in its terms.

        Raises:
            QuantityError: if a request is invalid.
            NoPriorityClassError: if the pod names a class that is not in `priority_classes`.
        """
        stored_pod = pod_info.merge_label_keys(with_resolved_priority(pod, priority_classes))
        meta, spec = stored_pod.metadata or ObjectMeta(), stored_pod.spec or scheduling.SchedulingPodSpec()
        labels, namespace = meta.labels or _NO_LABELS, meta.namespace or "default"
        return IncomingPod(
            meta.uid or "",
            namespace,
            meta.name or meta.generate_name or "",
            labels,
            spec,
            Amounts({name: requested for name, requested in compute_scheduler_requests(pod).items() if requested > 0}),
            pod_info.list_host_ports(spec),
            spec.priority or 0,
            read_inter_pod_constraints(spec, namespace, labels),
            (pod.status.nominated_node_name if pod.status else None) or "",
            stored_pod,
        )


def with_default_priority(pod: scheduling.SchedulingPod) -> scheduling.SchedulingPod:
    """Return the pod with priority 0 if it has none, for callers for which the priority does not matter."""
    spec = pod.spec or scheduling.SchedulingPodSpec()
    if spec.priority is not None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, priority=0))


def with_resolved_priority(
    pod: scheduling.SchedulingPod, classes: Mapping[str, scheduling.PriorityClass]
) -> scheduling.SchedulingPod:
    """Return the pod with the priority and the preemption policy of a stored pod. A stored pod has both already.

    Raises:
        NoPriorityClassError: if the pod names a class that is not in `classes`.
    """
    spec = pod.spec or scheduling.SchedulingPodSpec()
    if spec.priority is not None:
        return pod
    priority_class = (
        _find_class(spec.priority_class_name, classes) if spec.priority_class_name else find_default_class(classes)
    )
    policy = priority_class.preemption_policy or spec.preemption_policy or _DEFAULT_POLICY
    resolved_spec = msgspec.structs.replace(spec, priority=priority_class.value, preemption_policy=policy)
    return msgspec.structs.replace(pod, spec=resolved_spec)


def _find_class(name: str, classes: Mapping[str, scheduling.PriorityClass]) -> scheduling.PriorityClass:
    if name in classes:
        return classes[name]
    if name in _SYSTEM_PRIORITIES:
        return scheduling.PriorityClass(ObjectMeta(name=name), _SYSTEM_PRIORITIES[name])
    known_names = ", ".join(sorted({*classes, *_SYSTEM_PRIORITIES}))
    raise NoPriorityClassError(f"no PriorityClass with name {name} was found; there are {known_names}")


def read_inter_pod_constraints(
    spec: scheduling.SchedulingPodSpec, namespace: str, labels: Mapping[str, str]
) -> InterPodConstraints:
    """Read a pod's constraints about other pods. The selectors of its terms have its label keys already."""
    try:
        spread = read_spread_constraints(spec, labels)
    except SelectorError as error:
        return InterPodConstraints(pre_filter_error=f"{_CONSTRAINTS_ERROR}: {error}")
    affinity = spec.affinity or scheduling.Affinity()
    affinity_terms, affinity_error = _read_terms(affinity.pod_affinity, namespace)
    anti_affinity_terms, anti_affinity_error = _read_terms(affinity.pod_anti_affinity, namespace)
    errors = [f"requiredAffinityTerms: {affinity_error}"] if affinity_error else []
    errors += [f"requiredAntiAffinityTerms: {anti_affinity_error}"] if anti_affinity_error else []
    return (
        InterPodConstraints(pre_filter_message=f"parsing pod: {join_errors(errors)}")
        if errors
        else InterPodConstraints(affinity_terms, anti_affinity_terms, spread)
    )


def read_spread_constraints(
    spec: scheduling.SchedulingPodSpec, labels: Mapping[str, str]
) -> tuple[HardSpreadConstraint, ...]:
    """Read the hard constraints of a pod with these labels.

    Raises:
        SelectorError: if a selector has an invalid requirement.
    """
    constraints = spec.topology_spread_constraints or ()
    return tuple(
        _read_spread_constraint(constraint, labels)
        for constraint in constraints
        if constraint.when_unsatisfiable == "DoNotSchedule"
    )


def _read_spread_constraint(
    constraint: scheduling.TopologySpreadConstraint, labels: Mapping[str, str]
) -> HardSpreadConstraint:
    own_labels = {key: labels[key] for key in constraint.match_label_keys or () if key in labels}
    return HardSpreadConstraint(
        constraint.topology_key,
        parse_selector(constraint.label_selector).intersect(create_selector(own_labels)),
        constraint.max_skew,
        1 if constraint.min_domains is None else constraint.min_domains,
        (constraint.node_affinity_policy or "Honor") == "Honor",
        (constraint.node_taints_policy or "Ignore") == "Honor",
    )


def _read_terms(
    affinity: scheduling.PodAffinity | None, namespace: str
) -> tuple[tuple[pod_info.AffinityTerm, ...], str]:
    """Parse the required terms; return () and the error of the first invalid one, if any."""
    try:
        return pod_info.parse_terms(pod_info.get_required_terms(affinity), namespace), ""
    except SelectorError as error:
        return (), str(error)
