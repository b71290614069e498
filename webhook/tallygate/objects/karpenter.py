"""NodePools and NodeClaims of Karpenter (karpenter.sh/v1), with the fields that describe the nodes of a pool.

Source: sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go and nodeclaim.go, v1.8.
"""

import msgspec

from tallygate.objects.core import ResourceList
from tallygate.objects.meta import ObjectMeta, SelectorRequirement
from tallygate.objects.scheduling import Taint


class NodeClaimSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a NodeClaim, and `spec.template.spec` of a NodePool."""

    taints: list[Taint] | None = None
    startup_taints: list[Taint] | None = None
    requirements: list[SelectorRequirement] | None = None


class NodeClaimStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a NodeClaim: the estimated amounts of the node, also before the node exists."""

    node_name: str | None = None
    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None


class NodeClaim(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A NodeClaim: the request for one node."""

    metadata: ObjectMeta | None = None
    spec: NodeClaimSpec | None = None
    status: NodeClaimStatus | None = None


class NodeClaimTemplate(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.template` of a NodePool."""

    metadata: ObjectMeta | None = None
    spec: NodeClaimSpec | None = None


class NodePoolSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a NodePool; one with `replicas` has a fixed number of nodes."""

    template: NodeClaimTemplate | None = None
    limits: ResourceList | None = None
    replicas: int | None = None


class NodePoolStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a NodePool: the capacity of its nodes together."""

    resources: ResourceList | None = None


class KarpenterNodePool(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A NodePool: the template of nodes, and the limits of all of them together."""

    metadata: ObjectMeta | None = None
    spec: NodePoolSpec | None = None
    status: NodePoolStatus | None = None
