"""The metadata of every object, label selectors and node selectors.

Selectors choose pods, namespaces and volumes.
"""

import msgspec

StringMap = dict[str, str]
"""Labels or annotations: key to value."""


class OwnerReference(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `metadata.ownerReferences`: the owner's kind, name and UID, and whether it is the controller."""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    api_version: str | None = None


class ObjectMeta(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`metadata` of any object (k8s.io/apimachinery/pkg/apis/meta/v1, ObjectMeta)."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: StringMap | None = None
    annotations: StringMap | None = None
    owner_references: list[OwnerReference] | None = None


class PartialObjectMetadata(msgspec.Struct, rename="camel", frozen=True):
    """Any object, with only its kind and metadata."""

    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta | None = None


class SelectorRequirement(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One expression of a selector: a key, an operator, and the values to compare with."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A label selector (k8s.io/apimachinery/pkg/apis/meta/v1, LabelSelector)."""

    match_labels: StringMap | None = None
    match_expressions: list[SelectorRequirement] | None = None


class NodeSelectorTerm(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One of the terms of a node selector; any of them may match."""

    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A node selector (k8s.io/api/core/v1, NodeSelector)."""

    node_selector_terms: list[NodeSelectorTerm] | None = None
