"""Pods and nodes with the fields that a scheduler reads, in addition to those of `tallygate.objects.core`.

Rules and caps read pods without these fields, since most pods need no prediction.
"""

import msgspec

from tallygate.objects import core
from tallygate.objects.meta import LabelSelector, NodeSelector, NodeSelectorTerm, ObjectMeta, StringMap


class ContainerPort(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `ports` of a container."""

    container_port: int | None = None
    host_port: int | None = None
    host_ip: str | None = msgspec.field(name="hostIP", default=None)
    protocol: str | None = None


class ContainerRestartRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `restartPolicyRules` of a container."""

    action: str = ""


class SchedulingContainer(core.Container, rename="camel", frozen=True, omit_defaults=True):
    """A container with its ports, and the features that it needs of a node."""

    ports: list[ContainerPort] | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None


class Toleration(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `spec.tolerations`."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class PreferredSchedulingTerm(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A preference of a pod for nodes, with its weight."""

    weight: int = 0
    preference: NodeSelectorTerm | None = None


class NodeAffinity(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`affinity.nodeAffinity`."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A set of pods to be near to or away from, and the topology that defines nearness."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class PodAffinity(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`affinity.podAffinity` or `affinity.podAntiAffinity`, only the required terms."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None


class Affinity(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class WeightedPodAffinityTerm(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A preference of a pod for the nearness of other pods."""

    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinityTerms(PodAffinity, rename="camel", frozen=True, omit_defaults=True):
    """`affinity.podAffinity` or `affinity.podAntiAffinity`, also with the preferred terms."""

    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class PodAffinities(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.affinity`, all that is about other pods."""

    pod_affinity: PodAffinityTerms | None = None
    pod_anti_affinity: PodAffinityTerms | None = None


class PodSpecAffinities(msgspec.Struct, frozen=True):
    """`spec` of a pod or template, with its affinity to other pods alone."""

    affinity: PodAffinities | None = None


class PodWithAffinities(msgspec.Struct, frozen=True):
    """A pod or template, with its affinity to other pods alone."""

    spec: PodSpecAffinities | None = None


class TopologySpreadConstraint(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `spec.topologySpreadConstraints`."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class SchedulingGate(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `spec.schedulingGates`."""

    name: str = ""


class ClaimVolumeSource(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`persistentVolumeClaim` of a volume."""

    claim_name: str = ""
    read_only: bool | None = None


class GoogleDisk(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`gcePersistentDisk` of a volume."""

    pd_name: str = ""
    read_only: bool | None = None


class AmazonDisk(msgspec.Struct, frozen=True, omit_defaults=True):
    """`awsElasticBlockStore` of a volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class ScsiDisk(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`iscsi` of a volume."""

    iqn: str = ""
    read_only: bool | None = None


class CephImage(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`rbd` of a volume; the default of `pool` is the API server's."""

    monitors: list[str] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool | None = None


class DiskReference(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`azureDisk`, `cinder` or `portworxVolume` of a volume."""

    disk_uri: str = msgspec.field(name="diskURI", default="")
    volume_id: str = msgspec.field(name="volumeID", default="")


class Presence(msgspec.Struct, frozen=True):
    """An object of which only the presence is read."""


class Volume(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `spec.volumes`, with the fields that decide where the pod can run."""

    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: Presence | None = None
    gce_persistent_disk: GoogleDisk | None = None
    aws_elastic_block_store: AmazonDisk | None = None
    rbd: CephImage | None = None
    iscsi: ScsiDisk | None = None
    azure_disk: DiskReference | None = None
    cinder: DiskReference | None = None
    portworx_volume: DiskReference | None = None


class SchedulingPodSpec(core.PodSpec, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a pod with all fields that decide where it can run."""

    containers: list[SchedulingContainer] | None = None  # type: ignore[assignment]  # read-only, so that narrower is safe
    init_containers: list[SchedulingContainer] | None = None  # type: ignore[assignment]  # as above
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    volumes: list[Volume] | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    host_users: bool | None = None


class PodResourceClaimStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `status.resourceClaimStatuses`: the claim that was made from the template of this name in the pod.

    Without a name the pod needs no claim for it.
    """

    name: str = ""
    resource_claim_name: str | None = None


class SchedulingPodStatus(core.PodStatus, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a pod with the fields that preemption and claims read."""

    nominated_node_name: str | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    start_time: str | None = None


class SchedulingPod(core.Pod, rename="camel", frozen=True, omit_defaults=True):
    """A pod, or a pod template, with all fields that decide where it can run."""

    spec: SchedulingPodSpec | None = None
    status: SchedulingPodStatus | None = None


class Taint(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `spec.taints` of a node."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a node, with the fields that decide which pods may run there."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class NodeCondition(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `status.conditions` of a node, without the time of its last heartbeat."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class SchedulingNodeStatus(core.NodeStatus, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a node with the features that it declares, and its conditions."""

    declared_features: list[str] | None = None
    conditions: list[NodeCondition] | None = None


class SchedulingNode(core.Node, rename="camel", frozen=True, omit_defaults=True):
    """A node with all fields that decide which pods can run on it."""

    spec: NodeSpec | None = None
    status: SchedulingNodeStatus | None = None


class PriorityClass(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A PriorityClass: the value of a name in `spec.priorityClassName`."""

    metadata: ObjectMeta | None = None
    value: int = 0
    global_default: bool | None = None
    preemption_policy: str | None = None


class RuntimeClassOverhead(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`overhead` of a RuntimeClass: the amounts that each pod needs in addition to those of its containers."""

    pod_fixed: core.ResourceList | None = None


class RuntimeClassScheduling(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`scheduling` of a RuntimeClass: the nodes that have it."""

    node_selector: StringMap | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A RuntimeClass: what admission writes into the pods that name it."""

    metadata: ObjectMeta | None = None
    overhead: RuntimeClassOverhead | None = None
    scheduling: RuntimeClassScheduling | None = None


class PodDisruptionBudgetSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a PodDisruptionBudget."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a PodDisruptionBudget."""

    disruptions_allowed: int = 0
    disrupted_pods: StringMap | None = None


class PodDisruptionBudget(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A PodDisruptionBudget (policy/v1)."""

    metadata: ObjectMeta | None = None
    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None


class GangSchedulingPolicy(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.schedulingPolicy.gang` of a PodGroup: the number of pods that have to run for any of them to start."""

    min_count: int = 1


class PodGroupSchedulingPolicy(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.schedulingPolicy` of a PodGroup; without `gang` its pods start one by one."""

    gang: GangSchedulingPolicy | None = None


class PodGroupResourceClaim(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """An item of `spec.resourceClaims` of a PodGroup: a claim that all its pods may share."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a PodGroup with the fields that decide how its pods are placed."""

    scheduling_policy: PodGroupSchedulingPolicy | None = None
    scheduling_constraints: dict[str, msgspec.Raw] | None = None
    parent_composite_pod_group_name: str | None = None
    resource_claims: list[PodGroupResourceClaim] | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None


class PodGroupCondition(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A condition of a PodGroup."""

    type: str = ""


class PodGroupStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a PodGroup; the claims are those that were made from templates."""

    conditions: list[PodGroupCondition] | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class PodGroup(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A PodGroup (scheduling.k8s.io/v1beta1): pods that kube-scheduler places in one cycle."""

    metadata: ObjectMeta | None = None
    spec: PodGroupSpec | None = None
    status: PodGroupStatus | None = None
