"""Nodes, quotas, limit ranges and namespaces."""

import msgspec

from webhook.objects.meta import ObjectMeta
from webhook.objects.pods import ResourceList


class NodeStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a node: what it has, and what of that may be used."""

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
    """A namespace: its name and labels are what policies select by."""

    metadata: ObjectMeta | None = None
