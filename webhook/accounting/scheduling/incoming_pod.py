"""What a pod's priority is once the API server has filled it in.

Source: establishPriority in plugin/pkg/admission/priority/admission.go and pkg/apis/scheduling/types.go, v1.36.

A pod's constraints on how its like are spread, those that must hold, read once.

Source: filterTopologySpreadConstraints in plugins/podtopologyspread/common.go, v1.36. The constraints that the
scheduler makes up for pods without any are about scores alone.

What a pod says of other pods, as far as it must hold, read once.

Source: PreFilter in plugins/podtopologyspread/filtering.go and plugins/interpodaffinity/filtering.go, v1.36.

A pod that is to be placed, read once for all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.accounting.cluster.inter_pod_terms import AffinityTerm, get_required_terms, merge_label_keys, parse_terms
from webhook.accounting.cluster.pod_info import HostPort, list_host_ports
from webhook.accounting.node_fit import compute_scheduler_requests
from webhook.accounting.pod_requests import compute_incoming_non_zero_requests
from webhook.accounting.selectors import Selector, SelectorError, create_selector, join_errors, parse_selector
from webhook.errors import TallygateError
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import (
    Affinity,
    PodAffinity,
    PriorityClass,
    SchedulingPod,
    SchedulingPodSpec,
    TopologySpreadConstraint,
)

_SYSTEM_PRIORITIES = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
_DEFAULT_POLICY = "PreemptLowerPriority"


class NoPriorityClassError(TallygateError):
    """A pod names a PriorityClass that is not there; the API server would refuse it."""


def with_resolved_priority(pod: SchedulingPod, classes: Mapping[str, PriorityClass]) -> SchedulingPod:
    """The pod with the priority and the preemption policy that it is stored with. A stored pod has them.

    Raises:
        NoPriorityClassError: it names a class that is not among these.
    """
    spec = pod.spec or SchedulingPodSpec()
    if spec.priority is not None:
        return pod
    priority_class = (
        _find_class(spec.priority_class_name, classes) if spec.priority_class_name else _find_default_class(classes)
    )
    policy = priority_class.preemption_policy or spec.preemption_policy or _DEFAULT_POLICY
    resolved_spec = msgspec.structs.replace(spec, priority=priority_class.value, preemption_policy=policy)
    return msgspec.structs.replace(pod, spec=resolved_spec)


def _find_class(name: str, classes: Mapping[str, PriorityClass]) -> PriorityClass:
    if name in classes:
        return classes[name]
    if name in _SYSTEM_PRIORITIES:
        return PriorityClass(ObjectMeta(name=name), _SYSTEM_PRIORITIES[name])
    known_names = ", ".join(sorted({*classes, *_SYSTEM_PRIORITIES}))
    raise NoPriorityClassError(f"no PriorityClass with name {name} was found; there are {known_names}")


def _find_default_class(classes: Mapping[str, PriorityClass]) -> PriorityClass:
    """The class of pods that name none; of several by mistake, the lowest."""
    defaults = [each for each in classes.values() if each.global_default]
    return min(defaults, key=lambda each: each.value, default=PriorityClass())


class HardSpreadConstraint(NamedTuple):
    """Among the pods that it selects, no domain may have more than `most` more than the one that has fewest.

    A domain is what has one value of the topology key; where there are fewer than `domains`, the fewest is zero.
    `heeds_affinity` and `heeds_taints` leave out the nodes on which the pod could not be for that reason.
    """

    topology_key: str
    selector: Selector
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


def read_spread_constraints(spec: SchedulingPodSpec, labels: Mapping[str, str]) -> tuple[HardSpreadConstraint, ...]:
    """The constraints that must hold, of a pod with these labels.

    Raises:
        SelectorError: a requirement of a selector is none.
    """
    constraints = spec.topology_spread_constraints or ()
    return tuple(
        _read_spread_constraint(each, labels) for each in constraints if each.when_unsatisfiable == "DoNotSchedule"
    )


def _read_spread_constraint(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> HardSpreadConstraint:
    own_labels = {key: labels[key] for key in constraint.match_label_keys or () if key in labels}
    return HardSpreadConstraint(
        constraint.topology_key,
        parse_selector(constraint.label_selector).intersect(create_selector(own_labels)),
        constraint.max_skew,
        1 if constraint.min_domains is None else constraint.min_domains,
        (constraint.node_affinity_policy or "Honor") == "Honor",
        (constraint.node_taints_policy or "Ignore") == "Honor",
    )


_CONSTRAINTS_ERROR = (
    'running PreFilter plugin "PodTopologySpread": get constraints from pod: '
    "obtaining pod's hard topology spread constraints"
)


class InterPodConstraints(NamedTuple):
    """Affinity and anti-affinity to pods, and how the pod's like are spread.

    Where some of it is no selector, nothing of it is looked at: `refusal` says then why the pod is placed nowhere, or
    `failure` what ends the attempt. The API server refuses such a pod.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[HardSpreadConstraint, ...] = ()
    pre_filter_message: str = ""
    pre_filter_error: str = ""


def read_inter_pod_constraints(
    spec: SchedulingPodSpec, namespace: str, labels: Mapping[str, str]
) -> InterPodConstraints:
    """What a pod with these labels says of others. Its keys of labels are in the selectors of its terms already."""
    try:
        spread = read_spread_constraints(spec, labels)
    except SelectorError as error:
        return InterPodConstraints(pre_filter_error=f"{_CONSTRAINTS_ERROR}: {error}")
    affinity = spec.affinity or Affinity()
    affinity_terms, affinity_error = _read_terms(affinity.pod_affinity, namespace)
    anti_affinity_terms, anti_affinity_error = _read_terms(affinity.pod_anti_affinity, namespace)
    errors = [f"requiredAffinityTerms: {affinity_error}"] if affinity_error else []
    errors += [f"requiredAntiAffinityTerms: {anti_affinity_error}"] if anti_affinity_error else []
    return (
        InterPodConstraints(pre_filter_message=f"parsing pod: {join_errors(errors)}")
        if errors
        else InterPodConstraints(affinity_terms, anti_affinity_terms, spread)
    )


def _read_terms(affinity: PodAffinity | None, namespace: str) -> tuple[tuple[AffinityTerm, ...], str]:
    """The terms that must hold, and what is wrong with the first of them that is no term."""
    try:
        return parse_terms(get_required_terms(affinity), namespace), ""
    except SelectorError as error:
        return (), str(error)


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
