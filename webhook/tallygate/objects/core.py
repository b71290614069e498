"""Pods, nodes, quotas, limit ranges and namespaces, with the fields that rules and caps read.

A pod or pod template has its requests, and the fields by which rules and caps select it.
"""

import msgspec

from tallygate.objects.meta import ObjectMeta, StringMap

ResourceList = dict[str, msgspec.Raw]
"""Resource name to quantity, the quantity as the JSON text that was sent (`"3Ki"`, `3`, `null` …)."""


class ResourceClaimReference(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `resources.claims`."""

    name: str | None = None
    request: str | None = None


class ResourceRequirements(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`resources` of a container or of a pod."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: list[ResourceClaimReference] | None = None


class Container(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A container of any kind. `restart_policy` "Always" makes an init container a sidecar."""

    name: str | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None


class PodOS(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.os`."""

    name: str | None = None


class PodResourceClaim(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `spec.resourceClaims`: containers refer to it by name.

    It names a claim, or a template of claims.
    """

    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupReference(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.schedulingGroup`: the PodGroup of a pod."""

    pod_group_name: str | None = None


class PodSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a pod or pod template."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    resource_claims: list[PodResourceClaim] | None = None
    priority_class_name: str | None = None
    node_selector: StringMap | None = None
    node_name: str | None = None
    active_deadline_seconds: int | None = None
    os: PodOS | None = None
    scheduling_group: PodGroupReference | None = None
    scheduler_name: str | None = None
    host_network: bool | None = None
    runtime_class_name: str | None = None


class ContainerStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """The resources of a container that the kubelet reports.

    `resources` are the actual ones, `allocated_resources` the allocated ones.
    """

    name: str | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class PodCondition(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `status.conditions`."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None


class ExtendedResourceClaimStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status.extendedResourceClaimStatus`: the claim that kube-scheduler made for the pod's extended resources."""

    resource_claim_name: str | None = None


class PodStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a pod: the fields that change its charge."""

    phase: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A pod. A pod template is a pod without a status."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None

    @property
    def group_name(self) -> str:
        """The name of its PodGroup, empty without one."""
        group = self.spec.scheduling_group if self.spec is not None else None
        return (group.pod_group_name if group is not None else None) or ""


class NodeStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a node: its capacity, and the part of it that pods may use."""

    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None


class Node(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A node."""

    metadata: ObjectMeta | None = None
    status: NodeStatus | None = None


class ScopeRequirement(msgspec.Struct, rename="camel", frozen=True):
    """One expression of a quota's `scopeSelector`."""

    scope_name: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class ScopeSelector(msgspec.Struct, rename="camel", frozen=True):
    """`spec.scopeSelector` of a quota."""

    match_expressions: list[ScopeRequirement] | None = None


class ResourceQuotaSpec(msgspec.Struct, rename="camel", frozen=True):
    """`spec` of a ResourceQuota."""

    hard: ResourceList | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(msgspec.Struct, rename="camel", frozen=True):
    """`status` of a ResourceQuota."""

    hard: ResourceList | None = None
    used: ResourceList | None = None


class ResourceQuota(msgspec.Struct, rename="camel", frozen=True):
    """A ResourceQuota."""

    metadata: ObjectMeta | None = None
    spec: ResourceQuotaSpec | None = None
    status: ResourceQuotaStatus | None = None


class LimitRangeItem(msgspec.Struct, rename="camel", frozen=True):
    """One entry of `spec.limits` of a LimitRange."""

    type: str | None = None
    max: ResourceList | None = None
    min: ResourceList | None = None
    default: ResourceList | None = None
    default_request: ResourceList | None = None
    max_limit_request_ratio: ResourceList | None = None


class LimitRangeSpec(msgspec.Struct, rename="camel", frozen=True):
    """`spec` of a LimitRange."""

    limits: list[LimitRangeItem] | None = None


class LimitRange(msgspec.Struct, rename="camel", frozen=True):
    """A LimitRange."""

    metadata: ObjectMeta | None = None
    spec: LimitRangeSpec | None = None


class Namespace(msgspec.Struct, rename="camel", frozen=True):
    """A namespace; policies select it by its name and labels."""

    metadata: ObjectMeta | None = None
