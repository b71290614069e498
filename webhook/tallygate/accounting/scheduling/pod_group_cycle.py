"""One cycle of kube-scheduler for a PodGroup: which of its pods are tried, and whether they all get their nodes.

The pods are tried one after the other, each with the earlier ones in place. Once too few are left for the quorum, the
rest is not tried, and none of them is bound. With the quorum, those with a node are bound, and the others wait. A group
without a gang policy has the quorum 1.

Source: scheduleOnePodGroup, validatePodGroup, podGroupSchedulingDefaultAlgorithm, completePodGroupAlgorithmResult and
submitPodGroupAlgorithmResult in pkg/scheduler/schedule_one_podgroup.go; PreEnqueue and PlacementFeasible in
plugins/gangscheduling/gangscheduling.go; Preempt in framework/preemption/podgrouppreemption.go, v1.37.
"""

from collections.abc import Iterator, Sequence

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_groups import CLAIM_GATE, GATE, JOB_GATE, PodGroups, find_group_key
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.scheduling.incoming_pod import IncomingPod, with_resolved_priority
from tallygate.objects.scheduling import (
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    SchedulingPod,
    SchedulingPodSpec,
)

NO_SUCH_GROUP = "waiting for pods's pod group {} to appear in scheduling queue"  # as kube-scheduler writes it
NO_QUORUM = "waiting for minCount pods from a gang to appear in scheduling queue"

NO_DEVICE_STATE = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'
"""The error of preemption for a group of which each pod is rejected before DynamicResources looks at it."""

_GATE_PART = " has the feature gate "
_UNKNOWN_GATE = f"whether {{}}{_GATE_PART}{{}} on is not known"
_UNSCHEDULABLE = "pod group is unschedulable"
_NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
_POLICY_NEVER = "pod group preemption: not eligible due to preemptionPolicy=Never."
_DEFAULT_POLICY = "PreemptLowerPriority"
_DEFAULT_SCHEDULER = "default-scheduler"


def find_group_problem(pod: IncomingPod, cluster: Cluster) -> str:
    """Return why the PodGroup of a pod is not modelled; empty if it is."""
    version, groups = cluster.version, cluster.pod_groups
    key = find_group_key(pod.pod)
    if not version.has(Switch.PLACES_POD_GROUPS) or version.has(Switch.CHANGES_POD_GROUPS):
        return f"the rules of Kubernetes {version} for PodGroups are not modelled"
    if key is None:
        unknown = _UNKNOWN_GATE.format("the Job controller", JOB_GATE)
        return "its PodGroup is not known before the controller makes it" if groups.has_job_gate else unknown
    if not groups.has_gate:
        return _UNKNOWN_GATE.format("kube-scheduler", GATE)
    group = groups.find(key)
    if group is None:
        return "" if groups.are_known else "the PodGroups of this cluster are not known"
    return next(_list_unmodelled_fields(group.spec or PodGroupSpec(), groups), "")


def _list_unmodelled_fields(spec: PodGroupSpec, groups: PodGroups) -> Iterator[str]:
    if spec.scheduling_constraints:
        yield "its topology constraints are not modelled"
    if spec.parent_composite_pod_group_name:
        yield f"its CompositePodGroup {spec.parent_composite_pod_group_name} is not modelled"
    has_templates = any(claim.resource_claim_template_name for claim in spec.resource_claims or ())
    if has_templates and not groups.has_claim_gate:
        yield _UNKNOWN_GATE.format("kube-scheduler", CLAIM_GATE)


def is_about_unknown_gate(text: str) -> bool:
    """Return whether a text about what is not modelled says that a feature gate is not known to be on."""
    return _GATE_PART in text


def get_quorum(group: PodGroup) -> int:
    """Return the number of pods that have to have a node for any of them to be bound."""
    policy = (group.spec or PodGroupSpec()).scheduling_policy or PodGroupSchedulingPolicy()
    return policy.gang.min_count if policy.gang is not None else 1


def find_hold_reason(group: PodGroup | None, name: str, present: int) -> str:
    """Return why the pods of a group do not enter the queue yet, with `present` of them stored; empty if they do."""
    if group is None:
        return NO_SUCH_GROUP.format(f'"{name}"')
    is_gang = ((group.spec or PodGroupSpec()).scheduling_policy or PodGroupSchedulingPolicy()).gang is not None
    return NO_QUORUM if is_gang and present < get_quorum(group) else ""


def find_group_error(group: PodGroup, pods: Sequence[IncomingPod], cluster: Cluster) -> str:
    """Return the error of kube-scheduler about pods that differ in what a group shares; empty without one.

    `pods` are the waiting pods in their order, and then those that have a node.

    Raises:
        NoPriorityClassError: if the group names a missing class; the API server rejects such a group.
    """
    priority = _find_priority(group, cluster)
    policy = (group.spec or PodGroupSpec()).preemption_policy or ""
    has_policy = bool(policy)
    scheduler = (pods[0].spec.scheduler_name or _DEFAULT_SCHEDULER) if pods else ""
    for pod in pods:
        own_scheduler = pod.spec.scheduler_name or _DEFAULT_SCHEDULER
        if own_scheduler != scheduler:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{own_scheduler}" and "{scheduler}"'
            )
        if pod.priority != priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's priority, "
                f"got {pod.priority} and {priority}"
            )
        own_policy = pod.spec.preemption_policy or _DEFAULT_POLICY
        policy = policy or own_policy
        if own_policy != policy:
            of_group = " as the pod group's preemption policy" if has_policy else ""
            return (
                f"all pods in a single pod group should have the same preemption policy{of_group}, "
                f"got {own_policy} and {policy}"
            )
    return ""


def _find_priority(group: PodGroup, cluster: Cluster) -> int:
    """Return the priority of a group, as admission sets it for one that is not stored yet; 0 if no class is known.

    Raises:
        NoPriorityClassError: if the group names a missing class; the API server rejects such a group.
    """
    spec = group.spec or PodGroupSpec()
    if spec.priority is not None or not cluster.priority_classes:
        return spec.priority or 0
    pod = SchedulingPod(spec=SchedulingPodSpec(priority_class_name=spec.priority_class_name))
    resolved = with_resolved_priority(pod, cluster.priority_classes).spec or SchedulingPodSpec()
    return resolved.priority or 0


class GroupCycle:
    """The progress of a cycle: of `remaining` pods none was tried yet, and `scheduled` have a node."""

    def __init__(self, quorum: int, scheduled: int, remaining: int) -> None:
        self._quorum, self._scheduled, self._remaining = quorum, scheduled, remaining
        self._has_placed = False

    @property
    def may_succeed(self) -> bool:
        """Whether the quorum can be reached by the remaining pods."""
        return self._scheduled + self._remaining >= self._quorum

    @property
    def has_succeeded(self) -> bool:
        """Whether the pods with a node are bound: the quorum is reached, and one of them is new."""
        return self._scheduled >= self._quorum and self._has_placed

    def record(self, copies: int, placed: int) -> None:
        """Record copies of a pod that are tried one after the other until one has no node, and then each in turn."""
        self._scheduled += placed
        self._remaining -= placed
        self._has_placed = self._has_placed or placed > 0
        for _ in range(copies - placed):
            if not self.may_succeed:
                return
            self._remaining -= 1

    @property
    def shortage(self) -> str:
        """The message about the quorum that cannot be reached, for the pods that were not tried."""
        if self.may_succeed:
            return _UNSCHEDULABLE
        return (
            f"minCount ({self._quorum}) cannot be satisfied: {self._scheduled} scheduled, {self._remaining} remaining"
        )


def describe_preemption(pod: IncomingPod, cluster: Cluster, released: str) -> str | None:
    """Return what preemption adds to the message of a group without its quorum; None if it may find victims.

    `pod` is any pod of the group: all have one priority and one policy. `released` is what became of the claims.
    """
    if pod.spec.preemption_policy == "Never":
        return f"{released}, {_POLICY_NEVER}"
    has_victims = any(other.node and other.group.priority < pod.priority for other in cluster.list_pods())
    return None if has_victims else _NO_VICTIMS


def describe_placed_pod(shortage: str, preemption: str | None) -> str:
    """Return the message for a pod that has a node in a cycle that ends without the quorum."""
    return ", ".join(filter(None, (_UNSCHEDULABLE, shortage, preemption)))
